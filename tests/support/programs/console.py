"""Runs what comes in, one JSON object a line, and prints how it ended, until nothing comes any more."""

from __future__ import annotations

import json
import subprocess
import sys

for line in sys.stdin:
    asked = json.loads(line)
    try:
        done = subprocess.run(
            asked["command"], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=asked["timeout_s"], check=False,
        )  # fmt: skip
        answer = {"code": done.returncode, "out": done.stdout, "err": done.stderr}
    except subprocess.TimeoutExpired as late:
        answer = {"code": -1, "out": "", "err": str(late)}
    print(json.dumps(answer), flush=True)
