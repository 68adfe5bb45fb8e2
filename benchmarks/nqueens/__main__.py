"""Start N-Queens: ``mpiexec -n 4 python -m benchmarks.nqueens -n 17``."""

from __future__ import annotations

from ..harness.app import main

if __name__ == "__main__":
    main(f"{__package__}.command")
