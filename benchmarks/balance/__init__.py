"""The costs of balancing: the balancer's rates beside those of the bare kernel: ``python -m benchmarks.balance``."""
