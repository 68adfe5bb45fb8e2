"""What belongs to a seed, how to repeat it, and how what many seeds did is spread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Final

from apgas.provenance import commit
from apgas.testing.simulation import Simulation
from apgas.testing.survival import LossSimulation, SurvivalSimulation

DELIVERIES: Final = 300
"""A job that ends well goes on until so many messages have arrived."""


def whole(seed: int) -> Simulation:
    """The job of ``seed`` that ends well, to be run."""
    return Simulation(seed, places=1 + seed % 5, orders=3 + seed % 3, activities=80, deliveries=DELIVERIES)


def lossy(seed: int) -> LossSimulation:
    """The job of ``seed`` that the loss of a place ends."""
    return LossSimulation(seed, after=seed % 150, places=2 + seed % 5)


def resilient(seed: int) -> SurvivalSimulation:
    """The job of ``seed`` that survives losses."""
    return SurvivalSimulation(seed, kills=1 + seed % 3, places=2 + seed % 5)


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """Let an error that comes out of the block say its seed, the commit and the command that repeats it."""
    try:
        yield
    except Exception as error:
        where = commit(Path(__file__).parent) or "unknown"
        error.add_note(f"seed {seed}, commit {where}; again: python -m apgas.testing --seed {seed}")
        raise


class Spread:
    """How whole numbers are spread; each is counted, none is kept."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, value: int) -> None:
        """Count one."""
        self._counts[value] += 1

    def __str__(self) -> str:
        values = sorted(self._counts)
        reached = list(accumulate(self._counts[value] for value in values))
        if not reached:
            return "none"
        low, half, high = (
            next(value for value, count in zip(values, reached, strict=True) if count >= share * reached[-1])
            for share in (0.1, 0.5, 0.9)
        )
        return f"{values[0]} to {values[-1]} (10 % up to {low}, half up to {half}, 90 % up to {high})"
