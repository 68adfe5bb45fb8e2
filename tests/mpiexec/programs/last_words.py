"""A malleable job that waits with its answer to an order, says much before it, and ends at once. Usage: ORDERED GO."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

ordered, go = map(Path, sys.argv[1:])
host, _, port = os.environ["MALLEABLE_SCHEDULER"].rpartition(":")
nodes = os.environ["MALLEABLE_NODES"].split(",")
connection = socket.create_connection((host, int(port)))
lines = connection.makefile("rb")


def say(**message: Any) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


say(type="hello", version=2, job=int(os.environ["MALLEABLE_JOB"]), token=os.environ["MALLEABLE_TOKEN"])
lines.readline()
say(type="ready", nodes=nodes)
order = json.loads(lines.readline())
ordered.touch()
while not go.exists():
    time.sleep(0.01)
for done in range(20):
    say(type="progress", done=float(done))
say(type="outcome", order=order["order"], kind="shrink", outcome="done", nodes=nodes[-1:], reason="", seconds=0.5)
