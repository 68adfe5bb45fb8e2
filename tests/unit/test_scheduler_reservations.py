"""Advance reservations in the core: which nodes are kept, who may use them until then, what begins and ends."""

from __future__ import annotations

import pytest

from scheduler_bridge import policies
from scheduler_bridge.core import SchedulerCore, Settings
from scheduler_bridge.core.events import (
    Effect,
    EvolvingRequest,
    JobEnded,
    JobStarted,
    JobSubmitted,
    KeepNodes,
    KillJob,
    MalleableReady,
    NodeDown,
    Refuse,
    RefuseReservation,
    ReservationCancelled,
    ReservationMade,
    SendOrder,
    StartJob,
    WakeAt,
    WakeUp,
)
from scheduler_bridge.model import AdvanceReservation, InvalidReservationError, JobSpec

ALL = ["fcfs", "backfilling", "easy", "conservative", "malleable", "pref", "avg", "mebf", "penalty", "malleable-compat"]


def rigid(job_id: int, nodes: int, walltime_s: float, *, user: str = "u", reservation: str = "") -> JobSpec:
    return JobSpec(job_id, "j", user, "rigid", nodes, nodes, nodes, walltime_s, 0.0, reservation=reservation)


def malleable(job_id: int, least: int, most: int, walltime_s: float, reservation: str = "") -> JobSpec:
    return JobSpec(job_id, "j", "u", "malleable", least, least, most, walltime_s, 0.0, reservation=reservation)


def cluster(policy: str = "easy", nodes: str = "abcd", settings: Settings | None = None) -> SchedulerCore:
    return SchedulerCore(tuple(nodes), policies.get(policy), settings)


def keep(
    core: SchedulerCore, start_s: float, end_s: float, nodes: int, now: float = 0.0, **more: object
) -> list[Effect]:
    reservation = AdvanceReservation("r", start_s, end_s, nodes, **more)  # type: ignore[arg-type]  # any of its fields
    effects = core.handle(ReservationMade(reservation), now)
    core.check()
    return [effect for effect in effects if not isinstance(effect, WakeAt)]


def submit(core: SchedulerCore, spec: JobSpec, now: float) -> tuple[str, ...]:
    """Submit a job; return the nodes on which it starts at once."""
    effects = core.handle(JobSubmitted(spec), now)
    core.check()
    return next((e.nodes for e in effects if isinstance(e, StartJob) and e.job_id == spec.job_id), ())


@pytest.mark.parametrize("policy", ALL)
def test_a_job_that_would_stay_into_it_leaves_the_nodes_alone(policy: str) -> None:
    core = cluster(policy)
    assert keep(core, 100.0, 200.0, 2) == [KeepNodes("r", ("c", "d"))]
    assert submit(core, rigid(1, 3, 150.0), 0.0) == ()
    assert "2 are free but reserved" in core.explain(1)
    assert submit(cluster(policy), rigid(1, 3, 150.0), 0.0) == ("a", "b", "c")


@pytest.mark.parametrize("policy", ALL)
def test_a_job_that_ends_in_time_may_use_all_nodes(policy: str) -> None:
    core = cluster(policy)
    keep(core, 100.0, 200.0, 2)
    assert submit(core, rigid(1, 4, 100.0), 0.0) == ("a", "b", "c", "d")


def test_a_short_job_is_lent_nodes_beside_a_long_one_that_waits() -> None:
    core = cluster()
    keep(core, 100.0, 200.0, 2)
    assert submit(core, rigid(1, 2, 500.0), 0.0) == ("a", "b")
    assert submit(core, rigid(2, 2, 500.0), 0.0) == ()
    assert submit(core, rigid(3, 2, 50.0), 10.0) == ("c", "d")
    assert core.explanation(3).text.endswith("it ends before r, for which nodes are kept, begins")


def test_the_first_job_is_lent_the_nodes_that_it_lacks() -> None:
    core = cluster()
    keep(core, 100.0, 200.0, 2)
    core.handle_batch([JobSubmitted(rigid(1, 3, 90.0)), JobSubmitted(rigid(2, 1, 500.0))], 0.0)
    assert core.explanation(1).nodes == ("b", "c", "d")
    assert core.explanation(2).nodes == ("a",)


def test_the_reservation_runs_its_jobs_and_only_those() -> None:
    core = cluster()
    keep(core, 100.0, 200.0, 2)
    assert submit(core, rigid(1, 2, 80.0, reservation="r"), 0.0) == ()
    assert "its reservation r begins at 100 s" in core.explain(1)
    effects = core.handle(WakeUp(), 100.0)
    assert [e.nodes for e in effects if isinstance(e, StartJob)] == [("c", "d")]
    core.handle(JobStarted(1), 100.0)
    core.handle(JobEnded(1, "completed"), 120.0)
    assert submit(core, rigid(2, 3, 10.0), 130.0) == (), "they are kept until the end, even if no job uses them"
    assert submit(core, rigid(3, 1, 90.0, reservation="r"), 140.0) == ()
    assert "more than is left of its reservation r" in core.explain(3)
    assert sorted(e.job_id for e in core.handle(WakeUp(), 200.0) if isinstance(e, StartJob)) == [2, 3]


def test_wake_ups_are_asked_for_its_start_and_end() -> None:
    core = cluster()
    made = core.handle(ReservationMade(AdvanceReservation("r", 100.0, 200.0, 2)), 0.0)
    assert WakeAt(100.0) in made
    assert core.handle(WakeUp(), 100.0) == [WakeAt(200.0)]
    assert core.handle(WakeUp(), 200.0) == []
    assert core.snapshot().reservations == ()


def test_nodes_of_jobs_that_are_over_by_then_are_kept_and_no_others() -> None:
    core = cluster()
    for spec in (rigid(1, 2, 90.0), rigid(2, 1, 400.0)):
        submit(core, spec, 0.0)
    (refused,) = keep(core, 100.0, 200.0, 4)
    assert isinstance(refused, RefuseReservation)
    assert refused.reason == "only 3 nodes can be free by its start: job 2 may run until 400 s"
    assert keep(core, 100.0, 200.0, 3) == [KeepNodes("r", ("a", "b", "d"))]
    assert submit(core, rigid(3, 1, 101.0), 0.0) == ()


def test_nodes_of_a_job_that_may_use_its_grace_are_not_kept() -> None:
    core = cluster(settings=Settings(walltime_grace_s=20.0))
    submit(core, rigid(1, 2, 90.0), 0.0)
    core.handle(JobStarted(1), 0.0)
    (refused,) = keep(core, 109.0, 200.0, 3)
    assert isinstance(refused, RefuseReservation)
    assert "only 2 nodes can be free by its start: job 1 may run until" in refused.reason
    (kept,) = keep(core, 110.0, 200.0, 3)
    assert isinstance(kept, KeepNodes)


def test_where_no_node_can_be_kept_it_is_said_so() -> None:
    core = cluster()
    submit(core, rigid(1, 4, 400.0), 0.0)
    (refused,) = keep(core, 100.0, 200.0, 2)
    assert isinstance(refused, RefuseReservation)
    assert refused.reason == "no node can be free by its start: job 1 may run until 400 s"


def test_named_nodes_are_kept_or_the_reservation_is_refused() -> None:
    core = cluster()
    submit(core, rigid(1, 2, 400.0), 0.0)
    (refused,) = keep(core, 100.0, 200.0, 2, named=("b", "c"))
    assert isinstance(refused, RefuseReservation)
    assert refused.reason == "b cannot be free by its start: job 1 may run until 400 s"
    assert keep(core, 100.0, 200.0, 1, named=("c",)) == [KeepNodes("r", ("c",))]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"nodes": 9}, "it asks for 9 nodes, the cluster has 4"),
        ({"named": ("x",)}, "there is no node x"),
        ({"end_s": 5.0, "start_s": 1.0}, "it would have ended at 5 s, now it is 10 s"),
        ({"jobs": (7,)}, "job 7 does not wait"),
    ],
)
def test_what_cannot_be_is_refused(more: dict[str, object], why: str) -> None:
    fields: dict[str, object] = {"start_s": 100.0, "end_s": 200.0, "nodes": 1, "now": 10.0, **more}
    assert keep(cluster(), **fields) == [RefuseReservation("r", why)]  # type: ignore[arg-type]  # as the cases say


def test_a_second_one_of_the_name_is_refused_and_meeting_ones_share_no_node() -> None:
    core = cluster()
    keep(core, 100.0, 200.0, 3)
    assert keep(core, 300.0, 400.0, 1) == [RefuseReservation("r", "there is a reservation r already")]
    effects = core.handle(ReservationMade(AdvanceReservation("s", 150.0, 250.0, 2)), 0.0)
    assert "only 1 node can be free" in str(effects[0])
    assert KeepNodes("t", ("c", "d")) in core.handle(ReservationMade(AdvanceReservation("t", 200.0, 250.0, 2)), 0.0)
    core.check()


@pytest.mark.parametrize(
    "fields", [{"name": "a b"}, {"end_s": 1.0}, {"nodes": 0}, {"named": ("a",)}, {"nodes": 2, "named": ("a", "a")}]
)
def test_contradictions_are_named(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidReservationError, match="reservation"):
        AdvanceReservation(**{"name": "r", "start_s": 1.0, "end_s": 2.0, "nodes": 3, **fields})  # type: ignore[arg-type]  # as the cases say


def test_users_and_jobs_decide_who_belongs_to_it() -> None:
    core = cluster()
    submit(core, rigid(1, 4, 500.0), 0.0)
    submit(core, rigid(2, 1, 50.0), 0.0)
    core.handle(JobEnded(1, "failed"), 1.0)  # job 2 starts, so it does not wait any more
    for spec in (rigid(3, 4, 60.0), rigid(4, 1, 60.0, user="anna", reservation="r")):
        submit(core, spec, 1.0)
    keep(core, 60.0, 200.0, 2, 2.0, users=("anna",))
    submit(core, rigid(5, 1, 60.0, user="ben", reservation="r"), 2.0)
    row = core.snapshot().reservations[0]
    assert (row.jobs, row.started, row.nodes) == ((4,), False, ("c", "d"))


def test_cancelling_frees_the_nodes_and_makes_its_jobs_ordinary() -> None:
    core = cluster()
    keep(core, 100.0, 200.0, 2)
    submit(core, rigid(1, 4, 500.0, reservation="r"), 0.0)
    assert [e.job_id for e in core.handle(ReservationCancelled("r"), 1.0) if isinstance(e, StartJob)] == [1]
    core.check()


def test_a_node_that_fails_is_replaced_unless_nodes_were_named() -> None:
    core = cluster()
    keep(core, 100.0, 200.0, 2)
    assert KeepNodes("r", ("b", "d")) in core.handle(NodeDown("c"), 1.0)
    core.check()
    core = cluster()
    keep(core, 100.0, 200.0, 2, named=("c", "d"))
    assert not [e for e in core.handle(NodeDown("c"), 1.0) if isinstance(e, KeepNodes)]


def test_a_running_malleable_job_does_not_grow_into_it() -> None:
    core = cluster("malleable")
    keep(core, 100.0, 200.0, 2)
    assert submit(core, malleable(1, 1, 4, 500.0), 0.0) == ("a", "b")
    core.handle(JobStarted(1), 0.0)
    effects = core.handle(MalleableReady(1), 0.0)
    assert not [e for e in effects if isinstance(e, SendOrder)]
    wish = core.handle(EvolvingRequest(1, 2), 1.0)
    assert not [e for e in wish if isinstance(e, SendOrder)]
    assert [e.count for e in core.handle(WakeUp(), 200.0) if isinstance(e, SendOrder)] == [2]
    core.check()


def test_jobs_of_a_reservation_are_resized_within_it() -> None:
    core = cluster("malleable", "abcdef")
    keep(core, 100.0, 900.0, 4)
    submit(core, malleable(1, 1, 6, 300.0, reservation="r"), 0.0)
    core.handle(WakeUp(), 100.0)
    core.handle_batch([JobStarted(1), MalleableReady(1)], 100.0)
    assert len(core.explanation(1).nodes) == 4
    (order,) = [
        e for e in core.handle(JobSubmitted(rigid(2, 2, 50.0, reservation="r")), 110.0) if isinstance(e, SendOrder)
    ]
    assert (order.kind, order.count) == ("shrink", 2)
    core.check()


def test_a_job_that_nothing_binds_is_ended_when_its_lent_nodes_are_due() -> None:
    core = cluster(settings=Settings(walltime="scaled"))
    keep(core, 100.0, 200.0, 2)
    spec = JobSpec(1, "j", "u", "malleable", 4, 2, 4, 40.0, 0.0)
    submit(core, rigid(2, 2, 500.0), 0.0)
    assert submit(core, spec, 0.0) == ("c", "d"), "on half of what it asked for it takes twice as long"
    core.handle(JobStarted(1), 0.0)
    killed = [e for e in core.handle(WakeUp(), 100.0) if isinstance(e, KillJob)]
    assert killed == [KillJob(1, "its nodes are reserved for r from now on")]
    assert core.handle(JobEnded(1, "failed"), 101.0) is not None
    assert core.ended(1) == ("timeout", "its nodes are reserved for r from now on")


def test_a_job_whose_start_was_late_has_its_walltime() -> None:
    core = cluster()
    keep(core, 100.0, 200.0, 4)
    submit(core, rigid(1, 4, 100.0), 0.0)
    core.handle(JobStarted(1), 5.0)
    submit(core, rigid(2, 3, 50.0, reservation="r"), 6.0)
    assert core.handle(WakeUp(), 100.0) == [WakeAt(105.0)]
    assert [e.job_id for e in core.handle(WakeUp(), 105.0) if isinstance(e, KillJob)] == [1]
    assert [e.job_id for e in core.handle(JobEnded(1, "failed"), 106.0) if isinstance(e, StartJob)] == [2]


def test_a_reservation_far_away_holds_nothing_up() -> None:
    core = cluster()
    keep(core, 0.0, 200.0, 2)
    core.handle(ReservationMade(AdvanceReservation("far", 90_000.0, 91_000.0, 3)), 0.0)
    submit(core, rigid(1, 4, 50.0), 10.0)
    (waiting,) = core.snapshot().jobs
    assert waiting.expected_start_s == 200.0


def test_a_job_of_a_reservation_that_has_time_waits_for_nodes() -> None:
    core = cluster()
    keep(core, 0.0, 200.0, 2)
    assert submit(core, rigid(1, 2, 50.0, reservation="r"), 0.0)
    assert submit(core, rigid(2, 2, 50.0, reservation="r"), 0.0) == ()
    assert "more than is left" not in core.explain(2)
    assert "it needs 2 nodes, 0 are free" in core.explain(2)


@pytest.mark.parametrize(("reservation", "answer"), [("r", SendOrder), ("", Refuse)])
def test_a_request_for_more_comes_after_jobs_that_may_use_the_same_nodes(reservation: str, answer: type) -> None:
    core = cluster(nodes="abcdef")
    keep(core, 100.0, 200.0, 2)
    submit(core, rigid(1, 3, 50.0), 0.0)
    assert submit(core, malleable(2, 1, 4, 50.0), 0.0) == ("d", "e", "f")
    core.handle_batch([JobStarted(1), JobStarted(2), MalleableReady(2), JobEnded(1, "completed")], 1.0)
    submit(core, rigid(3, 2 if reservation else 6, 50.0, reservation=reservation), 2.0)
    assert [type(effect) for effect in core.handle(EvolvingRequest(2, 1), 3.0)] == [answer]


def test_nodes_are_lent_from_one_reservation_when_another_has_none_to_lend() -> None:
    core = cluster()
    first, second = AdvanceReservation("r", 100.0, 300.0, 1), AdvanceReservation("s", 200.0, 300.0, 1)
    kept = [core.handle(ReservationMade(each), 0.0)[0] for each in (first, second)]
    assert kept == [KeepNodes("r", ("d",)), KeepNodes("s", ("c",))]
    assert submit(core, rigid(1, 3, 150.0), 0.0) == ("a", "b", "c"), "s lends its node"
    assert submit(core, rigid(2, 3, 500.0), 1.0) == ()
    assert submit(core, rigid(3, 1, 50.0), 2.0) == ("d",)
