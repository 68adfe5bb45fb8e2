"""Measure what the runtime costs: ``python -m benchmarks.overheads``."""

from __future__ import annotations

import sys

from benchmarks.overheads.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
