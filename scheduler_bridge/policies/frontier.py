"""A heap on top of what is sorted already."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

_Item = TypeVar("_Item")


class Frontier(Generic[_Item]):
    """A heap on top of a sequence that is sorted already: of that only as much is looked at as is needed.

    Args:
        rest: The items, lowest rank first.
        rank: Where an item stands; no two items have the same rank.
    """

    def __init__(self, rest: Iterator[_Item], rank: Callable[[_Item], tuple[float, int]]) -> None:
        self._rest = rest
        self._rank = rank
        self._heap: list[tuple[tuple[float, int], _Item]] = []
        self._fresh: tuple[tuple[float, int], _Item] | None = None
        self._look()

    def _look(self) -> None:
        item = next(self._rest, None)
        self._fresh = None if item is None else (self._rank(item), item)

    def __bool__(self) -> bool:
        return self._fresh is not None or bool(self._heap)

    def push(self, rank: tuple[float, int], item: _Item) -> None:
        """Put an item in, perhaps one that was there before."""
        heapq.heappush(self._heap, (rank, item))

    def pop(self) -> tuple[tuple[float, int], _Item]:
        """Take the item of the lowest rank out.

        Raises:
            IndexError: There is none.
        """
        if self._fresh is None or (self._heap and self._heap[0][0] < self._fresh[0]):
            return heapq.heappop(self._heap)
        first = self._fresh
        self._look()
        return first

    def turns(self, sizes: range, rank: Callable[[int], tuple[float, int]]) -> int:
        """How often in a row the item just taken out has its turn, if it ranks so by the sizes to come, rising."""
        others = [entry[0] for entry in (self._fresh, self._heap[0] if self._heap else None) if entry is not None]
        return 1 + (bisect_left(sizes, min(others), key=rank) if others else len(sizes))
