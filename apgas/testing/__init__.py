"""Virtual clock, simulated network, checkers and conformance suites, for this project and its users."""
