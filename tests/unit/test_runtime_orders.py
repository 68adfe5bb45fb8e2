"""Every order has an answer: what the runtime makes of handlers, places and nodes that do not do as they should."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

import apgas
from apgas import Deadlines, async_at, at, finish, here, place, places
from apgas.core.messages import PlaceInfo
from apgas.runtime.executor import MAX_RUNNING
from apgas.runtime.lifetime import Identity
from apgas.testing.inprocess import InProcessSpawner
from apgas.testing.job import Job
from apgas.testing.pytest_plugin import MakeJob

SOON_S = 20.0
SHORT = Deadlines(pre_s=0.05, spawn_s=0.05, drain_s=0.05, post_s=0.05)


def last(count: int) -> list[apgas.Place]:
    return places()[-count:]


class Handler(apgas.MalleableHandler):
    """Does what a test wants in one of its methods, and what is right in the others."""

    def __init__(self, method: str = "", act: Callable[[], Any] = lambda: None) -> None:
        self.method = method
        self.act = act
        self.calls: list[str] = []

    def _called(self, method: str, otherwise: Any = None) -> Any:
        self.calls.append(method)
        if method == self.method:
            self.method = ""
            return self.act()
        return otherwise

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        chosen: Sequence[apgas.Place] = self._called("preShrink", last(nb_places))
        return chosen

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None:
        self._called("postShrink")

    def preGrow(self, nb_places: int) -> None:
        self._called("preGrow")

    def postGrow(
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        self._called("postGrow")

    def shrinkAborted(self, places: Sequence[apgas.Place]) -> None:
        self._called("shrinkAborted")


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.001)


def program(handler: Handler, orders: int, deadlines: Deadlines | None = None) -> list[int]:
    """Waits for so many orders; returns the ids of the places, each of which still works."""
    apgas.define_malleable_handler(handler, deadlines=deadlines)
    wait_for(lambda: len(apgas.resizes()) == orders)
    return [at(where, here).id for where in places()]


def reasons(job: Job[Any]) -> list[tuple[str, str]]:
    return [(record.outcome, record.reason) for record in job.resizes]


# the handler ----------------------------------------------------------------------------------------------------------


def fail() -> None:
    raise LookupError("no")


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
        assert opened.wait(SOON_S)

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
        job = apgas_job(program, Handler(method, wait), 1, SHORT, places=2)
        give = job.grow if "Grow" in method else job.shrink
        give(1)
        assert job.run() == left
        assert reasons(job) == [(outcome, reason)]


def test_a_pre_shrink_that_returns_too_late_is_undone(apgas_job: MakeJob) -> None:
    opened = threading.Event()

    def late() -> list[apgas.Place]:
        assert opened.wait(SOON_S)
        return last(1)

    def main() -> None:
        program(handler, 1, SHORT)
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
        assert opened.wait(SOON_S)
        return wished

    def main() -> None:
        program(handler, 1, SHORT)
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
        assert opened.wait(SOON_S)
        return last(1)

    def main() -> None:
        apgas.define_malleable_handler(handler, deadlines=Deadlines(pre_s=0.05))
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
        assert opened.wait(SOON_S)

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
        (lambda: None, "preShrink raised TypeError: preShrink must return a list of places, not None", False),
        (lambda: [1], "preShrink raised TypeError: preShrink must return a list of places, not [1]", False),
        (lambda: 3, "preShrink raised TypeError: preShrink must return a list of places, not 3", False),
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


# leavers --------------------------------------------------------------------------------------------------------------


may_end = threading.Event()


def open_a_finish() -> None:
    with finish():
        async_at(place(0), end_when_told)


def end_when_told() -> None:
    assert may_end.wait(SOON_S)


def test_a_finish_on_a_leaver_ends_before_it_leaves(apgas_job: MakeJob) -> None:
    def main() -> list[int]:
        apgas.define_malleable_handler(Handler())
        with finish():
            async_at(place(1), open_a_finish)
            order = job.shrink(1)
            wait_for(lambda: len(places()) == 1)  # it is leaving
            assert order.outcome is None
            may_end.set()
        assert order.wait().outcome == "done"
        return [where.id for where in places()]

    may_end.clear()
    job: Job[list[int]] = apgas_job(main, places=2)
    assert job.run() == [0]


def test_a_leaver_that_does_not_get_done_stays(apgas_job: MakeJob) -> None:
    def main() -> list[int]:
        with finish():
            async_at(place(1), open_a_finish)
            left = program(Handler("shrinkAborted", fail), 1, SHORT)
            may_end.set()
        return left

    may_end.clear()
    job = apgas_job(main, places=2)
    job.shrink(1)
    assert job.run() == [0, 1]
    undrained = "places [1] did not drain: drain took longer than its deadline"
    assert reasons(job) == [("aborted", f"{undrained}; shrinkAborted raised LookupError: no")]


# newcomers ------------------------------------------------------------------------------------------------------------


def test_newcomers_that_come_too_late_are_sent_home(apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, came = threading.Event(), threading.Event()
    spawn = InProcessSpawner.spawn

    def late(
        self: InProcessSpawner,
        nodes: tuple[str, ...],
        admit: Callable[[list[PlaceInfo]], Identity],
        note: Callable[[str], None],
    ) -> tuple[PlaceInfo, ...]:
        if nodes == ("late",):
            assert opened.wait(SOON_S)
        added = spawn(self, nodes, admit, note)
        came.set()
        return added

    def main() -> list[int]:
        apgas.define_malleable_handler(Handler(), deadlines=Deadlines(spawn_s=0.05))
        job.grow(1, on=["late"]).wait()
        opened.set()
        assert came.wait(SOON_S)
        wait_for(lambda: 1 not in job._places.drivers)  # it was released, and has ended
        assert job.grow(1).wait().outcome == "done"
        return [at(where, here).id for where in places()]

    monkeypatch.setattr(InProcessSpawner, "spawn", late)
    job: Job[list[int]] = apgas_job(main, places=1)
    assert job.run() == [0, 2]
    assert reasons(job) == [("aborted", "spawn took longer than its deadline"), ("done", "")]


# the moment -----------------------------------------------------------------------------------------------------------


def test_an_order_during_a_resize_waits(apgas_job: MakeJob) -> None:
    def order_another() -> None:
        job.shrink(1)

    handler = Handler("preGrow", order_another)
    job = apgas_job(program, handler, 2, places=1)
    job.grow(2)
    assert job.run() == [0, 1]
    assert handler.calls == ["preGrow", "postGrow", "preShrink", "postShrink"]
    assert job.outcomes == ["done", "done"]


def test_orders_without_a_handler_are_refused(apgas_job: MakeJob) -> None:
    def main() -> None:
        apgas.schedule_orders("0:+1")
        wait_for(apgas.resizes)
        apgas.define_malleable_handler(Handler())
        apgas.disable_malleable_handler()
        apgas.schedule_orders("0:+1")
        wait_for(lambda: len(apgas.resizes()) == 2)

    job = apgas_job(main)
    job.run()
    assert reasons(job) == [("refused", "no malleable handler is registered")] * 2


def test_deadlines_and_orders_may_be_as_far_off_as_one_likes(apgas_job: MakeJob) -> None:
    def main() -> list[int]:
        far_s = 1e12
        limits = Deadlines(pre_s=far_s, spawn_s=far_s, drain_s=far_s, release_s=far_s, post_s=far_s, deferred_s=far_s)
        apgas.define_malleable_handler(Handler(), deadlines=limits)
        apgas.schedule_orders("0:+1,0.001:-1,1e12:+1")
        wait_for(lambda: len(apgas.resizes()) == 2)
        apgas.disable_malleable_handler()
        return [at(where, here).id for where in places()]

    job = apgas_job(main, places=2)
    assert job.run() == [0, 1]
    assert job.outcomes == ["done", "done", "not_due"]


def test_what_waits_when_the_handler_is_given_up_ends(apgas_job: MakeJob) -> None:
    """In line: refused; before anything has moved: aborted; later: carried out."""

    def main() -> None:
        apgas.define_malleable_handler(handler)
        wait_for(lambda: handler.calls == ["preGrow"])
        apgas.disable_malleable_handler()

    handler = Handler("preGrow", lambda: wait_for(lambda: len(apgas.resizes()) == 2))
    job = apgas_job(main)
    job.grow(1)
    job.grow(1)
    job.run()
    assert reasons(job) == [
        ("refused", "the program gave its handler up"),
        ("aborted", "the program gave its handler up"),
    ]


def test_giving_the_handler_up_waits_for_what_has_begun_to_move(apgas_job: MakeJob) -> None:
    began, release = threading.Event(), threading.Event()

    def take_time() -> None:
        began.set()
        assert release.wait(SOON_S)

    def main() -> int:
        apgas.define_malleable_handler(Handler("postGrow", take_time))
        assert began.wait(SOON_S)
        threading.Timer(0.01, release.set).start()
        apgas.disable_malleable_handler()
        return len(apgas.resizes())

    job = apgas_job(main)
    job.grow(1)
    assert job.run() == 1
    assert job.outcomes == ["done"]


def test_giving_the_handler_up_waits_for_a_method_whose_order_is_over(apgas_job: MakeJob) -> None:
    """It may be moving data, and what it has moved is put back while the handler is there."""

    def move() -> list[apgas.Place]:
        wait_for(apgas.resizes)  # the order has been aborted
        handler.calls.append("moved")
        return last(1)

    def main() -> list[str]:
        apgas.define_malleable_handler(handler)
        wait_for(lambda: handler.calls)
        apgas.disable_malleable_handler()
        return list(handler.calls)

    handler = Handler("preShrink", move)
    job = apgas_job(main, places=2)
    job.shrink(1)
    assert job.run() == ["preShrink", "moved", "shrinkAborted"]
    assert reasons(job) == [("aborted", "the program gave its handler up")]


def test_bounds_of_the_program(apgas_job: MakeJob) -> None:
    def main() -> None:
        apgas.define_malleable_handler(Handler(), min_nodes=2, max_nodes=4)
        wait_for(lambda: len(apgas.resizes()) == 3)

    job = apgas_job(main, places=3)
    job.grow(2)
    job.shrink(2)
    job.shrink(1)
    job.run()
    assert reasons(job) == [
        ("refused", "the program runs on at least 2 nodes, at most 4, not on 5"),
        ("refused", "the program runs on at least 2 nodes, at most 4, not on 1"),
        ("done", ""),
    ]


def test_more_places_than_there_are(apgas_job: MakeJob) -> None:
    job = apgas_job(program, Handler(), 1, places=2)
    job.shrink(2)
    assert job.run() == [0, 1]
    assert reasons(job) == [("refused", "cannot release 2 of 2 places: place 0 always stays")]
