"""The bag of tasks and the result that a program brings."""

from __future__ import annotations

from typing import Protocol, Self, TypeVar

R_contra = TypeVar("R_contra", contravariant=True)


class Result(Protocol):
    """The outcome of a computation. Picklable, because partial results travel between places."""

    def merge(self, other: Self) -> None:
        """Fold ``other`` into this result. Order and grouping of merges must not matter."""


class Bag(Protocol[R_contra]):
    """Tasks that can be processed, split and merged, with the partial result of those processed so far.

    Picklable. Only one thread uses a bag at a time. ``glb.testing.check_bag`` tries an implementation for the mistakes
    that lose or double work.

    A bag may also have ``__len__`` (the number of tasks held, checked whenever a bag is split or travels) and
    ``partition(k) -> list`` (k bags of about the same work, for a static start; by default the bag is split in halves),
    and ``nbytes`` (its size, by which the places are chosen that leave).

    ``process`` may run in several threads of a place at once, each with a bag of its own. That is worth it for kernels
    that release the GIL. A bag in plain Python does not, and says so by ``releases_gil = False`` in its class: then
    there is one worker per place unless ``Config.workers`` says otherwise, and more cores are used by more places.

    Attributes:
        work: Number of tasks that this instance has processed; ``merge`` and ``split`` do not move it.
    """

    work: int

    def process(self, n: int) -> bool:
        """Process up to about ``n`` tasks and return True while tasks remain.

        No lock is held during the call; a kernel should release the GIL.
        """

    def split(self, all: bool) -> Bag[R_contra] | None:
        """Move about half of the tasks to a new bag, or everything with ``all``; None if there is nothing to give.

        Where a call of ``process`` takes 5 ms or more, each task is split off about once before it is processed.
        """

    def merge(self, other: Self) -> None:
        """Take ``other``'s tasks, and any partial result that it carries, even if it has no tasks."""

    def is_empty(self) -> bool:
        """Return whether no task is left."""

    def is_splittable(self) -> bool:
        """Return whether ``split(False)`` would yield a bag."""

    def submit(self, result: R_contra) -> None:
        """Fold this bag's partial result into ``result`` and clear it."""
