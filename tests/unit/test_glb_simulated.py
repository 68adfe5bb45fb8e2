"""The balancer on simulated places, under orders at chosen moments: nothing is lost, nothing done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

import apgas
import glb
from apgas.testing.handlers import ReleaseNewest
from apgas.testing.pytest_plugin import MakeJob
from glb.testing import Numbers, Total

LIMIT = 3000


def compute(orders: int, computations: int = 1) -> int:
    """Computes until so many orders have ended; returns how often."""
    done = 0
    while done < computations or len(apgas.resizes()) < orders:
        config = glb.Config(workers=1, granularity=10, seed=done)
        outcome = glb.compute(Numbers([1], LIMIT), Total, config)
        assert outcome.result.done == Counter(range(1, LIMIT))
        done += 1
    return done


def test_a_computation_grows_and_shrinks(apgas_job: MakeJob) -> None:
    job = apgas_job(compute, 3, places=2)
    job.grow(2)
    job.shrink(1)
    job.shrink(2)
    assert job.run() >= 1
    assert job.outcomes == ["done"] * 3


def test_whole_nodes_leave(apgas_job: MakeJob) -> None:
    job = apgas_job(compute, 3, places=4, places_per_node=2)
    job.grow(1)
    job.shrink(1, wish=["node1"])
    job.shrink(1)
    job.run()
    assert job.outcomes == ["done"] * 3
    assert [record.places for record in job.resizes] == [(4, 5), (2, 3), (4, 5)]


def test_computations_and_programs_one_after_another(apgas_job: MakeJob) -> None:
    for _ in range(3):
        assert apgas_job(compute, 0, 3).run() == 3


class CutsANode(ReleaseNewest):
    """Chooses a part of a node first, then leaves the choice to the balancer."""

    def __init__(self) -> None:
        self.aborted: list[list[int]] = []

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        return [] if self.aborted else apgas.places()[-1:]

    def shrinkAborted(self, places: Sequence[apgas.Place]) -> None:
        self.aborted.append([place.id for place in places])


def test_places_that_were_evacuated_in_vain_go_on(apgas_job: MakeJob) -> None:
    handler = CutsANode()

    def main() -> None:
        glb.set_user_handler(handler)
        compute(2)

    job = apgas_job(main, places=4, places_per_node=2)
    job.shrink(1)
    job.shrink(1)
    job.run()
    assert job.outcomes == ["aborted", "done"]
    assert handler.aborted == [[3]]
    assert job.resizes[1].places == (2, 3)


def test_a_handler_is_given_inside_of_a_program() -> None:
    with pytest.raises(apgas.UsageError, match=r"inside of apgas\.run only"):
        glb.set_user_handler(CutsANode())
