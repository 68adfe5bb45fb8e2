"""What goes wrong on simulated places: programs that hang or fail, and places that die."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable

import pytest
from support import PATIENCE_S

import apgas
from apgas import async_at, at, finish, here, place, places
from apgas.runtime import driver
from apgas.runtime.driver import Driver
from apgas.testing.handlers import ReleaseNewest
from apgas.testing.job import Job, JobFailedError, JobHangsError
from apgas.testing.pytest_plugin import MakeJob
from apgas.transport.tcp import TcpTransport

DRAIN_S = 3.0
"""A deadline that an order is to miss, after all that a test does before, also on a busy machine."""
gates: dict[str, Callable[[], None]] = {}


def pass_gate(name: str) -> None:
    gates[name]()


def test_a_program_that_hangs_is_shown(apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, release = threading.Event(), threading.Event()

    def hang_there() -> None:
        hangs.set()
        assert release.wait(PATIENCE_S)

    gates["here"] = hang_there

    def main() -> None:
        with finish():
            async_at(place(1), pass_gate, "here")

    job = apgas_job(main, places=2, deadline_s=0.3)
    # the deadline is over as soon as the program hangs
    monkeypatch.setattr(job._over, "wait", lambda _: not hangs.wait(PATIENCE_S))
    order = job.grow(1)
    with pytest.raises(JobHangsError) as caught:
        job.run()
    release.set()
    said = str(caught.value)
    assert "the program did not end within 0.3 s" in said
    assert "without an outcome: Order(number=1, kind='grow'" in said
    assert "place 0, thread apgas-main" in said
    assert "in main" in said
    assert "place 1, thread" in said
    assert "in hang_there" in said
    with pytest.raises(AssertionError, match="was not given: the program is not ready for it"):
        order.wait(0.01)


def fail() -> None:
    raise LookupError("there")


def test_errors_reach_the_test(apgas_job: MakeJob) -> None:
    def main() -> None:
        async_at(place(1), fail)

    with pytest.raises(ExceptionGroup) as caught:
        apgas_job(main).run()
    assert "raised on place 1 (node1)" in caught.value.exceptions[0].__notes__[0]
    with pytest.raises(LookupError):
        apgas_job(fail).run()


def test_what_would_end_a_real_job_fails_the_test(apgas_job: MakeJob) -> None:
    def main() -> None:
        apgas.immediate(place(1), fail)
        with finish():
            async_at(place(1), pass_gate, "wait")

    release = threading.Event()

    def wait() -> None:
        assert release.wait(PATIENCE_S)

    gates["wait"] = wait
    with pytest.raises(JobFailedError, match="an immediate failed on place 1: LookupError: there"):
        apgas_job(main).run()
    release.set()


def test_the_death_of_a_place_would_end_a_real_job(apgas_job: MakeJob) -> None:
    def main() -> None:
        job.kill(1)
        with finish():
            async_at(place(2), pass_gate, "wait")

    release = threading.Event()
    gates["wait"] = lambda: assert_set(release)
    job = apgas_job(main)
    with pytest.raises(JobFailedError, match=r"this would end a real job: place 1: "):
        job.run()
    release.set()


def test_the_death_of_a_place_that_has_not_connected_is_noticed(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job hung, in one of ten runs on a busy machine."""
    connect = TcpTransport.connect

    def late(self: TcpTransport, to: int) -> None:
        if self._place != 1:
            connect(self, to)

    def main() -> None:
        job.kill(1)
        with finish():
            async_at(place(2), pass_gate, "wait")

    monkeypatch.setattr(TcpTransport, "connect", late)
    release = threading.Event()
    gates["wait"] = lambda: assert_set(release)
    job = apgas_job(main)
    with pytest.raises(JobFailedError, match=r"this would end a real job: place 1: "):
        job.run()
    release.set()


def test_a_wait_after_the_end_raises(apgas_job: MakeJob) -> None:
    """A thread that is left to itself may go on to wait for what can never come."""
    errors: list[str] = []
    over = threading.Event()

    def main() -> None:
        apgas.immediate(here(), fail)  # ends the job
        assert over.wait(PATIENCE_S)
        for wait in (lambda: at(place(1), here), open_and_close):
            try:
                wait()
            except apgas.ApgasError as error:
                errors.append(str(error))
        over.clear()

    def open_and_close() -> None:
        with finish():
            pass

    with pytest.raises(JobFailedError):
        apgas_job(main).run()
    over.set()
    until = time.monotonic() + PATIENCE_S
    while over.is_set():
        assert time.monotonic() < until
        time.sleep(0.001)
    assert errors == ["the job is over"] * 2


def assert_set(event: threading.Event) -> None:
    assert event.wait(PATIENCE_S)


def test_a_resilient_program_goes_on_without_places_that_die(apgas_job: MakeJob) -> None:
    def lose_a_place() -> None:
        with finish():
            async_at(place(1), pass_gate, "wait")
            async_at(place(2), here)
            job.kill(1)

    def main() -> list[int]:
        apgas.define_malleable_handler(ReleaseNewest())
        died: list[int] = []
        apgas.on_place_failure(lambda dead: died.append(dead.id))
        with pytest.raises(ExceptionGroup) as caught:
            lose_a_place()
        assert [type(error) for error in caught.value.exceptions] == [apgas.DeadPlaceError]
        with pytest.raises(apgas.PlaceGoneError):
            at(place(1), here)
        with pytest.raises(apgas.DeadPlaceError):
            apgas.uncounted(place(1), here)
        until = time.monotonic() + PATIENCE_S
        while not died:
            assert time.monotonic() < until
            time.sleep(0.001)
        assert died == [1]
        assert job.grow(1).wait().outcome == "done"
        with pytest.raises(apgas.UsageError, match="place 1 cannot be killed: it is gone"):
            job.kill(1)
        with pytest.raises(apgas.UsageError, match="place 0 cannot be killed"):
            job.kill(0)
        return [at(where, here).id for where in places()]

    release = threading.Event()
    gates["wait"] = lambda: assert_set(release)
    job: Job[list[int]] = apgas_job(main, resilient=True)
    assert job.run() == [0, 2, 3]
    assert job.lost_nodes == ["node1"]
    release.set()


def test_the_outcome_of_another_order_reports_no_loss(apgas_job: MakeJob) -> None:
    """A leaver dies while the other one drains, and an order that waits is withdrawn: neither reports the node."""

    def main() -> None:
        handler = ReleaseNewest()
        apgas.define_malleable_handler(handler, deadlines=apgas.Deadlines(drain_s=DRAIN_S))
        with finish():
            async_at(place(3), pass_gate, "wait")
            apgas.uncounted(place(2), pass_gate, "wait")
            first, second = job.shrink(2), job.grow(1)
            until = time.monotonic() + PATIENCE_S
            while len(places()) > 2:  # both are to leave
                assert time.monotonic() < until
                time.sleep(0.001)
            job.kill(2)
            second.withdraw()
            assert (second.wait().outcome, second.wait().reason) == ("refused", "withdrawn")
            assert first.wait().outcome == "aborted"
            release.set()

    release = threading.Event()
    gates["wait"] = lambda: assert_set(release)
    job: Job[None] = apgas_job(main, places=4, resilient=True)
    job.run()
    assert job.lost_nodes == ["node2"]


@pytest.mark.parametrize(("drain_s", "outcome"), [(PATIENCE_S, "done"), (DRAIN_S, "aborted")])
def test_a_leaver_that_has_drained_hears_of_no_death(apgas_job: MakeJob, drain_s: float, outcome: str) -> None:
    """It is released at any moment, and may begin nothing; one that stays after all hears of it then."""

    def main() -> None:
        apgas.define_malleable_handler(ReleaseNewest(), deadlines=apgas.Deadlines(drain_s=drain_s))
        for where in places():
            at(where, notice, where.id)
        with finish():
            async_at(place(3), pass_gate, "wait")
            order = job.shrink(2)
            wait_for(lambda: len(places()) == 2)
            wait_for(lambda: job._places.drivers[2].core.drained)
            job.kill(1)
            wait_for(lambda: 3 in noticed)  # which has not drained
            assert 2 not in noticed
            if outcome == "aborted":
                wait_for(lambda: 2 in noticed)
            release.set()
            order.wait()

    noticed.clear()
    release = threading.Event()
    gates["wait"] = lambda: assert_set(release)
    job: Job[None] = apgas_job(main, places=4, resilient=True)
    job.run()
    assert job.outcomes == [outcome]


noticed: set[int] = set()


def notice(me: int) -> None:
    apgas.on_place_failure(lambda _: noticed.add(me))


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_nothing_keeps_the_places_of_a_job_that_is_over(apgas_job: MakeJob) -> None:
    kept: list[weakref.ref[Driver]] = []

    def main() -> None:
        kept.append(weakref.ref(driver.required_driver()))
        apgas.on_place_failure(lambda _: None)

    apgas_job(main, places=2).run()

    def is_free() -> bool:
        gc.collect()
        return kept[0]() is None

    wait_for(is_free)  # threads of it may be about to end
