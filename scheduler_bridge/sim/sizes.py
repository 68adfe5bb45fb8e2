"""How many nodes a job had from which time on."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload


class Sizes(Sequence[tuple[float, int]]):
    """Times in seconds and numbers of nodes, as pairs.

    They are kept as plain numbers: pairs of objects would take five times as much memory, and some jobs are resized
    thousands of times.

    Args:
        pairs: The first ones.
    """

    __slots__ = ("_numbers",)

    def __init__(self, pairs: Iterable[tuple[float, int]] = ()) -> None:
        self._numbers = array("d")
        for time_s, nodes in pairs:
            self.append(time_s, nodes)

    def append(self, time_s: float, nodes: int) -> None:
        """Add what is so from ``time_s`` on."""
        self._numbers.append(time_s)
        self._numbers.append(nodes)

    def spans(self, end_s: float) -> list[tuple[float, float, int]]:
        """From when to when it had how many nodes, if it ended at ``end_s``: (from, to, nodes)."""
        numbers, spans = self._numbers, []
        to_s = end_s
        for place in range(len(numbers) - 2, -1, -2):
            from_s: float = numbers[place]
            spans.append((from_s, to_s, int(numbers[place + 1])))
            to_s = from_s
        spans.reverse()
        return spans

    def __len__(self) -> int:
        return len(self._numbers) // 2

    def __iter__(self) -> Iterator[tuple[float, int]]:
        numbers = iter(self._numbers)
        return ((time_s, int(nodes)) for time_s, nodes in zip(numbers, numbers, strict=True))

    @overload
    def __getitem__(self, index: int) -> tuple[float, int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[float, int]]: ...
    def __getitem__(self, index: int | slice) -> tuple[float, int] | list[tuple[float, int]]:
        if isinstance(index, slice):
            return list(self)[index]
        place = range(len(self))[index]
        return self._numbers[2 * place], int(self._numbers[2 * place + 1])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return repr(list(self))
