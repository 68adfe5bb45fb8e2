"""How frames travel between places."""
