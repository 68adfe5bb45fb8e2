"""Measure the kernels: ``python -m benchmarks.kernels``."""

from __future__ import annotations

import sys

from benchmarks.kernels.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
