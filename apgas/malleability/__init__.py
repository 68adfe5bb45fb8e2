"""Handlers, orders, and where orders come from."""
