"""Pending work sorted by level: what the tree-shaped bags (UTS, N-Queens) keep and what their kernels work on."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Words: TypeAlias = NDArray[np.uint32]
    Integers: TypeAlias = NDArray[np.int64]


class LevelQueue:
    """Entries of ``fields`` 32-bit words, one list per level; a higher level is nearer to the root.

    Args:
        levels: Number of levels; entries are at levels 0 to ``levels - 1``.
        fields: Words per entry.
        capacity: Entries per level that there is room for from the start, as many as the kernel may make of a short
            level. Longer levels come from merging; a kernel shortens them before it adds to them.
        by_field: Whether ``data`` is indexed [level, field, entry], as kernels need it whose lanes are entries;
            otherwise [level, entry, field].

    Attributes:
        data: The words, C-contiguous; a kernel writes it.
        entries: Entries per level; a kernel writes it.
    """

    __slots__ = ("_by_field", "_fields", "data", "entries")

    def __init__(self, levels: int, fields: int, capacity: int, *, by_field: bool) -> None:
        self._fields = fields
        self._by_field = by_field
        self.entries: Integers = np.zeros(levels, np.int64)
        self.data = self._allocate(capacity)

    def _allocate(self, capacity: int) -> Words:
        shape = (self._fields, capacity) if self._by_field else (capacity, self._fields)
        return np.zeros((len(self.entries), *shape), np.uint32)

    def _by_row(self, data: Words) -> Words:
        """Return a view of ``data`` indexed [level, entry, field]."""
        return data.swapaxes(1, 2) if self._by_field else data

    def rows(self, level: int) -> Words:
        """Return the entries of ``level`` as a view of shape (entries, fields)."""
        return self._by_row(self.data)[level, : self.entries[level]]

    def occupied(self) -> list[int]:
        """Return the levels that have entries, the one nearest to the root first."""
        return [level for level in range(len(self.entries) - 1, -1, -1) if self.entries[level]]

    def is_empty(self) -> bool:
        """Tell whether no level has entries."""
        return not self.entries.any()

    def append(self, level: int, rows: Words) -> None:
        """Add ``rows``, of shape (n, fields), to ``level``; the room that a kernel needs stays free."""
        old = int(self.entries[level])
        new = old + len(rows)
        self.reserve(new)
        self._by_row(self.data)[level, old:new] = rows
        self.entries[level] = new

    def reserve(self, entries: int) -> None:
        """Make room for so many entries on every level."""
        room = self._by_row(self.data).shape[1]
        if entries > room:
            data = self._allocate(2 * entries)
            self._by_row(data)[:, :room] = self._by_row(self.data)
            self.data = data

    def drop_first(self, level: int, count: int) -> None:
        """Remove the ``count`` oldest entries of ``level``."""
        kept = self.rows(level)[count:].copy()
        self.entries[level] = len(kept)
        self.rows(level)[:] = kept

    def extend(self, other: LevelQueue) -> None:
        """Move all entries of ``other`` here; it is empty afterwards."""
        for level in other.occupied():
            self.append(level, other.rows(level))
        other.entries[:] = 0

    @property
    def nbytes(self) -> int:
        """Bytes that the entries take on the way."""
        return int(self.entries.sum()) * (self._fields + 1) * self.data.itemsize

    def packed(self) -> Words:
        """Return the entries alone, of shape (n, fields + 1); the last word of each is its level."""
        levels = self.occupied()
        packed = np.empty((int(self.entries.sum()), self._fields + 1), np.uint32)
        position = 0
        for level in levels:
            end = position + int(self.entries[level])
            packed[position:end, :-1] = self.rows(level)
            packed[position:end, -1] = level
            position = end
        return packed

    def unpack(self, packed: Words) -> None:
        """Add the entries that ``packed`` returned elsewhere."""
        levels = packed[:, -1].tolist()
        ends = [i for i in range(1, len(levels)) if levels[i] != levels[i - 1]]
        for begin, end in pairwise([0, *ends, len(levels)] if levels else []):
            self.append(levels[begin], packed[begin:end, :-1])


def shares(pending: Sequence[int], weights: Sequence[float]) -> list[int]:
    """Return how many of the subtrees of each level make up half of the expected work, those nearest to the root first.

    Args:
        pending: Subtrees per level.
        weights: Expected work of one subtree per level.
    """
    given = [0] * len(pending)
    wanted = sum(count * weight for count, weight in zip(pending, weights, strict=True)) / 2
    for level in range(len(pending) - 1, -1, -1):
        given[level] = min(pending[level], int(wanted / weights[level]))
        wanted -= given[level] * weights[level]
    return given
