"""How fast the kernels are, beside the same algorithms in C and what others offer: ``python -m benchmarks.kernels``."""
