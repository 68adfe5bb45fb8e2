"""Synthetic work: tasks that spin for drawn times, all known at the start or a tree from one root, checked exactly."""
