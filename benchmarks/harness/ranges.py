"""Tasks that are numbers: what the static bags (BC, Pi) hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeAlias, TypeVar

if TYPE_CHECKING:
    from glb.bag import Result

R = TypeVar("R", bound="Result")
P = TypeVar("P")

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

    @property
    def _grains(self) -> int:
        return sum(-(-(last - first) // self._grain) for first, last in self._spans)

    def is_splittable(self) -> bool:
        """Return whether there are two grains, so that both sides get something."""
        return self._grains > 1

    def take(self, count: int) -> list[Span]:
        """Remove and return about ``count`` numbers: whole grains, at least one of them while there is any."""
        return self._take_grains(max(1, -(-count // self._grain)))

    def _take_grains(self, wanted: int) -> list[Span]:
        taken: list[Span] = []
        while wanted > 0 and self._spans:
            first, last = self._spans.pop()
            cut = min(last, first + wanted * self._grain)
            if cut < last:
                self._spans.append((cut, last))
            taken.append((first, cut))
            self._size -= cut - first
            wanted -= -(-(cut - first) // self._grain)
        return taken

    def split(self, all: bool) -> Ranges:
        """Remove and return half of the grains, rounded down, or everything."""
        return Ranges(self._take_grains(self._grains if all else self._grains // 2), self._grain)

    def add(self, other: Ranges) -> None:
        """Take over the numbers of ``other``, which is empty afterwards."""
        self._size += other._size
        self._spans += other._spans
        other._spans, other._size = [], 0

    def partition(self, parts: int) -> list[Ranges]:
        """Remove everything and return it as ``parts`` sets of the same size, up to a grain."""
        grains = self._grains
        shares = [grains * (part + 1) // parts - grains * part // parts for part in range(parts)]
        return [Ranges(self._take_grains(share), self._grain) for share in shares]


class RangeBag(ABC, Generic[R, P]):
    """A bag whose tasks are numbers; a benchmark says what a span of them computes.

    Args:
        tasks: The numbers held.
        problem: What the benchmark computes with; every bag has it.

    Attributes:
        result: Makes a result that nothing went into.
        grain: Numbers that stay together.
        work: Numbers processed by this instance.
    """

    result: ClassVar[Any]
    grain: ClassVar[int] = 1

    def __init__(self, tasks: Ranges, problem: P) -> None:
        self.work = 0
        self._tasks = tasks
        self._problem = problem
        self._partial: R = type(self).result()

    @classmethod
    def whole(cls, count: int, problem: P) -> Self:
        """Return the bag of all tasks, the numbers below ``count``."""
        return cls(Ranges([(0, count)], cls.grain), problem)

    def _with(self, tasks: Ranges) -> Self:
        """Return a bag for the same problem that holds ``tasks`` and a neutral partial result."""
        return type(self)(tasks, self._problem)

    @abstractmethod
    def _compute(self, first: int, last: int, partial: R) -> None:
        """Fold the tasks [first, last) into ``partial``."""

    def __len__(self) -> int:
        return len(self._tasks)

    def process(self, n: int) -> bool:
        """Process about ``n`` tasks; True while some remain."""
        for first, last in self._tasks.take(n):
            self._compute(first, last, self._partial)
            self.work += last - first
        return bool(self._tasks)

    def split(self, all: bool) -> Self | None:
        """Give half of the tasks, or all of them; None if there is nothing to give."""
        given = self._tasks.split(all)
        return self._with(given) if given else None

    def partition(self, k: int) -> list[Self]:
        """Give everything as ``k`` bags of the same size; the first carries the partial result."""
        bags = [self._with(tasks) for tasks in self._tasks.partition(k)]
        bags[0].merge(self)
        return bags

    def merge(self, other: Self) -> None:
        """Take the tasks and the partial result of ``other``."""
        self._tasks.add(other._tasks)
        other.submit(self._partial)

    def is_empty(self) -> bool:
        """Return whether no task is left."""
        return not self._tasks

    def is_splittable(self) -> bool:
        """Return whether ``split(False)`` would give something."""
        return self._tasks.is_splittable()

    def submit(self, result: R) -> None:
        """Move the partial result into ``result``."""
        result.merge(self._partial)
        self._partial = type(self).result()
