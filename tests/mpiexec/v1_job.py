"""Stands for a published Java job: speaks protocol v1 with the standard library alone.

Usage: v1_job.py SCHEDULER PORT MANNER NODES; as the published system it opens PORT at an address of its own, reports
to the same PORT of SCHEDULER, but nothing if that is 127.0.0.1, and names all hosts of a shrink at its very end. It
carries orders out as MANNER says. well: as it should; mute: grows without a word; stingy: names too few hosts; liar:
names a host that is not its own; deaf: its port is closed; late: ends a shrink when another caller has come; silent: is
never ready.
"""

from __future__ import annotations

import signal
import socket
import sys


def report(where: tuple[str, int], what: str) -> None:
    if where[0] == "127.0.0.1":
        return
    with socket.create_connection(where) as connection:
        connection.sendall(f"{what}:127.0.0.1\n".encode())


def main() -> int:
    scheduler, manner, nodes = (sys.argv[1], int(sys.argv[2])), sys.argv[3], sys.argv[4].split(",")
    with socket.create_server(("127.0.0.1", scheduler[1])) as server:
        print("ready on", ",".join(nodes), flush=True)
        print(*scheduler, flush=True)
        if manner == "deaf":
            server.close()
        report(scheduler, "nonsense")
        if manner != "silent":
            report(scheduler, "APGAS-Ready")
        if manner in ("deaf", "silent"):
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
                        report(scheduler, f"postGrowTimeGLB;{words[1]};2000000")
                        report(scheduler, f"growTimeAPGAS;{words[1]};250000000")
                elif words[0] == "shrink":
                    report(scheduler, f"preShrinkTimeGLB;{words[1]};1000000")
                    released = [nodes.pop() for _ in range(int(words[1]))]
                    if manner == "stingy":
                        released = released[:-1]
                    if manner == "liar":
                        released[-1] = "n77"
                    if manner == "late":
                        server.accept()[0].close()
                    caller.sendall("".join(f"{node}\n" for node in released).encode())
                    report(scheduler, f"postShrinkTimeGLB;{words[1]};2000000")
                    report(scheduler, f"shrinkTimeAPGAS;{words[1]};10000000")


if __name__ == "__main__":
    sys.exit(main())
