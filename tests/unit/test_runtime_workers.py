"""Orders for another number of workers: carried out by the handler, refused where there is none that could."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

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


class WithCores(WithWorkers):
    """Takes note of its cores, too."""

    def __init__(self) -> None:
        super().__init__()
        self.cores: list[apgas.CoreIds | None] = []

    def setWorkers(self, nb_workers: int) -> None:
        self.cores.append(apgas.core_ids())
        super().setWorkers(nb_workers)


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


def test_the_handler_gets_the_cores(apgas_job: MakeJob) -> None:
    def main(handler: WithCores) -> apgas.CoreIds | None:
        wait_for(handler, 3)
        return apgas.core_ids()

    handler = WithCores()
    job = apgas_job(main, handler)
    orders = [job.workers(2, core_ids="0-1"), job.workers(7, core_ids="2-8"), job.workers(3, core_ids="5,3")]
    assert job.run() == apgas.CoreIds((0, 1)), "it goes on with those that it had"
    assert handler.cores == [apgas.CoreIds((0, 1)), apgas.CoreIds(tuple(range(2, 9)))]
    assert [order.wait().outcome for order in orders] == ["done", "refused", "refused"]
    assert orders[2].wait().reason == "the cores '5,3' do not ascend"


def test_an_order_that_says_nothing_of_cores_leaves_nothing_known(apgas_job: MakeJob) -> None:
    handler = WithCores()
    job = apgas_job(wait_for, handler, 2)
    job.workers(2, core_ids="0-1")
    job.workers(3)
    job.run()
    assert handler.cores == [apgas.CoreIds((0, 1)), None]


def test_a_job_knows_the_cores_with_which_it_was_started(apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLEABLE_CORE_IDS", "2-3;b=0")
    monkeypatch.setenv("MALLEABLE_BIND_CORES", "1")
    found = apgas_job(apgas.core_ids).run()
    assert found == apgas.CoreIds((2, 3), {"b": (0,)}, bind=True)
    assert (found.on("a"), found.on("b")) == ((2, 3), (0,))
    monkeypatch.setenv("MALLEABLE_CORE_IDS", "all of them")
    with pytest.raises(apgas.UsageError, match="MALLEABLE_CORE_IDS: 'all of them' is no list of cores"):
        apgas_job(apgas.core_ids).run()


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
