"""The 2025 paper: real workloads, of which more and more jobs are malleable, under five strategies."""
