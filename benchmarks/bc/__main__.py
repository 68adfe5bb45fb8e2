"""Start betweenness centrality: ``mpiexec -n 4 python -m benchmarks.bc --scale 14``."""

from __future__ import annotations

from ..harness.app import main

if __name__ == "__main__":
    main(f"{__package__}.command")
