"""Every order has an answer: what the runtime makes of handlers, places and nodes that do not do as they should."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from support import PATIENCE_S
from support.orders import SHORT_S, Handler, fail, last, program, reasons, wait_for

import apgas
from apgas import Deadlines, async_at, at, finish, here, place, places
from apgas.runtime.malleable import choose_nodes
from apgas.runtime.program import program as program_of_job
from apgas.runtime.spawning import AssignIds, Spawned
from apgas.testing.job import InProcessPlaces, Job
from apgas.testing.pytest_plugin import MakeJob

# leavers --------------------------------------------------------------------------------------------------------------


may_end = threading.Event()


def open_a_finish() -> None:
    with finish():
        async_at(place(0), end_when_allowed)


def end_when_allowed() -> None:
    assert may_end.wait(PATIENCE_S)


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
            left = program(Handler("shrinkAborted", fail), 1, Deadlines(drain_s=SHORT_S))
            may_end.set()
        return left

    may_end.clear()
    job = apgas_job(main, places=2)
    job.shrink(1)
    assert job.run() == [0, 1]
    undrained = "places [1] did not drain: drain took longer than its deadline"
    assert reasons(job) == [("aborted", f"{undrained}; shrinkAborted raised LookupError: no")]


def test_a_library_chooses_whole_nodes(apgas_job: MakeJob) -> None:
    def main() -> None:
        candidates = apgas.nodes()[1:]
        assert choose_nodes(2, candidates) == [place(6), place(7)]
        assert choose_nodes(4, candidates, lambda node: node[0] == place(4)) == [place(2), place(3), place(6), place(7)]
        with pytest.raises(ValueError, match="4 nodes are to leave, but only 3 can"):
            choose_nodes(8, candidates)

    apgas_job(main, places=8, places_per_node=2).run()


class Choosing(Handler):
    """Chooses as libraries do; node3 is the dearest."""

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        return choose_nodes(nb_places, apgas.nodes()[1:], lambda node: node[0] == place(3))


def test_the_wish_comes_before_the_cost(apgas_job: MakeJob) -> None:
    job = apgas_job(program, Choosing(), 2, places=4)
    job.shrink(1, wish=["node3"])
    job.shrink(1)
    assert job.run() == [0, 1]


# newcomers ------------------------------------------------------------------------------------------------------------


def test_newcomers_that_come_too_late_are_sent_home(apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, came = threading.Event(), threading.Event()
    spawn = InProcessPlaces.spawn

    def late(self: InProcessPlaces, nodes: tuple[str, ...], admit: AssignIds) -> Spawned:
        if nodes == ("late",):
            assert opened.wait(PATIENCE_S)
        added = spawn(self, nodes, admit)
        came.set()
        return added

    def main() -> list[int]:
        apgas.define_malleable_handler(Handler(), deadlines=Deadlines(spawn_s=SHORT_S))
        job.grow(1, on=["late"]).wait()
        program_of_job().resizing._machine.deadlines = Deadlines()  # the next one takes as long as it takes
        opened.set()
        assert came.wait(PATIENCE_S)
        wait_for(lambda: 1 not in job._places.drivers)  # it was released, and has ended
        assert job.grow(1).wait().outcome == "done"
        return [at(where, here).id for where in places()]

    monkeypatch.setattr(InProcessPlaces, "spawn", late)
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
        assert release.wait(PATIENCE_S)

    def main() -> int:
        apgas.define_malleable_handler(Handler("postGrow", take_time))
        assert began.wait(PATIENCE_S)
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
