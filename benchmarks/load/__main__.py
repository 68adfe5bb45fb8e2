"""Measure the scheduler under load: ``python -m benchmarks.load``."""

from __future__ import annotations

import sys

from apgas.errors import extras_named

with extras_named():
    from .command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
