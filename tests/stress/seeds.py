"""Simulations of whole jobs without end, or of one seed again.

``PYTHONPATH=tests python -m stress.seeds [--seed N] [--from N]``.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Final

from stress.simulation import Simulation
from stress.survival import LossSimulation, SurvivalSimulation

from apgas.provenance import commit

DELIVERIES: Final = 300
"""How many messages have to arrive before a job ends that ends well."""


def whole(seed: int) -> Simulation:
    """The job of ``seed`` that ends well, to be run."""
    return Simulation(seed, places=1 + seed % 5, orders=3 + seed % 3, activities=80, deliveries=DELIVERIES)


def lossy(seed: int) -> LossSimulation:
    """The job of ``seed`` that the loss of a place ends."""
    return LossSimulation(seed, after=seed % 150, places=2 + seed % 5)


def resilient(seed: int) -> SurvivalSimulation:
    """The job of ``seed`` that survives losses."""
    return SurvivalSimulation(seed, kills=1 + seed % 3, places=2 + seed % 5)


def dense(seed: int) -> SurvivalSimulation:
    """The job of ``seed`` that survives losses and in which reports go up a tree."""
    return SurvivalSimulation(seed, kills=1 + seed % 3, places=2 + seed % 7, dense=True)


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """Let an error that comes out of the block say its seed, the commit and the command that repeats it."""
    try:
        yield
    except Exception as error:
        where = commit(Path(__file__).parent) or "unknown"
        error.add_note(f"seed {seed}, commit {where}; again: PYTHONPATH=tests python -m stress.seeds --seed {seed}")
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


class Totals:
    """What the seeds so far have done.

    Attributes:
        seeds: How many were run.
        delivered: Messages in all.
        deliveries: Messages of each job that ended well.
        resizes: Orders that each of these carried out.
    """

    def __init__(self) -> None:
        self.seeds = 0
        self.delivered = 0
        self.deliveries = Spread()
        self.resizes = Spread()

    def run(self, seed: int) -> None:
        """Run what belongs to ``seed``: a job that ends well, one that a loss ends, two that survive losses."""
        with repeatable(seed):
            jobs = whole(seed).run(), lossy(seed).run(), resilient(seed).run(), dense(seed).run()
        self.seeds += 1
        self.delivered += sum(job.network.delivered for job in jobs)
        self.deliveries.add(jobs[0].network.delivered)
        self.resizes.add(sum(record.outcome == "done" for record in jobs[0].records))

    def __str__(self) -> str:
        return (
            f"{self.seeds} seeds, {self.delivered} deliveries; of jobs that end well, deliveries: {self.deliveries}; "
            f"resizes: {self.resizes}"
        )


def main() -> int:
    """Run seeds until one fails (1) or the user interrupts (0)."""
    parser = argparse.ArgumentParser(prog="python -m stress.seeds", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed only")
    parser.add_argument("--from", type=int, default=0, dest="first", help="first seed (default 0)")
    options = parser.parse_args()
    began, totals = time.monotonic(), Totals()
    try:
        for seed in itertools.count(options.first) if options.seed is None else [options.seed]:
            totals.run(seed)
            if totals.seeds % 1000 == 0:
                rate = totals.seeds / (time.monotonic() - began)
                sys.stdout.write(f"{totals.seeds} seeds, {totals.delivered} deliveries, {rate:.0f} seeds/s\n")
                sys.stdout.flush()
    except KeyboardInterrupt:
        pass  # the user has seen enough
    sys.stdout.write(f"{totals}: nothing found\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
