"""Orders for another number of workers: carried out by the handler, refused where there is none that could."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import apgas
from apgas.testing.handlers import ReleaseNewest
from apgas.testing.pytest_plugin import MakeJob


class WithWorkers(ReleaseNewest):
    """Counts its workers, and refuses seven."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: list[int] = []

    def setWorkers(self, nb_workers: int) -> None:
        if nb_workers == 7:
            raise ValueError("seven is too many")
        self.counts.append(nb_workers)


def wait_for(handler: apgas.MalleableHandler, orders: int) -> Sequence[int]:
    apgas.define_malleable_handler(handler)
    pause = threading.Event()
    while len(apgas.resizes()) < orders:
        pause.wait(0.001)
    return getattr(handler, "counts", [])


def test_the_handler_changes_them_and_the_scheduler_is_answered(apgas_job: MakeJob) -> None:
    job = apgas_job(wait_for, WithWorkers(), 4, places=2)
    orders = [job.workers(3), job.grow(1), job.workers(7), job.workers(1)]
    assert job.run() == [3, 1]
    assert [order.wait().outcome for order in orders] == ["done", "done", "refused", "done"]
    assert [order.wait().kind for order in orders] == ["workers", "grow", "workers", "workers"]
    assert "setWorkers raised ValueError: seven is too many" in orders[2].wait().reason
    assert orders[0].wait().nodes == ()


def test_a_program_without_workers_refuses(apgas_job: MakeJob) -> None:
    job = apgas_job(wait_for, ReleaseNewest(), 1)
    order = job.workers(2)
    job.run()
    assert order.wait().outcome == "refused"
    assert order.wait().reason.startswith("this program does not change its workers")


def scheduled(handler: WithWorkers) -> list[tuple[str, int, str]]:
    apgas.define_malleable_handler(handler)
    apgas.schedule_orders("0:workers=2,1000:workers=3")
    pause = threading.Event()
    while not apgas.resizes():
        pause.wait(0.001)
    apgas.disable_malleable_handler()
    return [(record.kind, record.n, record.outcome) for record in apgas.resizes()]


def test_they_can_be_scheduled(apgas_job: MakeJob) -> None:
    handler = WithWorkers()
    assert apgas_job(scheduled, handler).run() == [("workers", 2, "done"), ("workers", 3, "not_due")]
    assert handler.counts == [2]
