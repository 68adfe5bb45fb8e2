"""Tasks that are numbers: what the static bags (BC, Pi) hold."""

from __future__ import annotations

from typing import TypeAlias

Span: TypeAlias = tuple[int, int]
"""The numbers from the first, inclusive, to the second, exclusive."""


class Ranges:
    """A set of numbers kept as spans; it is cut at multiples of a grain only.

    Args:
        spans: Disjoint spans; each begins at a multiple of ``grain``.
        grain: Numbers that stay together, at least 1.
    """

    __slots__ = ("_grain", "_size", "_spans")

    def __init__(self, spans: list[Span], grain: int) -> None:
        self._spans = [span for span in spans if span[0] < span[1]]
        self._grain = grain
        self._size = sum(last - first for first, last in self._spans)

    def __len__(self) -> int:
        return self._size

    @property
    def spans(self) -> list[Span]:
        """The spans, as a copy."""
        return list(self._spans)

    def is_splittable(self) -> bool:
        """Tell whether there are two grains, so that both sides get something."""
        return self._size > self._grain

    def take(self, count: int) -> list[Span]:
        """Remove and return about ``count`` numbers: whole grains, at least one of them while there is any."""
        wanted = max(1, -(-count // self._grain)) * self._grain
        taken: list[Span] = []
        while wanted > 0 and self._spans:
            first, last = self._spans.pop()
            cut = min(last, first + wanted)
            if cut < last:
                self._spans.append((cut, last))
            taken.append((first, cut))
            self._size -= cut - first
            wanted -= cut - first
        return taken

    def take_half(self) -> Ranges:
        """Remove and return half of the grains, rounded down."""
        grains = -(-self._size // self._grain) // 2
        return Ranges(self.take(grains * self._grain) if grains else [], self._grain)

    def take_all(self) -> Ranges:
        """Remove and return everything."""
        return Ranges(self.take(self._size) if self._size else [], self._grain)

    def add(self, other: Ranges) -> None:
        """Take over the numbers of ``other``, which is empty afterwards."""
        self._size += other._size
        self._spans += other._spans
        other._spans, other._size = [], 0

    def partition(self, parts: int) -> list[Ranges]:
        """Remove everything and return it as ``parts`` sets of the same size, up to a grain."""
        grains = -(-self._size // self._grain)
        shares = [grains * (part + 1) // parts - grains * part // parts for part in range(parts)]
        return [Ranges(self.take(share * self._grain) if share else [], self._grain) for share in shares]
