"""A malleable job that outlives its scheduler: it carries ORDERS orders out, over as many connections as it takes.

Usage: steady_job.py NODES ORDERS FILE; every order that it carries out is a line in FILE.
"""

from __future__ import annotations

import queue
import sys
from pathlib import Path

from apgas.malleability import orders as wire
from apgas.malleability.communicator import from_environment


class Listener:
    def __init__(self) -> None:
        self.orders: queue.Queue[wire.Order | str] = queue.Queue()

    def order(self, order: wire.Order) -> None:
        self.orders.put(order)

    def withdraw(self, order: wire.Withdraw) -> None:
        pass

    def answer(self, answer: wire.Answer) -> None:
        pass

    def scheduler_lost(self, reason: str) -> None:
        self.orders.put(reason)


def main() -> int:
    nodes, left, file = sys.argv[1].split(","), int(sys.argv[2]), Path(sys.argv[3])
    communicator, listener = from_environment(), Listener()
    assert communicator is not None
    communicator.start(listener)
    communicator.send(wire.Ready(nodes=tuple(nodes)))
    while left:
        order = listener.orders.get(timeout=600)
        assert isinstance(order, wire.Grow | wire.Shrink), order
        with file.open("a") as lines:
            lines.write(f"{order.order}\n")
        grows = isinstance(order, wire.Grow)
        moved = order.nodes if grows else tuple(nodes[-order.count :])
        nodes = [*nodes, *moved] if grows else nodes[: -order.count]
        left -= 1
        communicator.send(
            wire.Outcome(
                order=order.order, kind="grow" if grows else "shrink", outcome="done", nodes=moved, seconds=0.1
            )
        )
    communicator.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
