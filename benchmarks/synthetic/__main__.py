"""Start synthetic work: ``mpiexec -n 4 python -m benchmarks.synthetic --work 20``."""

from __future__ import annotations

from ..harness.app import main

if __name__ == "__main__":
    main(f"{__package__}.command")
