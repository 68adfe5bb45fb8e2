"""Stands for a published Java job: speaks protocol v1 with the standard library alone.

Usage: v1_job.py SCHEDULER PORT MANNER NODES; opens PORT, reports to SCHEDULER, and carries orders out as MANNER says.
well: as it should; mute: grows without a word; stingy: names too few hosts; liar: names a host that is not its own;
deaf: its port is closed.
"""

from __future__ import annotations

import signal
import socket
import sys


def report(scheduler: str, what: str) -> None:
    host, _, port = scheduler.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"{what}:127.0.0.1\n".encode())


def main() -> int:
    scheduler, port, manner, nodes = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4].split(",")
    with socket.create_server(("127.0.0.1", port)) as server:
        print("ready on", ",".join(nodes), flush=True)
        if manner == "deaf":
            server.close()
        report(scheduler, "nonsense")
        report(scheduler, "APGAS-Ready")
        if manner == "deaf":
            signal.pause()
        while True:
            caller, _ = server.accept()
            with caller, caller.makefile("r") as lines:
                words = lines.readline().split()
                print("order", *words, flush=True)
                if words[0] == "grow":
                    nodes += words[2:]
                    if manner != "mute":
                        report(scheduler, f"preGrowTimeGLB;{words[1]};1000000")
                        report(scheduler, f"growTimeAPGAS;{words[1]};250000000")
                elif words[0] == "shrink":
                    released = [nodes.pop() for _ in range(int(words[1]))]
                    if manner == "stingy":
                        released = released[:-1]
                    if manner == "liar":
                        released[-1] = "n77"
                    caller.sendall("".join(f"{node}\n" for node in released).encode())
                    report(scheduler, f"shrinkTimeAPGAS;{words[1]};1000000")


if __name__ == "__main__":
    sys.exit(main())
