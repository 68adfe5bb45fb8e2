"""Malleable benchmarks: UTS, N-Queens, betweenness centrality and Pi."""
