"""Interprets the effects of the cores: event loop, activities, process lifetime."""
