"""Transports, which deliver frames between places."""
