"""Start Monte Carlo Pi: ``mpiexec -n 4 python -m benchmarks.pi --samples 1e10``."""

from __future__ import annotations

from ..harness.app import main

if __name__ == "__main__":
    main(f"{__package__}.command")
