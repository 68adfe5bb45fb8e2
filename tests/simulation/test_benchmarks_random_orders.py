"""Every benchmark under random orders, on simulated places: exact results, whatever comes and goes.

The balancer and the kernels are the real ones; only processes and network are simulated. A seed fixes places, workers,
granularity and orders. Ten seeds per benchmark, a hundred with ``--runslow``.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest

import apgas
import glb
from apgas.testing.pytest_plugin import MakeJob
from benchmarks.harness.cli import Benchmark, parse

CASES = {
    "uts": ("uts", "--depth 11", 20_000),
    "nqueens": ("nqueens", "-n 12", 3000),
    "bc": ("bc", "--scale 9", 8),
    "pi": ("pi", "--samples 20000001", 50_000),
    "synthetic static": ("synthetic", "--work 0.3 --tasks 3000 --variance 4 --units-per-second 1e9", 4),
    "synthetic dynamic": ("synthetic", "--work 0.3 --tasks 3000 --variance 4 --units-per-second 1e9 --dynamic", 4),
}
"""Program, arguments, and tasks per call that leave time for thieves."""
MOST_PLACES = 6


@cache
def benchmark(case: str) -> tuple[Benchmark[Any], object]:
    name, arguments, _ = CASES[case]
    found, _ = parse(f"benchmarks.{name}.command", arguments.split())
    found.warm_up()
    known = found.known()
    return found, found.expected() if known is None else known


def compute(case: str, orders: int, workers: int, granularity: int) -> int:
    """Compute until all orders have ended, at least once; return how often."""
    instance, expected = benchmark(case)
    done = 0
    while not done or len(apgas.resizes()) < orders:
        config = glb.Config(workers=workers, granularity=granularity, static=instance.static, seed=done)
        outcome = glb.compute(instance.make_bag(None), instance.make_result, config)
        assert instance.value(outcome.result) == expected
        done += 1
    return done


def check(case: str, seed: int, apgas_job: MakeJob) -> None:
    rng = Random(f"{case} {seed}")
    benchmark(case)  # not while places wait
    places, count = rng.randint(1, 4), rng.randint(2, 5)
    granularity = max(1, round(CASES[case][2] * rng.uniform(0.2, 2)))
    job = apgas_job(compute, case, count, rng.randint(1, 2), granularity, places=places)
    held = places
    for _ in range(count):
        if held == 1 or (held < MOST_PLACES and rng.random() < 0.5):
            change = rng.randint(1, MOST_PLACES - held)
            job.grow(change)
            held += change
        else:
            change = rng.randint(1, held - 1)
            job.shrink(change)
            held -= change
    assert job.run() >= 1
    assert job.outcomes == ["done"] * count


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("case", CASES)
def test_results_are_exact(case: str, seed: int, apgas_job: MakeJob) -> None:
    check(case, seed, apgas_job)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 100))
@pytest.mark.parametrize("case", CASES)
def test_results_of_many_schedules_are_exact(case: str, seed: int, apgas_job: MakeJob) -> None:
    check(case, seed, apgas_job)
