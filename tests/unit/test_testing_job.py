"""Malleable programs on simulated places."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest
from support import PATIENCE_S

import apgas
from apgas import async_at, at, finish, here, places
from apgas.testing.handlers import ReleaseNewest
from apgas.testing.job import Job
from apgas.testing.pytest_plugin import MakeJob


class Handler(apgas.MalleableHandler):
    """Releases the last places; ``preGrow`` and ``preShrink`` wait for ``may_begin``."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.may_begin = threading.Event()
        self.may_begin.set()

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        self.calls.append(f"preShrink {nb_places}")
        assert self.may_begin.wait(PATIENCE_S)
        return apgas.shrink_wish() or places()[-nb_places:]

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None:
        self.calls.append(f"postShrink {[place.id for place in removed_places]}")

    def preGrow(self, nb_places: int) -> None:
        self.calls.append(f"preGrow {nb_places}")
        assert self.may_begin.wait(PATIENCE_S)

    def postGrow(
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        self.calls.append(f"postGrow {[place.id for place in new_places]}")


def until_resized(count: int, handler: Handler | None = None) -> list[int]:
    """A program that does something everywhere until that many orders have ended; returns the ids of its places."""
    apgas.define_malleable_handler(handler or Handler())
    until = time.monotonic() + PATIENCE_S
    while len(apgas.resizes()) < count:
        assert time.monotonic() < until
        with finish():
            for where in places():
                try:
                    async_at(where, here)
                except apgas.PlaceGoneError:
                    continue  # left meanwhile
    return [at(where, here).id for where in places()]


def test_a_program_grows_and_shrinks(apgas_job: MakeJob) -> None:
    handler = Handler()
    job = apgas_job(until_resized, 2, handler, places=2)
    grown, shrunk = job.grow(2), job.shrink(1)
    assert job.run() == [0, 1, 2]
    assert job.outcomes == ["done", "done"]
    assert handler.calls == ["preGrow 2", "postGrow [2, 3]", "preShrink 1", "postShrink [3]"]
    assert [record.nodes for record in job.resizes] == [("node2", "node3"), ("node3",)]
    assert grown.wait().nodes == ("node2", "node3")
    assert list(shrunk.wait().phases) == ["pre", "drain", "commit", "release", "post"]


def test_the_same_orders_can_come_from_the_program(apgas_job: MakeJob) -> None:
    def main() -> list[int]:
        apgas.schedule_orders("0:+1")  # there is no handler yet
        while not apgas.resizes():
            time.sleep(0.001)
        apgas.define_malleable_handler(Handler())
        apgas.schedule_orders("0:+1,0.001:-1,600:+1")
        while len(apgas.resizes()) < 3:
            time.sleep(0.001)
        return [where.id for where in places()]

    job = apgas_job(main, places=1)
    assert job.run() == [0]
    assert job.outcomes == ["refused", "done", "done", "not_due"]
    assert job.resizes[0].reason == "no malleable handler is registered"


def test_orders_come_when_the_program_has_got_so_far(apgas_job: MakeJob) -> None:
    seen: list[tuple[int, int]] = []

    def main() -> None:
        apgas.define_malleable_handler(Handler())
        for step in range(6):
            apgas.progress(step, 6, "steps")
            until = time.monotonic() + PATIENCE_S
            while len(apgas.resizes()) < (step >= 2) + (step >= 4):
                assert time.monotonic() < until
                time.sleep(0.001)
            seen.append((step, len(places())))

    job = apgas_job(main, places=1)
    job.grow(2, at_progress=2)
    job.shrink(1, at_progress=4)
    job.run()
    assert seen == [(0, 1), (1, 1), (2, 3), (3, 3), (4, 2), (5, 2)]


def test_an_order_that_waits_is_deferred_and_may_be_withdrawn(apgas_job: MakeJob) -> None:
    handler = Handler()
    handler.may_begin.clear()

    def main() -> None:
        apgas.define_malleable_handler(handler, deadlines=apgas.Deadlines(deferred_s=0.001))
        until = time.monotonic() + PATIENCE_S
        while not first.deferred:
            assert time.monotonic() < until
            time.sleep(0.001)
        second.withdraw()
        assert (second.wait().outcome, second.wait().reason) == ("refused", "withdrawn")
        first.withdraw()
        assert (first.wait().outcome, first.wait().reason) == ("aborted", "withdrawn")
        handler.may_begin.set()

    job = apgas_job(main)
    first, second = job.grow(1), job.grow(1)
    job.run()
    assert job.outcomes == ["refused", "aborted"]


def test_an_order_may_be_withdrawn_before_it_is_given(apgas_job: MakeJob) -> None:
    job = apgas_job(lambda: None)
    order = job.grow(1, at_progress=5)
    order.withdraw()
    assert (order.wait().outcome, order.wait().reason) == ("refused", "withdrawn")
    job.run()
    assert job.outcomes == []


def test_nodes_that_cannot_be_started_abort_the_order(apgas_job: MakeJob) -> None:
    job = apgas_job(until_resized, 3, places=1)
    job.grow(1, on=["far"], fails="host far did not answer in time")
    job.grow(1, on=["near"])
    job.shrink(9)
    assert job.run() == [0, 1]
    assert [(record.outcome, record.reason) for record in job.resizes] == [
        ("aborted", "host far did not answer in time"),
        ("done", ""),
        ("refused", "cannot release 9 of 2 places: place 0 always stays"),
    ]


def test_the_wish_of_the_scheduler(apgas_job: MakeJob) -> None:
    job = apgas_job(until_resized, 1, places=3)
    job.shrink(1, wish=["node1"])
    assert job.run() == [0, 2]


class Refusing(ReleaseNewest):
    """Cannot shrink."""

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        raise LookupError(f"none but {[place.id for place in apgas.shrink_wish()]}")


def test_a_wish_is_over_with_its_shrink(apgas_job: MakeJob) -> None:
    def main() -> list[apgas.Place]:
        apgas.define_malleable_handler(Refusing())
        assert "none but [1]" in job.shrink(1, wish=["node1"]).wait().reason
        return apgas.shrink_wish()

    job = apgas_job(main, places=3)
    assert job.run() == []
    assert job.outcomes == ["aborted"]


def test_a_program_that_asks_is_granted_what_there_is(apgas_job: MakeJob) -> None:
    def main() -> list[int]:
        apgas.define_malleable_handler(Handler())
        granted = [
            apgas.request_grow(3).result(PATIENCE_S),
            apgas.request_grow(1).result(PATIENCE_S),
            apgas.offer_shrink(1).result(PATIENCE_S),
        ]
        until = time.monotonic() + PATIENCE_S
        while len(apgas.resizes()) < 2:
            assert time.monotonic() < until
            time.sleep(0.001)
        return [*granted, len(places())]

    job = apgas_job(main, places=1)
    job.spare_nodes = 2
    assert job.run() == [2, 0, -1, 2]
    assert job.spare_nodes == 1


def test_an_order_can_be_given_and_awaited_in_the_program(apgas_job: MakeJob) -> None:
    def main() -> int:
        apgas.define_malleable_handler(Handler())
        assert job.grow(1).wait().outcome == "done"
        return len(places())

    job: Job[int] = apgas_job(main, places=1)
    assert job.run() == 2


def test_nothing_is_left_behind(apgas_job: MakeJob) -> None:
    def ours() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.startswith(("apgas", "test-scheduler"))]

    start = threading.Thread.start
    job = apgas_job(until_resized, 2)
    job.grow(1)
    job.shrink(2)
    job.run()
    assert threading.Thread.start is start
    until = time.monotonic() + PATIENCE_S
    while ours():
        assert time.monotonic() < until, ours()
        time.sleep(0.001)
    with pytest.raises(apgas.UsageError, match=r"inside of apgas\.run only"):
        here()


def test_a_job_runs_once(apgas_job: MakeJob) -> None:
    job = apgas_job(here)
    assert job.run() == apgas.Place(0, "node0")
    with pytest.raises(apgas.UsageError, match="runs once"):
        job.run()


class ByNodes(Handler):
    """Releases the last nodes."""

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        self.calls.append(f"preShrink {nb_places}")
        return apgas.shrink_wish() or [place for node in apgas.nodes()[1:] for place in node][-nb_places:]


def test_nodes_of_several_places(apgas_job: MakeJob) -> None:
    handler = ByNodes()
    job = apgas_job(until_resized, 4, handler, places=4, places_per_node=2)
    job.grow(1)
    job.shrink(1, wish=["node1"])
    job.shrink(1)
    job.shrink(1, wish=["node0"])
    assert job.run() == [0, 1]
    assert job.outcomes == ["done", "done", "done", "refused"]
    assert handler.calls == [
        "preGrow 2",
        "postGrow [4, 5]",
        "preShrink 2",
        "postShrink [2, 3]",
        "preShrink 2",
        "postShrink [4, 5]",
    ]
    assert [(record.nodes, record.places) for record in job.resizes] == [
        (("node2",), (4, 5)),
        (("node1",), (2, 3)),
        (("node2",), (4, 5)),
        ((), ()),
    ]


def test_the_node_of_place_0_is_never_wished_for(apgas_job: MakeJob) -> None:
    job = apgas_job(until_resized, 1, ByNodes(), places=4, places_per_node=2)
    job.shrink(1, wish=["node0"])
    assert job.run() == [0, 1]
    assert job.resizes[0].nodes == ("node1",)


def test_the_program_may_say_how_many_places_share_a_node(apgas_job: MakeJob) -> None:
    def main() -> list[list[int]]:
        with pytest.raises(apgas.UsageError, match="start a multiple of 2 on each host"):
            apgas.define_malleable_handler(Handler(), places_per_node=2)
        apgas.define_malleable_handler(Handler(), places_per_node=1)
        with pytest.raises(apgas.UsageError, match="once per program"):
            apgas.define_malleable_handler(Handler(), places_per_node=1)
        return [[place.id for place in node] for node in apgas.nodes()]

    assert apgas_job(main, places=3).run() == [[0], [1], [2]]


@pytest.mark.parametrize(("count", "per_node"), [(0, 1), (3, 2), (2, 0)])
def test_places_fill_their_nodes(apgas_job: MakeJob, count: int, per_node: int) -> None:
    with pytest.raises(apgas.UsageError, match="a job cannot have"):
        apgas_job(here, places=count, places_per_node=per_node)


def test_an_order_changes_something(apgas_job: MakeJob) -> None:
    with pytest.raises(apgas.UsageError, match="by at least 1, not by 0"):
        apgas_job(here).shrink(0)
    with pytest.raises(apgas.UsageError, match="by at least 1, not by -1"):
        apgas_job(here).grow(-1)
    with pytest.raises(apgas.UsageError, match="at least 1 worker, not 0"):
        apgas_job(here).workers(0)


set_up: list[str] = []
broken: list[str] = []


def setup() -> None:
    set_up.append("once")
    if broken:
        raise LookupError(broken[0])


@pytest.mark.parametrize("wrong", ["", "no such library"])
def test_every_place_is_set_up_first(apgas_job: MakeJob, wrong: str) -> None:
    def main() -> int:
        assert len(set_up) == 2
        broken.extend([wrong] if wrong else [])
        apgas.define_malleable_handler(ReleaseNewest())
        order = job.grow(2).wait()
        assert order.outcome == ("aborted" if wrong else "done")
        assert order.reason.endswith(f": setup raised LookupError: {wrong}" if wrong else "")
        return len(places())

    set_up.clear()
    broken.clear()
    job: Job[int] = apgas_job(main, places=2, setup=setup)
    assert job.run() == (2 if wrong else 4)
    assert len(set_up) == (3 if wrong else 4)


def test_a_setup_that_fails_ends_the_job(apgas_job: MakeJob) -> None:
    broken[:] = ["no such library"]
    with pytest.raises(LookupError, match="no such library"):
        apgas_job(int, setup=setup).run()
