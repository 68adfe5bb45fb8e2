from __future__ import annotations

import math

import pytest

from scheduler_bridge.core import events
from scheduler_bridge.core import events as ev
from scheduler_bridge.model import AdvanceReservation, JobSpec
from scheduler_bridge.record import (
    Advance,
    Recorder,
    Segment,
    busy_node_s,
    busy_steps,
    decode_record,
    encode_record,
    nodes_over_time,
)

NODES = ("a", "b", "c")


def spec(job_id: int = 1, *, malleable: bool = True, submit_s: float = 100.0) -> JobSpec:
    return JobSpec(
        job_id=job_id,
        name=f"job-{job_id}",
        user="me",
        job_class="malleable" if malleable else "rigid",
        nodes=1,
        min_nodes=1,
        max_nodes=3 if malleable else 1,
        walltime_s=60.0,
        submit_s=submit_s,
    )


def started() -> Recorder:
    recorder = Recorder(NODES, "malleable")
    recorder.observe(0.0, [ev.JobSubmitted(spec())], [events.StartJob(1, ("a",))])
    recorder.observe(1.0, [ev.JobStarted(1)])
    return recorder


def test_a_job_that_grows_and_shrinks() -> None:
    recorder = started()
    recorder.observe(3.0, [ev.MalleableReady(1)], [events.SendOrder(1, 7, "grow", ("b", "c"), 2)])
    recorder.note_measured(1, 7, 0.9, {"spawn": 0.5})
    recorder.observe(4.0, [ev.GrowCompleted(1, 7, ("b", "c"))], [events.SendOrder(1, 8, "shrink", ("b",), 1)])
    recorder.observe(6.0, [ev.ShrinkCompleted(1, 8, ("c",))])
    recorder.observe(10.0, [ev.JobEnded(1, "completed")])
    recorder.note_result(1, {"result": 5, "verified": True})
    record = recorder.record()
    job = record.jobs[0]
    assert (job.submit_s, job.start_s, job.end_s, job.state, job.verified) == (0.0, 1.0, 10.0, "completed", True)
    assert job.ready_s == 3.0
    assert job.segments == [
        Segment(1.0, 4.0, ("a",)),
        Segment(4.0, 6.0, ("a", "b", "c")),
        Segment(6.0, 10.0, ("a", "b")),
    ]
    assert nodes_over_time(job) == [(1.0, 1), (4.0, 3), (6.0, 2)]
    grow, shrink = job.resizes
    assert (grow.kind, grow.ordered_s, grow.done_s, grow.outcome, grow.seconds) == ("grow", 3.0, 4.0, "done", 0.9)
    assert grow.phases == {"spawn": 0.5}
    assert (shrink.kind, shrink.nodes, shrink.outcome) == ("shrink", ("c",), "done"), "the job chooses what it gives"
    assert {(item.node, item.from_s, item.to_s) for item in record.reserved} == {
        ("a", 0.0, 1.0),
        ("b", 3.0, 4.0),
        ("c", 3.0, 4.0),
    }


def test_a_failed_grow_gives_the_nodes_back() -> None:
    recorder = started()
    recorder.observe(2.0, [ev.WakeUp()], [events.SendOrder(1, 7, "grow", ("b",), 1)])
    recorder.observe(5.0, [ev.ResizeFailed(1, 7, "no such host")])
    recorder.note_outcome(1, 7, "refused")
    job = recorder.record().jobs[0]
    assert (job.resizes[0].outcome, job.resizes[0].reason, job.resizes[0].done_s) == ("refused", "no such host", 5.0)
    assert job.segments == [Segment(1.0, 5.0, ("a",))]
    assert [(item.node, item.from_s, item.to_s) for item in recorder.record().reserved if item.node == "b"] == [
        ("b", 2.0, 5.0)
    ]


def test_a_grow_may_bring_fewer_nodes_than_ordered() -> None:
    recorder = started()
    recorder.observe(2.0, [ev.WakeUp()], [events.SendOrder(1, 7, "grow", ("b", "c"), 2)])
    recorder.observe(3.0, [ev.GrowCompleted(1, 7, ("c",))])
    recorder.observe(4.0, [ev.WakeUp()])
    record = recorder.record()
    assert record.jobs[0].segments[-1] == Segment(3.0, 4.0, ("a", "c"))
    assert all(item.to_s <= 3.0 for item in record.reserved)


def test_an_order_that_the_jobs_end_overtook_is_aborted() -> None:
    recorder = started()
    recorder.observe(2.0, [ev.WakeUp()], [events.SendOrder(1, 7, "shrink", ("b",), 1)])
    recorder.observe(3.0, [ev.ResizeDeferred(1, 7, "reducing")])
    assert recorder.record().jobs[0].resizes[0].reason == "deferred: reducing"
    recorder.observe(4.0, [ev.JobEnded(1, "failed", "exit 1")])
    job = recorder.record().jobs[0]
    assert (job.state, job.reason, job.resizes[0].outcome) == ("failed", "exit 1", "aborted")


def test_a_snapshot_closes_what_is_open_and_stays_as_it_was() -> None:
    recorder = started()
    recorder.observe(5.0, [ev.WakeUp()])
    early = recorder.record()
    assert early.jobs[0].segments == [Segment(1.0, 5.0, ("a",))]
    assert (early.jobs[0].state, early.jobs[0].end_s, early.end_s) == ("running", None, 5.0)
    recorder.observe(9.0, [ev.JobEnded(1, "completed")])
    assert early.jobs[0].segments == [Segment(1.0, 5.0, ("a",))]
    assert recorder.record().jobs[0].segments == [Segment(1.0, 9.0, ("a",))]


def test_a_refused_submission_and_a_cancelled_waiting_job() -> None:
    recorder = Recorder(NODES, "easy")
    recorder.observe(0.0, [ev.JobSubmitted(spec(1))], [events.Refuse(1, "wants 9 nodes, there are 3")])
    recorder.observe(1.0, [ev.JobSubmitted(spec(2))])
    recorder.observe(2.0, [ev.JobEnded(2, "cancelled")])
    refused, cancelled = recorder.record().jobs
    assert (refused.state, refused.reason) == ("refused", "wants 9 nodes, there are 3")
    assert (cancelled.state, cancelled.start_s, cancelled.end_s) == ("cancelled", None, 2.0)


def test_nodes_that_are_down_show() -> None:
    recorder = Recorder(NODES, "easy")
    recorder.observe(1.0, [ev.NodeDown("b")])
    recorder.observe(3.0, [ev.NodeUp("b")])
    recorder.observe(4.0, [ev.NodeDown("c")])
    recorder.observe(6.0, [ev.WakeUp()])
    assert {(item.node, item.from_s, item.to_s, item.job_id) for item in recorder.record().reserved} == {
        ("b", 1.0, 3.0, None),
        ("c", 4.0, 6.0, None),
    }


def test_results_that_do_not_say_whether_they_are_right_are_not_verified() -> None:
    recorder = started()
    recorder.note_result(1, {"result": 5, "verified": None})
    assert recorder.record().jobs[0].verified is None
    recorder.note_result(1, {"result": 5, "verified": "yes"})
    assert recorder.record().jobs[0].verified is None


def test_a_record_survives_its_file() -> None:
    recorder = started()
    recorder.note("emulated")
    recorder.note("emulated")
    record = recorder.record()
    assert record.notes == ["emulated"]
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize("call", ["measured", "outcome", "result"])
def test_notes_about_unknown_jobs_and_orders_change_nothing(call: str) -> None:
    recorder = started()
    before = recorder.record()
    match call:
        case "measured":
            recorder.note_measured(1, 99, 1.0, {})
        case "outcome":
            recorder.note_outcome(99, 7, "refused")
        case _:
            recorder.note_result(99, {"verified": True})
    assert recorder.record() == before


def test_the_recent_part_has_what_is_open_or_reaches_into_it() -> None:
    recorder = started()
    recorder.observe(3.0, [ev.MalleableReady(1)], [events.SendOrder(1, 7, "grow", ("b",), 1)])
    recorder.observe(4.0, [ev.GrowCompleted(1, 7, ("b",))])
    recorder.observe(5.0, [ev.JobSubmitted(spec(2))], [events.StartJob(2, ("c",))])
    recent = recorder.recent(4.0)
    assert [job.job_id for job in recent.jobs] == [1, 2]
    assert recent.jobs[0].segments == [Segment(4.0, math.inf, ("a", "b"))], "the first one ended at 4"
    assert [(item.node, item.to_s, item.job_id) for item in recent.reserved] == [("c", math.inf, 2)]
    assert recent.jobs[0].resizes[0].outcome == "done"
    recorder.observe(10.0, [ev.JobEnded(1, "completed")])
    assert [job.job_id for job in recorder.recent(9.0).jobs] == [1, 2]
    assert [job.job_id for job in recorder.recent(10.0).jobs] == [2]
    assert len(recorder.recent(-math.inf).jobs[0].segments) == 2


def test_jobs_that_share_nodes_count_with_their_part_of_the_cores() -> None:
    # Job 1 runs on node a from 1 s. Job 2 shares it from 10 s to 30 s: 1 of its 4 cores. 40 s: job 1 ends.
    recorder = Recorder(NODES, "sd-policy", cores_per_node=4)
    recorder.observe(0.0, [ev.JobSubmitted(spec())], [events.StartJob(1, ("a",))])
    recorder.observe(1.0, [ev.JobStarted(1)])
    recorder.observe(10.0, [ev.JobSubmitted(spec(2))], [events.SendOrder(1, 1, "workers", ("a",), 3, (0b0111,))])
    recorder.observe(10.0, [ev.WorkersChanged(1, 1)], [events.StartJob(2, ("a",), (0b1000,))])
    recorder.observe(10.0, [ev.JobStarted(2)])
    recorder.observe(30.0, [ev.JobEnded(2, "completed")], [events.SendOrder(1, 2, "workers", ("a",), 4, (0b1111,))])
    recorder.observe(30.0, [ev.WorkersChanged(1, 2)])
    recorder.observe(40.0, [ev.JobEnded(1, "completed")])
    record = recorder.record()
    assert record.jobs[0].segments == [
        Segment(1.0, 10.0, ("a",)),
        Segment(10.0, 30.0, ("a",), 0.75, core_ids=("0-2",)),
        Segment(30.0, 40.0, ("a",), core_ids=("0-3",)),
    ]
    assert record.jobs[1].segments == [Segment(10.0, 30.0, ("a",), 0.25, is_guest=True, core_ids=("3",))]
    assert busy_node_s(record.jobs) == 39.0
    assert busy_steps(record) == [(1.0, 1.0), (40.0, 0.0)], "the node is busy all the time, once"
    assert decode_record(encode_record(record)) == record


def test_the_part_of_each_node_is_known_where_they_differ() -> None:
    recorder = Recorder(NODES, "sd-policy", cores_per_node=4)
    recorder.observe(0.0, [ev.JobSubmitted(spec())], [events.StartJob(1, ("a", "b"), (0b0001, 0b1110))])
    recorder.observe(0.0, [ev.JobStarted(1)])
    recorder.observe(10.0, [ev.NodesLost(1, ("a",))])
    recorder.observe(20.0, [ev.JobEnded(1, "completed")])
    both, rest = recorder.record().jobs[0].segments
    assert both == Segment(0.0, 10.0, ("a", "b"), 0.5, True, (0.25, 0.75), ("0", "1-3"))
    assert rest == Segment(10.0, 20.0, ("b",), 0.75, is_guest=True, core_ids=("1-3",))


def test_kept_nodes_are_recorded_until_they_are_given_back() -> None:
    recorder = started()
    asked = AdvanceReservation("r", 50.0, 100.0, 2)
    recorder.observe(2.0, [ev.ReservationMade(asked)], [events.KeepNodes("r", ("b", "c"))])
    recorder.observe(
        3.0, [ev.ReservationMade(AdvanceReservation("r", 1.0, 900.0, 1))], [events.RefuseReservation("r", "no")]
    )
    recorder.observe(4.0, [ev.NodeDown("b")], [events.KeepNodes("r", ("a", "c"))])
    assert recorder.record().advance == [Advance("r", 50.0, 100.0, ("a", "c"))]
    recorder.observe(60.0, [ev.ReservationCancelled("r")])
    recorder.observe(
        61.0, [ev.ReservationMade(AdvanceReservation("r", 200.0, 300.0, 1))], [events.KeepNodes("r", ("a",))]
    )
    assert decode_record(encode_record(recorder.record())).advance == [
        Advance("r", 50.0, 60.0, ("a", "c")),
        Advance("r", 200.0, 300.0, ("a",)),
    ]
    assert [kept.from_s for kept in recorder.recent(70.0).advance] == [200.0]
    recorder.observe(
        70.0,
        [ev.ReservationMade(AdvanceReservation("s", 200.0, 300.0, 1)), ev.ReservationCancelled("s")],
        [events.KeepNodes("s", ("a",))],
    )
    assert len(recorder.record().advance) == 2, "it was cancelled at once"


def test_the_cores_of_each_node_are_known_where_they_differ() -> None:
    recorder = Recorder(NODES, "sd-policy", cores_per_node=4)
    recorder.observe(0.0, [ev.JobSubmitted(spec())], [events.StartJob(1, ("a", "b"), (0b0100, 0b1011))])
    recorder.observe(0.0, [ev.JobStarted(1)])
    recorder.observe(10.0, [ev.JobEnded(1, "completed")])
    (segment,) = recorder.record().jobs[0].segments
    assert list(segment.core_ids_by_node()) == [("a", "2"), ("b", "0-1,3")]
    assert list(Segment(0.0, 1.0, ("a", "b"), 0.5, core_ids=("2-3",)).core_ids_by_node()) == [
        ("a", "2-3"),
        ("b", "2-3"),
    ]
    assert list(Segment(0.0, 1.0, ("a", "b")).core_ids_by_node()) == [("a", ""), ("b", "")]
