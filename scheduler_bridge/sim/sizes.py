"""How many nodes a job had from which time on."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload


class Sizes(Sequence[tuple[float, int]]):
    """Times in seconds and numbers of nodes, as pairs.

    The first pair, which is the only one of most jobs, is kept as it is, and what follows as plain numbers: pairs of
    objects would take five times as much memory, and some jobs are resized thousands of times.

    Args:
        pairs: The first ones.
    """

    __slots__ = ("_first", "_nodes", "_rest")

    def __init__(self, pairs: Iterable[tuple[float, int]] = ()) -> None:
        self._first: float | None = None
        self._nodes = 0
        self._rest: array[float] | None = None
        for time_s, nodes in pairs:
            self.append(time_s, nodes)

    def append(self, time_s: float, nodes: int) -> None:
        """Add what is so from ``time_s`` on."""
        if self._first is None:
            self._first, self._nodes = float(time_s), nodes
            return
        if self._rest is None:
            self._rest = array("d")
        self._rest.append(time_s)
        self._rest.append(nodes)

    def spans(self, end_s: float) -> list[tuple[float, float, int]]:
        """From when to when it had how many nodes, if it ended at ``end_s``: (from, to, nodes)."""
        if self._first is None:
            return []
        if self._rest is None:
            return [(self._first, end_s, self._nodes)]
        pairs = list(self)
        ends_s = [from_s for from_s, _ in pairs[1:]]
        return [(from_s, to_s, nodes) for (from_s, nodes), to_s in zip(pairs, [*ends_s, end_s], strict=True)]

    def __len__(self) -> int:
        if self._first is None:
            return 0
        return 1 if self._rest is None else 1 + len(self._rest) // 2

    def __iter__(self) -> Iterator[tuple[float, int]]:
        if self._first is not None:
            yield self._first, self._nodes
        if self._rest is not None:
            numbers = iter(self._rest)
            for time_s, nodes in zip(numbers, numbers, strict=True):
                yield time_s, int(nodes)

    @overload
    def __getitem__(self, index: int) -> tuple[float, int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[float, int]]: ...
    def __getitem__(self, index: int | slice) -> tuple[float, int] | list[tuple[float, int]]:
        if isinstance(index, slice):
            return list(self)[index]
        place = range(len(self))[index]
        if not place:
            return self._first or 0.0, self._nodes
        assert self._rest is not None
        return self._rest[2 * place - 2], int(self._rest[2 * place - 1])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return repr(list(self))
