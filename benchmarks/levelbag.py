"""The common part of the bags of the tree-shaped benchmarks (UTS, N-Queens): pending subtrees by level."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Generic, Self, TypeAlias, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words: TypeAlias = NDArray[np.uint32]
    Integers: TypeAlias = NDArray[np.int64]


P = TypeVar("P")

GIFT_TASKS: Final = 256
"""A subtree that is expected to be smaller is not worth a message, unless workers are slow."""
_GIFT_S: Final = 0.0001
"""What takes a slow worker longer than this is worth a message, for it may be all that is left."""


@dataclass(slots=True)
class Count:
    """A number of things found, which folds by addition."""

    value: int = 0

    def merge(self, other: Count) -> None:
        """Add ``other``."""
        self.value += other.value


class LevelBag(ABC, Generic[P]):
    """Subtrees still to be searched, in a level queue, and what was counted so far.

    An entry stands for a parent with some of its children pending; a child and all below it is a whole subtree, the
    unit in which work is given away. Only the live entries are pickled, as one buffer (out of band with protocol 5).

    Args:
        problem: What is searched.
        count: What was counted already.
        packed: The pending entries, as ``LevelQueue.packed`` returned them; none by default.
        gift_tasks: A subtree that is expected to be smaller is not given away; what is split off has the same bound.

    Attributes:
        gift_tasks: The bound of gifts.
        work: Tasks that this instance processed; neither ``split`` nor ``merge`` nor pickling carries it over.
        count: The partial result.
        queue: The pending entries.
    """

    __slots__ = ("_problem", "_weights", "count", "gift_tasks", "queue", "work")

    def __init__(self, problem: P, count: int = 0, packed: Words | None = None, gift_tasks: int = GIFT_TASKS) -> None:
        self._problem = problem
        self.queue, self._weights = self._begin(problem)
        self.gift_tasks = gift_tasks
        self.count = count
        self.work = 0
        if packed is not None:
            self.queue.unpack(packed)

    @abstractmethod
    def _begin(self, problem: P) -> tuple[LevelQueue, Sequence[float]]:
        """Prepare the search; return an empty queue, and the expected number of tasks in one subtree, per level."""

    @abstractmethod
    def process(self, n: int) -> bool:
        """Process about ``n`` tasks, a vector's worth at least; return whether tasks remain."""

    def __reduce__(self) -> tuple[type[Self], tuple[P, int, Words, int]]:
        return type(self), (self._problem, self.count, self.queue.packed(), self.gift_tasks)

    @staticmethod
    @abstractmethod
    def _subtrees(rows: Words) -> list[int]:
        """Return the pending subtrees of each of ``rows``, at least 1 each."""

    @staticmethod
    @abstractmethod
    def _divide(row: Words, subtrees: int) -> Words:
        """Remove some, not all, of the subtrees of an entry, in place, and return an entry with those removed."""

    def __len__(self) -> int:
        """Return the number of pending subtrees; ``split`` and ``merge`` conserve it."""
        return sum(sum(self._subtrees(self.queue.rows(level))) for level in self.queue.occupied())

    @property
    def nbytes(self) -> int:
        """Bytes that the pending entries take on the way."""
        return self.queue.nbytes

    def is_empty(self) -> bool:
        """Return whether no task is left."""
        return self.queue.is_empty()

    def is_splittable(self) -> bool:
        """Return whether there are two subtrees worth a message."""
        found = 0
        for level in self.queue.occupied():
            if self._weights[level] < self.gift_tasks:
                continue
            rows = self.queue.rows(level)
            if len(rows) > 1:
                return True
            found += sum(self._subtrees(rows))
            if found > 1:
                return True
        return False

    def split(self, all: bool) -> Self | None:
        """Give away half of the expected work in whole subtrees, those nearest to the root first; or everything.

        The partial result stays here. Returns None if there is nothing to give.
        """
        if self.is_empty() if all else not self.is_splittable():
            return None
        given = type(self)(self._problem, gift_tasks=self.gift_tasks)
        if all:
            given.queue.extend(self.queue)
            return given
        worthy = [level for level in self.queue.occupied() if self._weights[level] >= self.gift_tasks]
        subtrees = [self._subtrees(self.queue.rows(level)) for level in worthy]
        wanted = shares([sum(level) for level in subtrees], [self._weights[level] for level in worthy])
        for level, counts, share in zip(worthy, subtrees, wanted, strict=True):
            self._give(given, level, counts, share)
        return given

    def _give(self, given: Self, level: int, counts: list[int], share: int) -> None:
        """Move ``share`` subtrees of ``level``, whose entries have ``counts`` of them, the oldest entries first."""
        whole = 0
        while whole < len(counts) and counts[whole] <= share:
            share -= counts[whole]
            whole += 1
        if share:
            part = self._divide(self.queue.rows(level)[whole], share)
            given.queue.append(level, part.reshape(1, -1))
        if whole:
            given.queue.append(level, self.queue.rows(level)[:whole])
            self.queue.drop_first(level, whole)

    def merge(self, other: Self) -> None:
        """Take over the tasks and the partial result of ``other``, which has neither afterwards."""
        self.queue.extend(other.queue)
        self.count += other.count
        other.count = 0

    def submit(self, result: Count) -> None:
        """Fold the partial result into ``result`` and clear it here."""
        result.value += self.count
        self.count = 0


def gift_tasks(rate: float | None) -> int:
    """Return the least subtree worth a message where workers are held to ``rate`` tasks per second; None: to none."""
    return GIFT_TASKS if rate is None else max(1, min(GIFT_TASKS, round(rate * _GIFT_S)))


# Pending work sorted by level: what the tree-shaped bags (UTS, N-Queens) keep and what their kernels work on ---------


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
        """Return whether no level has entries."""
        return not self.entries.any()

    def append(self, level: int, rows: Words) -> None:
        """Add ``rows``, of shape (n, fields), to ``level``; the room that a kernel needs stays free."""
        old = int(self.entries[level])
        new = old + len(rows)
        self.reserve(new)
        self._by_row(self.data)[level, old:new] = rows
        self.entries[level] = new

    def reserve(self, entries: int) -> None:
        """Make room for ``entries`` entries on every level."""
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
    """Return how many of the subtrees of each level, the first ones first, make up half of the expected work.

    ``pending`` are the subtrees of each level, ``weights`` the expected work of one of them.
    """
    given = []
    wanted = sum(count * weight for count, weight in zip(pending, weights, strict=True)) / 2
    for count, weight in zip(pending, weights, strict=True):
        given.append(min(count, int(wanted / weight)))
        wanted -= given[-1] * weight
    return given
