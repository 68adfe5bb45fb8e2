"""Runs simulations of whole jobs without end, or one seed again: ``python -m apgas.testing [--seed N] [--from N]``.

``python -m apgas.testing soak`` runs a real job instead, for long; see ``apgas.testing.soak``.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time

from apgas.testing import soak
from apgas.testing.hunt import Spread, lossy, repeatable, resilient, whole


class Hunt:
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
        """Run what belongs to ``seed``: a job that ends well, one that a loss ends, one that survives losses."""
        with repeatable(seed):
            jobs = whole(seed).run(), lossy(seed).run(), resilient(seed).run()
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
    """Hunt until a seed fails (1) or the user has had enough (0)."""
    if sys.argv[1:2] == ["soak"]:
        return soak.main(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m apgas.testing", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed only")
    parser.add_argument("--from", type=int, default=0, dest="first", help="first seed (default 0)")
    options = parser.parse_args()
    began, hunt = time.monotonic(), Hunt()
    try:
        for seed in itertools.count(options.first) if options.seed is None else [options.seed]:
            hunt.run(seed)
            if hunt.seeds % 1000 == 0:
                rate = hunt.seeds / (time.monotonic() - began)
                sys.stdout.write(f"{hunt.seeds} seeds, {hunt.delivered} deliveries, {rate:.0f} seeds/s\n")
                sys.stdout.flush()
    except KeyboardInterrupt:
        pass  # ends the hunt
    sys.stdout.write(f"{hunt}: nothing found\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
