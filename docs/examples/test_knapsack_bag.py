"""Tests the bag of the knapsack: `pytest docs/examples/test_knapsack_bag.py`."""

from __future__ import annotations

import knapsack_bag
import pytest

import apgas
import glb
from apgas.testing.pytest_plugin import MakeJob
from glb.testing import check_bag


def by_tables(problem: knapsack_bag.Problem) -> int:
    """The oracle: the best value for every capacity, item by item."""
    best = [0] * (problem.capacity + 1)
    for value, weight in zip(problem.values, problem.weights, strict=True):
        for room in range(problem.capacity, weight - 1, -1):
            best[room] = max(best[room], best[room - weight] + value)
    return best[-1]


@pytest.mark.parametrize("seed", range(5))
def test_the_bag_keeps_the_rules(seed: int) -> None:
    small = knapsack_bag.problem(items=16, seed=seed)
    check_bag(lambda: knapsack_bag.whole(small), knapsack_bag.Best, lambda best: best.value, expected=by_tables(small))


def test_the_best_value_is_found_while_places_come_and_go(apgas_job: MakeJob) -> None:
    task = knapsack_bag.problem(items=24, seed=1)

    def main() -> None:
        while len(apgas.resizes()) < 2:
            outcome = glb.compute(knapsack_bag.whole(task), knapsack_bag.Best, glb.Config(workers=1, granularity=50))
            assert outcome.result.value == by_tables(task)

    job = apgas_job(main, places=2)
    job.grow(2)
    job.shrink(1)
    job.run()
    assert job.outcomes == ["done", "done"]
