"""What people see of a run: the picture, the page and the tables, all drawn from its record."""
