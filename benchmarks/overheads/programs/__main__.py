"""Start a contender: ``python -m benchmarks.overheads.programs NAME CONFIG``, with the config as JSON."""

from __future__ import annotations

import importlib
import sys

from ...harness.channel import Channel
from .serve import Config

if __name__ == "__main__":
    channel = Channel()
    importlib.import_module(f"{__package__}.{sys.argv[1]}").main(Config.parse(sys.argv[2]), channel)
