"""Tests the stencil on simulated places, in one process: `pytest docs/examples/test_stencil.py`."""

import threading

import numpy as np
import stencil

import apgas
from apgas import Deadlines, async_at, at, finish, places
from apgas.testing.pytest_plugin import MakeJob


def heat(steps: int, orders: int, deadlines: Deadlines | None = None) -> int:
    """The program: ``steps`` steps at least, until ``orders`` orders have ended; returns its last number of places."""
    plate = stencil.Plate()
    plate.spread(places())
    apgas.define_malleable_handler(stencil.Handler(plate), deadlines=deadlines)
    step, alone = 0, np.zeros((stencil.HEIGHT, stencil.WIDTH))
    while step < steps or len(apgas.resizes()) < orders:
        plate.step()
        alone = stencil.relaxed(np.ones(stencil.WIDTH), alone, np.zeros(stencil.WIDTH))
        step += 1
        apgas.progress(step, steps, "steps")
    together = np.vstack([at(place, stencil.rows_of, plate.slab) for place, _, _ in plate.parts])
    assert np.array_equal(together, alone)
    return len(plate.parts)


def test_rows_follow_the_places(apgas_job: MakeJob) -> None:
    job = apgas_job(heat, 20, 2, places=2)
    job.grow(2, at_progress=5)
    job.shrink(1, at_progress=10)
    assert job.run() == 3
    assert job.outcomes == ["done", "done"]


def test_nodes_that_cannot_be_started_change_nothing(apgas_job: MakeJob) -> None:
    job = apgas_job(heat, 10, 1, places=2)
    order = job.grow(1, fails="the node is down")
    assert job.run() == 2
    assert (order.wait().outcome, order.wait().reason) == ("aborted", "the node is down")


may_end = threading.Event()  # one for all places, for they share this process


def linger() -> None:
    assert may_end.wait(10)


def test_rows_come_back_when_a_shrink_is_aborted(apgas_job: MakeJob) -> None:
    def main() -> int:
        with finish():
            async_at(places()[-1], linger)  # so this place cannot leave in time
            left = heat(10, 1, Deadlines(drain_s=0.1))
            may_end.set()
        return left

    may_end.clear()
    job = apgas_job(main, places=2)
    job.shrink(1)
    assert job.run() == 2
    assert "did not drain" in job.resizes[0].reason
