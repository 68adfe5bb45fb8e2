"""Runs many seeds of the simulation, in several processes, and tells how to repeat the one that fails."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from glb.statistics import Statistics
from glb.testing.simulation import Simulation


@dataclass
class Tally:
    """What some runs have reached.

    Attributes:
        seeds: How many runs.
        events: Orders carried out, messages delivered and places lost, by kind; runs that ended without a result.
        places: How many runs had so many places in all.
        statistics: The counts of the balancer.
    """

    seeds: int = 0
    events: Counter[str] = field(default_factory=Counter)
    places: Counter[int] = field(default_factory=Counter)
    statistics: Statistics = field(default_factory=Statistics)

    def merge(self, other: Tally) -> None:
        """Count ``other``'s runs, too."""
        self.seeds += other.seeds
        self.events += other.events
        self.places += other.places
        self.statistics.merge(other.statistics)

    def __str__(self) -> str:
        places = sorted(self.places.elements())
        middle = places[len(places) // 2] if places else 0
        events = ", ".join(f"{name} {count}" for name, count in sorted(self.events.items()))
        counts = self.statistics
        return (
            f"{self.seeds} seeds on {min(places, default=0)} to {max(places, default=0)} places (half of them on "
            f"{middle} at most): {events}; bags given: {counts.steals_suffered} to random thieves, "
            f"{counts.lifeline_deals} over lifelines, {counts.evacuation_deals} by leavers"
        )


def run_seeds(seeds: Iterable[int]) -> Tally:
    """Run each of ``seeds``.

    Raises:
        Exception: The first failure, with the seed, the commit and the command that repeats it.
    """
    tally = Tally()
    for seed in seeds:
        try:
            outcome = Simulation(seed).run()
        except Exception as error:
            error.add_note(f"seed {seed}, commit {_commit()}; again: python -m glb.testing --seed {seed}")
            raise
        tally.seeds += 1
        tally.events += outcome.events
        tally.events["no result"] += outcome.missing is not None
        tally.places[outcome.places] += 1
        tally.statistics.merge(outcome.statistics)
    return tally


def run_blocks(blocks: Iterable[range], processes: int | None = None) -> Iterator[Tally]:
    """Run blocks of seeds in ``processes`` processes (default: one per core) and yield what each has reached."""
    workers = processes or len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(run_seeds, blocks)


def _commit() -> str:
    try:
        git = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return git.stdout.strip()
