"""Runs simulations of whole jobs without end, or one seed again: ``python -m apgas.testing [--seed N] [--from N]``.

``python -m apgas.testing soak`` runs a real job instead, for long; see ``apgas.testing.soak``.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time

from apgas.testing import soak
from apgas.testing.loss import LossSimulation
from apgas.testing.simulation import Simulation
from apgas.testing.survival import SurvivalSimulation


def run_seed(seed: int) -> int:
    """Run what belongs to ``seed``: a job that ends well, one that a loss ends, one that survives losses.

    Returns:
        How many messages were delivered.
    """
    whole = Simulation(seed, places=1 + seed % 5, orders=3 + seed % 3, activities=80, deliveries=300).run()
    lossy = LossSimulation(seed, after=seed % 150, places=2 + seed % 5).run()
    resilient = SurvivalSimulation(seed, kills=1 + seed % 3, places=2 + seed % 5).run()
    return whole.network.delivered + lossy.network.delivered + resilient.network.delivered


def main() -> int:
    """Hunt until a seed fails (1) or the user has had enough (0)."""
    if sys.argv[1:2] == ["soak"]:
        return soak.main(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m apgas.testing", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed only")
    parser.add_argument("--from", type=int, default=0, dest="first", help="first seed (default 0)")
    options = parser.parse_args()
    seeds = itertools.count(options.first) if options.seed is None else [options.seed]
    began, delivered = time.monotonic(), 0
    done = 0
    try:
        for done, seed in enumerate(seeds, start=1):
            try:
                delivered += run_seed(seed)
            except Exception as error:
                error.add_note(f"again: python -m apgas.testing --seed {seed}")
                raise
            if done % 1000 == 0:
                rate = done / (time.monotonic() - began)
                sys.stdout.write(f"{done} seeds, {delivered} deliveries, {rate:.0f} seeds/s\n")
    except KeyboardInterrupt:
        pass
    sys.stdout.write(f"{done} seeds, {delivered} deliveries: nothing found\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
