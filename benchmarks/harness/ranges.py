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


class RangeBag(ABC, Generic[R, P]):
    """A bag whose tasks are numbers; a benchmark says what a span of them computes.

    The numbers are kept as spans, which are cut at multiples of a grain only.

    Args:
        spans: Disjoint; each begins at a multiple of ``grain``.
        problem: What the benchmark computes with; every bag has it.

    Attributes:
        result: Makes a result that nothing went into.
        grain: Numbers that stay together.
        work: Numbers processed by this instance.
        spans: The numbers held.
    """

    result: ClassVar[Any]
    grain: ClassVar[int] = 1

    def __init__(self, spans: list[Span], problem: P) -> None:
        self.work = 0
        self.spans = spans
        self._problem = problem
        self._partial: R = type(self).result()

    @classmethod
    def whole(cls, count: int, problem: P) -> Self:
        """Return the bag of all tasks, the numbers below ``count``."""
        return cls([(0, count)] if count else [], problem)

    @abstractmethod
    def _compute(self, first: int, last: int, partial: R) -> None:
        """Fold the tasks [first, last) into ``partial``."""

    def __len__(self) -> int:
        return sum(last - first for first, last in self.spans)

    @property
    def _grains(self) -> int:
        return sum(-(-(last - first) // self.grain) for first, last in self.spans)

    def _take(self, grains: int) -> list[Span]:
        """Remove and return this number of grains, or all that there are."""
        taken: list[Span] = []
        while grains > 0 and self.spans:
            first, last = self.spans.pop()
            cut = min(last, first + grains * self.grain)
            if cut < last:
                self.spans.append((cut, last))
            taken.append((first, cut))
            grains -= -(-(cut - first) // self.grain)
        return taken

    def process(self, n: int) -> bool:
        """Process about ``n`` tasks, whole grains and at least one of them; True while some remain."""
        for first, last in self._take(max(1, -(-n // self.grain))):
            self._compute(first, last, self._partial)
            self.work += last - first
        return bool(self.spans)

    def split(self, all: bool) -> Self | None:
        """Give half of the grains, rounded down, or all of them; None if there is nothing to give."""
        given = self._take(self._grains if all else self._grains // 2)
        return type(self)(given, self._problem) if given else None

    def partition(self, k: int) -> list[Self]:
        """Give everything as ``k`` bags of the same size, up to a grain; the first carries the partial result."""
        grains = self._grains
        shares = [grains * (part + 1) // k - grains * part // k for part in range(k)]
        bags = [type(self)(self._take(share), self._problem) for share in shares]
        bags[0].merge(self)
        return bags

    def merge(self, other: Self) -> None:
        """Take the tasks and the partial result of ``other``."""
        self.spans += other.spans
        other.spans = []
        other.submit(self._partial)

    def is_empty(self) -> bool:
        """Return whether no task is left."""
        return not self.spans

    def is_splittable(self) -> bool:
        """Return whether ``split(False)`` would give something."""
        return self._grains > 1

    def submit(self, result: R) -> None:
        """Move the partial result into ``result``."""
        result.merge(self._partial)
        self._partial = type(self).result()
