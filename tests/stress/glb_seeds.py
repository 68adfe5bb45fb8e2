"""Simulations of the balancer without end, in several processes, or of one seed again.

``PYTHONPATH=tests python -m stress.glb_seeds [--seed N] [--from N] [--seeds N] [--survives]``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from stress.glb_simulation import Simulation, run_lives

from apgas.provenance import commit
from glb.statistics import Statistics

BLOCK: Final = 250
BLOCKS: Final = 40


@dataclass
class Tally:
    """What some runs have reached.

    Attributes:
        seeds: How many runs.
        events: Orders carried out, messages delivered and places lost, by kind; runs that ended without a result.
        places: How many runs had which number of places in all.
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


def run_seeds(seeds: Iterable[int], *, survives: bool = False, lives: bool = False) -> Tally:
    """Run each of ``seeds``; ``survives``: with backups, and more losses; ``lives``: that of place 0, too.

    Raises:
        Exception: The first failure, with the seed, the commit and the command that repeats it.
    """
    tally = Tally()
    for seed in seeds:
        try:
            outcome = run_lives(seed) if lives else Simulation(seed, survives=survives).run()
        except Exception as error:
            where = commit(Path(__file__).parent) or "unknown"
            how = " --survives" if survives else " --lives" if lives else ""
            again = f"PYTHONPATH=tests python -m stress.glb_seeds --seed {seed}{how}"
            error.add_note(f"seed {seed}, commit {where}; again: {again}")
            raise
        tally.seeds += 1
        tally.events += outcome.events
        tally.events["no result"] += outcome.missing is not None
        tally.places[outcome.places] += 1
        tally.statistics.merge(outcome.statistics)
    return tally


def run_blocks(
    blocks: Iterable[range], processes: int | None = None, *, survives: bool = False, lives: bool = False
) -> Iterator[Tally]:
    """Run blocks of seeds in ``processes`` processes (default: one per core) and yield what each has reached."""
    workers = processes or len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(partial(run_seeds, survives=survives, lives=lives), blocks)


def main() -> int:
    """Run seeds until one fails (1) or the user interrupts (0)."""
    parser = argparse.ArgumentParser(prog="python -m stress.glb_seeds", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed only")
    parser.add_argument("--from", type=int, default=0, dest="first", help="first seed (default 0)")
    parser.add_argument("--seeds", type=int, help="stop after this many (default: never)")
    parser.add_argument("--survives", action="store_true", help="make backups, and lose more places")
    parser.add_argument("--lives", action="store_true", help="lose place 0, too, and begin anew with its last books")
    options = parser.parse_args()
    total = Tally()
    if options.seed is not None:
        total = run_seeds([options.seed], survives=options.survives, lives=options.lives)
    else:
        _run_on(total, options.first, options.seeds, survives=options.survives, lives=options.lives)
    sys.stdout.write(f"{total}: nothing found\n")
    return 0


def _run_on(total: Tally, first: int, seeds: int | None, *, survives: bool, lives: bool) -> None:
    began = time.monotonic()
    end = sys.maxsize if seeds is None else first + seeds
    try:
        # some blocks at a time: a pool takes in all that it is given at once
        for start in range(first, end, BLOCKS * BLOCK):
            stop = min(end, start + BLOCKS * BLOCK)
            blocks = (range(block, min(stop, block + BLOCK)) for block in range(start, stop, BLOCK))
            for tally in run_blocks(blocks, survives=survives, lives=lives):
                total.merge(tally)
                sys.stdout.write(f"{total.seeds} seeds, {total.seeds / (time.monotonic() - began):.0f} seeds/s\n")
                sys.stdout.flush()
    except KeyboardInterrupt:
        pass  # the user has seen enough


if __name__ == "__main__":
    sys.exit(main())
