"""What the soak counts: who did which activity in which wave, on places that come and go."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

ROOTS: Final = 12
DEPTH: Final = 5
_MASK: Final = (1 << 64) - 1


def mix(number: int) -> int:
    """Scramble 64 bits (the finalizer of SplitMix64), so that a sum tells sets of numbers apart."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)


@dataclass(slots=True)
class Tally:
    """A multiset of activities: how many, and a digest that tells which."""

    count: int = 0
    digest: int = 0

    def note(self, number: int) -> None:
        """Count the activity ``number``."""
        self.count += 1
        self.digest = (self.digest + mix(number)) & _MASK

    def add(self, other: Tally) -> None:
        """Count all of another tally."""
        self.count += other.count
        self.digest = (self.digest + other.digest) & _MASK


@dataclass(frozen=True, slots=True)
class Plan:
    """What an activity is to be, which its number decides: everybody can compute the whole tree of a wave."""

    number: int
    depth: int

    @property
    def fails(self) -> bool:
        """Whether it raises an error after its work."""
        return mix(self.number ^ 1) % 53 == 0

    @property
    def is_called(self) -> bool:
        """Whether its parent waits for it (``at``) instead of leaving it to the finish (``async_at``)."""
        return self.depth < DEPTH and mix(self.number ^ 2) % 8 == 0

    @property
    def cargo_bytes(self) -> int:
        """How much data it carries: mostly nothing, at times a lot."""
        luck = mix(self.number ^ 3) % 100
        if luck >= 12:
            return 0
        return (1 << 20) + luck if luck < 2 else 4096 * (1 + mix(self.number ^ 4) % 32)

    def children(self) -> Iterator[Plan]:
        """Those that it starts."""
        if self.depth == 0:
            return
        for child in range(1 + mix(self.number ^ 5) % 2):
            yield Plan(mix(self.number * 4 + child), self.depth - 1)


def roots(wave: int, seed: int) -> list[Plan]:
    """The activities that a wave begins with."""
    return [Plan(mix(mix(seed) ^ (wave * 1000 + root)), DEPTH) for root in range(ROOTS)]


@dataclass(slots=True)
class Expected:
    """What must have happened when a wave is over; ``errors``: how many its finish is to tell."""

    tally: Tally
    errors: int = 0


def expected(wave: int, seed: int) -> Expected:
    """Compute what a wave does, without doing it."""
    result = Expected(Tally())
    open_plans = roots(wave, seed)
    while open_plans:
        plan = open_plans.pop()
        result.tally.note(plan.number)
        result.errors += plan.fails and not plan.is_called
        open_plans += plan.children()
    return result


class Book:
    """One place's tallies by wave; a leaver's is closed, and what still happens there is told to place 0."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tallies: dict[int, Tally] = {}
        self._closed = False

    def note(self, wave: int, number: int) -> bool:
        """Count an activity; False if the book is closed."""
        with self._lock:
            if self._closed:
                return False
            self._tallies.setdefault(wave, Tally()).note(number)
            return True

    def take(self, wave: int) -> Tally:
        """Hand over what a wave did here."""
        with self._lock:
            return self._tallies.pop(wave, Tally())

    def add(self, wave: int, tally: Tally) -> None:
        """Take over what a wave did on a leaver."""
        with self._lock:
            self._tallies.setdefault(wave, Tally()).add(tally)

    def close(self) -> dict[int, Tally]:
        """Hand everything over; from now on ``note`` refuses."""
        with self._lock:
            self._closed = True
            tallies, self._tallies = self._tallies, {}
            return tallies

    def reopen(self) -> None:
        """The place stays after all."""
        with self._lock:
            self._closed = False

    def waves(self) -> list[int]:
        """The waves that something is noted of."""
        with self._lock:
            return sorted(self._tallies)
