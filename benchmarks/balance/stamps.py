"""A bag that notes when its place has processed how much."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

_stamps: list[tuple[float, int]] = []


class StampedBag:
    """Another bag, whose calls of ``process`` leave a stamp on the place where they are.

    Args:
        inner: The bag.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.work: int = inner.work

    def __len__(self) -> int:
        """Return the number of tasks that are held."""
        return len(self.inner)

    def process(self, n: int) -> bool:
        """Process about ``n`` tasks, and note when that was."""
        more = bool(self.inner.process(n))
        done, self.work = self.inner.work - self.work, self.inner.work
        _stamps.append((time.monotonic(), done))
        return more

    def split(self, all: bool) -> Self | None:
        """Move tasks to a new bag."""
        part = self.inner.split(all)
        return None if part is None else type(self)(part)

    def merge(self, other: Self) -> None:
        """Take over the other's tasks."""
        self.inner.merge(other.inner)

    def is_empty(self) -> bool:
        """Tell whether no task is left."""
        return bool(self.inner.is_empty())

    def is_splittable(self) -> bool:
        """Tell whether ``split`` would yield a bag."""
        return bool(self.inner.is_splittable())

    def submit(self, result: Any) -> None:
        """Fold the partial result into ``result``."""
        self.inner.submit(result)


def take() -> list[tuple[float, int]]:
    """Return the stamps of this place since the last call: s of the machine's monotonic clock, tasks."""
    taken = _stamps[:]
    del _stamps[: len(taken)]
    return taken
