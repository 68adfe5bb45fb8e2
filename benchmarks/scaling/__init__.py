"""How far it scales: measured on one machine with emulated nodes, and modelled beyond."""
