"""What balancing costs: the balancer's rates beside those of the bare kernel: ``python -m benchmarks.balance``."""
