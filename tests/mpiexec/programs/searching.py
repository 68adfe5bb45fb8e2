"""Searches on real places under orders; prints one JSON object: `searching.py ORDERS`."""

from __future__ import annotations

import json
import sys

import apgas
import glb
from glb import search

Board = tuple[int, ...]
SIZE = 9
SOLUTIONS = 352
NODES = 8394
"""Boards of `SIZE` rows with queens in the first ones, none of which attacks another."""
BEST = 863175024
EMPTY: Board = ()


def children(queens: Board) -> list[Board]:
    row = len(queens)
    return [
        (*queens, column)
        for column in range(SIZE if row < SIZE else 0)
        if all(column != other and abs(column - other) != row - at for at, other in enumerate(queens))
    ]


def as_number(queens: Board) -> int:
    return int("0" + "".join(map(str, queens)))


def value(queens: Board) -> int | None:
    """Not the same for two boards."""
    return as_number(queens) if len(queens) == SIZE else None


def bound(queens: Board) -> int:
    return (as_number(queens) + 1) * int(10 ** (SIZE - len(queens)))


def main() -> None:
    search.fold(EMPTY, children)  # before the first one orders are refused
    orders = sys.argv[1]
    apgas.schedule_orders(orders)
    rounds, wrong = 0, []
    while len(apgas.resizes()) < orders.count(":") and rounds < 500:
        rounds += 1
        config = glb.Config(seed=rounds)
        nodes = search.fold(EMPTY, children, config=config)
        boards = search.fold(EMPTY, children, lambda queens: 1 if len(queens) == SIZE else None, config=config)
        found = search.find(EMPTY, children, lambda queens: len(queens) == SIZE, config=config).result.node
        greatest = search.maximize(EMPTY, children, value, bound, config=config).result
        right = (
            nodes.result.value == nodes.statistics.tasks == NODES,
            boards.result.value == SOLUTIONS,
            found is not None and not any(children(found)) and len(found) == SIZE,
            greatest.value == as_number(greatest.node or EMPTY) == BEST,
        )
        if not all(right):
            wrong.append((rounds, right, nodes.result.value, greatest.node))
    document = {
        "wrong": wrong,
        "rounds": rounds,
        "outcomes": [record.outcome for record in apgas.resizes()],
        "places": [place.id for place in apgas.places()],
    }
    print(json.dumps(document))


if __name__ == "__main__":
    apgas.run(main)
