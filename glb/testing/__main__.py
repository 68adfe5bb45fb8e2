"""Runs simulations of the balancer without end, or one seed again: ``python -m glb.testing [--seed N] [--from N]``."""

from __future__ import annotations

import argparse
import sys
import time

from glb.testing.hunt import Tally, run_blocks, run_seeds

BLOCK = 250
BLOCKS = 40


def main() -> int:
    """Hunt until a seed fails (1) or the user has had enough (0)."""
    parser = argparse.ArgumentParser(prog="python -m glb.testing", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed only")
    parser.add_argument("--from", type=int, default=0, dest="first", help="first seed (default 0)")
    parser.add_argument("--seeds", type=int, help="stop after so many (default: never)")
    options = parser.parse_args()
    total = Tally()
    if options.seed is not None:
        total = run_seeds([options.seed])
    else:
        _hunt(total, options.first, options.seeds)
    sys.stdout.write(f"{total}: nothing found\n")
    return 0


def _hunt(total: Tally, first: int, seeds: int | None) -> None:
    began = time.monotonic()
    end = sys.maxsize if seeds is None else first + seeds
    try:
        # some blocks at a time: a pool takes in all that it is given at once
        for start in range(first, end, BLOCKS * BLOCK):
            stop = min(end, start + BLOCKS * BLOCK)
            for tally in run_blocks(range(block, min(stop, block + BLOCK)) for block in range(start, stop, BLOCK)):
                total.merge(tally)
                sys.stdout.write(f"{total.seeds} seeds, {total.seeds / (time.monotonic() - began):.0f} seeds/s\n")
                sys.stdout.flush()
    except KeyboardInterrupt:
        pass  # ends the hunt


if __name__ == "__main__":
    sys.exit(main())
