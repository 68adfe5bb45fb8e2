"""Lifeline-based global load balancing."""
