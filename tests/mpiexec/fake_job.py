"""Stands for a malleable program: speaks the wire protocol with the standard library alone.

Usage: fake_job.py NODES ANSWER [ORDERS]

NODES are the nodes it runs on, separated by commas; ANSWER is what it does with orders: done, refused or silent; it
ends after ORDERS outcomes (default 1). With ``stubborn`` it ignores TERM, leaves a process in a session of its own that
ignores it too, and stays.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any


def send(connection: socket.socket, **message: Any) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def stay_stubbornly() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True)  # TERM stays ignored across exec.
    print("stubborn", flush=True)
    while True:
        signal.pause()


def main() -> int:
    nodes, answer = sys.argv[1].split(","), sys.argv[2]
    left = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    if os.environ.get("PMI_RANK", "0") != "0":
        return 0
    host, _, port = os.environ["MALLEABLE_SCHEDULER"].rpartition(":")
    with socket.create_connection((host, int(port))) as connection, connection.makefile("rb") as lines:
        send(
            connection,
            type="hello",
            version=2,
            job=int(os.environ["MALLEABLE_JOB"]),
            token=os.environ["MALLEABLE_TOKEN"],
        )
        assert json.loads(lines.readline())["type"] == "welcome"
        if answer == "stubborn":
            stay_stubbornly()
        send(connection, type="ready", nodes=nodes)
        print("ready", os.environ.get("PMI_HOSTNAME"), os.environ["TMPDIR"], flush=True)
        while left and (line := lines.readline()):
            order = json.loads(line)
            if order["type"] not in ("grow", "shrink") or answer == "silent":
                continue
            moved = order["nodes"] if order["type"] == "grow" else nodes[-order["count"] :]
            if answer == "done":
                nodes = nodes + moved if order["type"] == "grow" else nodes[: -order["count"]]
            send(
                connection,
                type="outcome",
                order=order["order"],
                kind=order["type"],
                outcome=answer,
                nodes=moved if answer == "done" else [],
                reason="" if answer == "done" else "it is only a fake",
                seconds=0.5,
            )
            left -= 1
        return 0 if not left else 3


if __name__ == "__main__":
    sys.exit(main())
