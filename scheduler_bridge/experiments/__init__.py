"""The papers' experiments, repeated: each ends in tables beside the papers' numbers, in figures and in data."""
