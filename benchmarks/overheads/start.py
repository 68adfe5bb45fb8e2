"""Start a contender: ``python -m benchmarks.overheads.start MODULE.FUNCTION CONFIG``, with the config as JSON."""

from __future__ import annotations

import importlib
import json
import sys

from ..compare.contender import Channel, Config

if __name__ == "__main__":
    channel = Channel()
    module, _, function = sys.argv[1].partition(".")
    getattr(importlib.import_module(f"{__package__}.{module}"), function)(Config(*json.loads(sys.argv[2])), channel)
