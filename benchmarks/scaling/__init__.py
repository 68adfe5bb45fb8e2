"""How far it scales: modelled beyond the machines that are at hand."""
