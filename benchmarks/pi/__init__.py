"""Monte Carlo Pi on counter-based random numbers: static work whose result does not depend on who computes what."""
