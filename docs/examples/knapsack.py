"""The 0/1 knapsack problem by branch and bound, on all places: `mpiexec -n 4 python docs/examples/knapsack.py`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from random import Random
from typing import NamedTuple

import apgas
from glb import search


class Choice(NamedTuple):
    """A node: the first `decided` items are taken or left, the others are open."""

    decided: int
    value: int
    room: int


@dataclass(frozen=True)
class Knapsack:
    items: list[tuple[int, int]]  # (value, weight) of each, the most valuable by weight first
    capacity: int

    def children(self, node: Choice) -> Iterator[Choice]:
        if node.decided < len(self.items):
            value, weight = self.items[node.decided]
            if weight <= node.room:
                yield Choice(node.decided + 1, node.value + value, node.room - weight)
            yield Choice(node.decided + 1, node.value, node.room)

    def bound(self, node: Choice) -> int:
        """No node below is worth more: fill the room with the best items, and a part of the next."""
        _, total, room = node
        for value, weight in self.items[node.decided :]:
            if weight > room:
                return total + value * room // weight
            total, room = total + value, room - weight
        return total


def problem(items: int, seed: int) -> Knapsack:
    rng = Random(seed)
    weights = [rng.randint(1000, 2000) for _ in range(items)]
    pairs = [(weight + rng.randint(90, 110), weight) for weight in weights]
    return Knapsack(sorted(pairs, key=lambda pair: -pair[0] / pair[1]), sum(weights) // 2)


def main() -> None:
    task = problem(items=30, seed=3)
    root = Choice(0, 0, task.capacity)
    outcome = search.maximize(root, task.children, attrgetter("value"), task.bound)
    print("best value:", outcome.result.value, "- places:", len(outcome.places))


if __name__ == "__main__":
    apgas.run(main)
