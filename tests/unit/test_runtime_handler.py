"""What becomes of an order by what the program's handler does: raise, take long, return nonsense."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest
from support import PATIENCE_S
from support.orders import SHORT_S, Handler, fail, last, program, reasons, wait_for

import apgas
from apgas import Deadlines, async_at, finish, place, places
from apgas.runtime.context import MAX_RUNNING
from apgas.testing.job import InProcessPlaces, Job, Order
from apgas.testing.pytest_plugin import MakeJob


def fail_elsewhere() -> list[apgas.Place]:
    async_at(places()[-1], fail)
    return last(1)


@pytest.mark.parametrize("act", [fail, fail_elsewhere])
@pytest.mark.parametrize(
    ("method", "outcome", "left"),
    [
        ("preGrow", "aborted", [0, 1]),
        ("postGrow", "done", [0, 1, 2]),
        ("preShrink", "aborted", [0, 1]),
        ("postShrink", "done", [0]),
    ],
)
def test_a_method_that_raises(
    apgas_job: MakeJob, method: str, outcome: str, left: list[int], act: Callable[[], object]
) -> None:
    job = apgas_job(program, Handler(method, act), 1, places=2)
    give = job.grow if "Grow" in method else job.shrink
    give(1)
    assert job.run() == left
    assert reasons(job) == [(outcome, f"{method} raised LookupError: no")]


@contextmanager
def gate() -> Iterator[Callable[[], None]]:
    """What does not return before the block ends."""
    opened = threading.Event()

    def wait() -> None:
        assert opened.wait(PATIENCE_S)

    try:
        yield wait
    finally:
        opened.set()


@pytest.mark.parametrize(
    ("method", "outcome", "reason", "left"),
    [
        ("preGrow", "aborted", "pre took longer than its deadline", [0, 1]),
        ("preShrink", "aborted", "pre took longer than its deadline", [0, 1]),
        ("postGrow", "done", "the handler's post method did not return: post took longer than its deadline", [0, 1, 2]),
        ("postShrink", "done", "the handler's post method did not return: post took longer than its deadline", [0]),
    ],
)
def test_a_method_that_takes_too_long(
    apgas_job: MakeJob, method: str, outcome: str, reason: str, left: list[int]
) -> None:
    with gate() as wait:
        late = Deadlines(pre_s=SHORT_S) if method.startswith("pre") else Deadlines(post_s=SHORT_S)
        job = apgas_job(program, Handler(method, wait), 1, late, places=2)
        give = job.grow if "Grow" in method else job.shrink
        give(1)
        assert job.run() == left
        assert reasons(job) == [(outcome, reason)]


may_end = threading.Event()  # one for all places, for they share this process


def linger() -> None:
    assert may_end.wait(PATIENCE_S)


@pytest.mark.parametrize(
    ("method", "outcome", "reason"),
    [
        ("preGrow", "aborted", "the program has ended"),
        ("preShrink", "aborted", "the program has ended"),
        ("postGrow", "done", "the program has ended"),
        ("postShrink", "done", "the program has ended"),
        (
            "shrinkAborted",
            "aborted",
            "places [1] did not drain: drain took longer than its deadline; the program has ended",
        ),
    ],
)
def test_a_program_that_ends_waits_for_no_method(apgas_job: MakeJob, method: str, outcome: str, reason: str) -> None:
    """Whatever it waits for, the program will not bring it about any more; orders in line are refused."""

    def main() -> None:
        with finish():
            if method == "shrinkAborted":
                async_at(place(1), linger)
            late = Deadlines(drain_s=SHORT_S) if method == "shrinkAborted" else Deadlines()
            apgas.define_malleable_handler(handler, deadlines=late)
            wait_for(lambda: method in handler.calls)
            later.extend([job.grow(1), job.workers(2)])
            may_end.set()

    may_end.clear()
    later: list[Order] = []
    with gate() as wait:
        handler = Handler(method, wait)
        job = apgas_job(main, places=2)
        give = job.grow if "Grow" in method else job.shrink
        order = give(1)
        job.run()
        ends = [one.wait() for one in later]
    assert (order.wait().outcome, order.wait().reason) == (outcome, reason)
    assert [end.outcome for end in ends] == ["refused", "refused"]
    # on their way they may take longer than the program's end
    assert {end.reason for end in ends} <= {"the program has ended", "no malleable handler is registered"}
    assert handler.calls[-1] == method


# safe points ----------------------------------------------------------------------------------------------------------


def at_safe_point(act: Callable[[], object]) -> Callable[[], object]:
    """A method that has ``act`` carried out at a safe point."""
    return lambda: apgas.at_safe_point(act)


def test_a_method_has_something_done_between_two_steps_of_the_program(apgas_job: MakeJob) -> None:
    def act() -> list[apgas.Place]:
        done_by.append(threading.current_thread())
        return last(1)

    def main() -> None:
        apgas.safe_point()  # there is no handler
        apgas.define_malleable_handler(Handler("preShrink", at_safe_point(act)))
        while not apgas.resizes():
            apgas.safe_point()
        done_by.append(threading.current_thread())

    done_by: list[threading.Thread] = []
    job = apgas_job(main, places=2)
    job.shrink(1)
    job.run()
    assert reasons(job) == [("done", "")]
    acting, program_ = done_by
    assert acting is program_


def test_what_fails_at_a_safe_point_fails_in_the_method(apgas_job: MakeJob) -> None:
    def main() -> None:
        apgas.define_malleable_handler(Handler("preGrow", at_safe_point(fail)))
        while not apgas.resizes():
            apgas.safe_point()

    job = apgas_job(main)
    job.grow(1)
    job.run()
    assert reasons(job) == [("aborted", "preGrow raised LookupError: no")]


def stop() -> NoReturn:
    raise KeyboardInterrupt


def test_an_interrupt_at_a_safe_point_ends_the_program(apgas_job: MakeJob) -> None:
    def main() -> None:
        apgas.define_malleable_handler(Handler("preGrow", at_safe_point(stop)))
        while True:
            apgas.safe_point()

    job: Job[None] = apgas_job(main)
    job.grow(1)
    with pytest.raises(KeyboardInterrupt):
        job.run()


def cancelled(errors: list[str], order_ended: Callable[[], object], times: int = 2) -> Callable[[], None]:
    """A method that waits for a safe point in vain; from the second time on that is known from the beginning."""

    def method() -> None:
        try:
            for _ in range(times):
                with pytest.raises(apgas.CancelledError) as raised:
                    apgas.at_safe_point(fail)
                errors.append(str(raised.value))
        finally:
            order_ended()

    return method


@pytest.mark.parametrize("method", ["preGrow", "postGrow"])
@pytest.mark.parametrize("gives_up", [True, False])
def test_a_wait_for_a_safe_point_ends_after_the_last(apgas_job: MakeJob, method: str, gives_up: bool) -> None:
    def main() -> None:
        apgas.define_malleable_handler(handler)
        wait_for(lambda: method in handler.calls)
        if gives_up:
            apgas.disable_malleable_handler()

    errors: list[str] = []
    over = threading.Event()
    times = 2 if gives_up else 1  # a second time there may be no place any more
    handler = Handler(method, cancelled(errors, over.set, times))
    job = apgas_job(main)
    job.grow(1)
    job.run()
    assert over.wait(PATIENCE_S)
    why = "the program gave its handler up" if gives_up else "the program has ended"
    assert errors == [why] * times


def test_a_wait_for_a_safe_point_ends_when_its_order_is_withdrawn(apgas_job: MakeJob) -> None:
    def main() -> None:
        apgas.define_malleable_handler(handler)
        wait_for(lambda: handler.calls)
        order.withdraw()
        assert over.wait(PATIENCE_S)
        apgas.safe_point()
        assert job.grow(1).wait().outcome == "done"

    errors: list[str] = []
    over = threading.Event()
    handler = Handler("preGrow", cancelled(errors, over.set))
    job: Job[None] = apgas_job(main)
    order = job.grow(1)
    job.run()
    assert errors == ["its order was given up"] * 2
    assert reasons(job) == [("aborted", "withdrawn"), ("done", "")]


def test_only_methods_of_the_handler_wait_for_safe_points(apgas_job: MakeJob) -> None:
    def main() -> None:
        with pytest.raises(apgas.UsageError, match="in methods of the malleable handler only"):
            apgas.at_safe_point(fail)

    apgas_job(main).run()


def test_a_pre_shrink_that_returns_too_late_is_undone(apgas_job: MakeJob) -> None:
    opened = threading.Event()

    def late() -> list[apgas.Place]:
        assert opened.wait(PATIENCE_S)
        return last(1)

    def main() -> None:
        program(handler, 1, Deadlines(pre_s=SHORT_S))
        opened.set()
        wait_for(lambda: "shrinkAborted" in handler.calls)

    handler = Handler("preShrink", late)
    job = apgas_job(main, places=2)
    job.shrink(1)
    job.run()
    assert job.outcomes == ["aborted"]
    assert handler.calls == ["preShrink", "shrinkAborted"]


def test_a_wish_is_over_with_its_order_though_its_method_still_runs(apgas_job: MakeJob) -> None:
    opened = threading.Event()

    def late() -> list[apgas.Place]:
        wished = apgas.shrink_wish()
        assert opened.wait(PATIENCE_S)
        return wished

    def main() -> None:
        program(handler, 1, Deadlines(pre_s=SHORT_S))
        assert apgas.shrink_wish() == []
        opened.set()
        wait_for(lambda: "shrinkAborted" in handler.calls)

    handler = Handler("preShrink", late)
    job = apgas_job(main, places=2)
    job.shrink(1, wish=["node1"])
    job.run()
    assert job.outcomes == ["aborted"]


def test_a_late_undo_comes_before_the_next_order(apgas_job: MakeJob) -> None:
    opened = threading.Event()

    def late() -> list[apgas.Place]:
        assert opened.wait(PATIENCE_S)
        return last(1)

    def main() -> None:
        apgas.define_malleable_handler(handler, deadlines=Deadlines(pre_s=SHORT_S))
        wait_for(apgas.resizes)
        opened.set()
        wait_for(lambda: len(apgas.resizes()) == 2)

    handler = Handler("preShrink", late)
    job = apgas_job(main, places=3)
    job.shrink(1)
    job.grow(1)
    job.run()
    assert handler.calls[:2] == ["preShrink", "shrinkAborted"]
    # the second one may have become late as well: then nothing of it is called
    assert handler.calls[2:] == (["preGrow", "postGrow"] if job.outcomes[1] == "done" else [])


def test_what_preshrink_started_and_failed_is_undone(apgas_job: MakeJob) -> None:
    handler = Handler("preShrink", fail_elsewhere)
    job = apgas_job(program, handler, 1, places=2)
    job.shrink(1)
    assert job.run() == [0, 1]
    assert handler.calls == ["preShrink", "shrinkAborted"]


def test_orders_do_not_wait_behind_the_program(apgas_job: MakeJob) -> None:
    """More activities than run at a time stand still until the order has been carried out."""
    opened = threading.Event()

    def stand_still() -> None:
        assert opened.wait(PATIENCE_S)

    def main() -> None:
        apgas.define_malleable_handler(Handler())
        with finish():
            for _ in range(2 * MAX_RUNNING):
                apgas.async_(stand_still)
            assert job.grow(1).wait().outcome == "done"
            opened.set()

    job: Job[None] = apgas_job(main)
    job.run()


@pytest.mark.parametrize(
    ("chosen", "reason", "undone"),
    [
        (lambda: [place(0)], "preShrink named place 0, which always stays", False),
        (lambda: [place(7)], "preShrink named places that are no members: [7]", False),
        (lambda: [place(1), place(1)], "preShrink named a place twice: [1, 1]", True),
        (lambda: [place(1), place(2)], "preShrink named 2 places instead of 1", True),
        (list, "preShrink named 0 places instead of 1", False),
        (
            lambda: None,
            "preShrink raised TypeError: preShrink must return a list of places, or of their ids, not None",
            False,
        ),
        (
            lambda: ["1"],
            "preShrink raised TypeError: preShrink must return a list of places, or of their ids, not ['1']",
            False,
        ),
        (
            lambda: {1},
            "preShrink raised TypeError: preShrink must return a list of places, or of their ids, not {1}",
            False,
        ),
        (
            lambda: 3,
            "preShrink raised TypeError: preShrink must return a list of places, or of their ids, not 3",
            False,
        ),
    ],
)
def test_a_wrong_list(apgas_job: MakeJob, chosen: Callable[[], object], reason: str, undone: bool) -> None:
    handler = Handler("preShrink", chosen)
    job = apgas_job(program, handler, 2)
    job.shrink(1)
    job.shrink(1)
    assert job.run() == [0, 1]
    assert reasons(job) == [("aborted", reason), ("done", "")]
    assert handler.calls == ["preShrink", *["shrinkAborted"] * undone, "preShrink", "postShrink"]


class NotesOutcomes(Handler):
    """Notes how orders end; the first time it fails at that."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[apgas.ResizeRecord] = []

    def orderEnded(self, record: apgas.ResizeRecord) -> None:
        self.records.append(record)
        self.calls.append(f"{record.kind} {record.outcome}")
        if len(self.records) == 1:
            fail()


def no_host(*_: object) -> NoReturn:
    raise RuntimeError("no such host")


def test_the_handler_hears_how_every_order_ended_before_the_next_begins(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main() -> None:
        apgas.define_malleable_handler(handler)
        assert (job.grow(1).wait().outcome, job.shrink(2).wait().outcome) == ("aborted", "refused")
        monkeypatch.undo()
        assert job.grow(1).wait().outcome == "done"
        wait_for(lambda: len(handler.records) == 3)
        assert handler.records == apgas.resizes()

    monkeypatch.setattr(InProcessPlaces, "spawn", no_host)
    handler = NotesOutcomes()
    job: Job[None] = apgas_job(main, places=2)
    job.run()
    assert handler.calls == ["preGrow", "grow aborted", "shrink refused", "preGrow", "postGrow", "grow done"]
    assert handler.records[0].reason == "no such host"
