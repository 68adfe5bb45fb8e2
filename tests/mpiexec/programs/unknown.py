"""A malleable job whose scheduler has lost it: asks the next one for a node, and waits for FILE.go before it ends.

Usage: unknown.py NODES FILE; what is answered, or that the scheduler is lost, is a line in FILE.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from apgas.malleability import orders as wire
from apgas.malleability.communicator import from_environment

FILE = Path(sys.argv[2])


class Listener:
    def order(self, order: wire.Order) -> None:
        self.scheduler_lost(f"an order came: {order}")

    def withdraw(self, order: wire.Withdraw) -> None:
        self.scheduler_lost(f"a withdrawal came: {order}")

    def answer(self, answer: wire.Answer) -> None:
        self.scheduler_lost(answer.reason)

    def scheduler_lost(self, reason: str) -> None:
        with FILE.open("a") as lines:
            lines.write(f"{reason}\n")


def main() -> None:
    communicator = from_environment()
    assert communicator is not None
    communicator.start(Listener())
    communicator.send(wire.Ready(nodes=tuple(sys.argv[1].split(","))))
    while not FILE.with_suffix(".ask").exists():
        time.sleep(0.05)
    communicator.send(wire.Evolving(request=1, delta=1))
    while not FILE.with_suffix(".go").exists():
        time.sleep(0.05)
    communicator.close()


if __name__ == "__main__":
    main()
