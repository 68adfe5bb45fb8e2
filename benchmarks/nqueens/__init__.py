"""N-Queens: count the ways to put N queens on an N x N board so that none attacks another."""
