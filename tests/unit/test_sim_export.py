"""Jobs as they ran, for other programs; by hand."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_bridge import policies
from scheduler_bridge.core import Settings
from scheduler_bridge.core.events import CancelJob, Event, NodeDown, NodeUp
from scheduler_bridge.sim import COLUMNS, Behaviour, FaultTolerance, Replay, ReplayOptions, as_it_ran, job_rows, replay
from scheduler_bridge.workloads import TraceJob, Workload

MALLEABLE: dict[str, object] = {"job_class": "malleable", "min_nodes": 1, "max_nodes": 4}


def job(job_id: int, submit_s: float, runtime_s: float, nodes: int, **others: object) -> TraceJob:
    return TraceJob(job_id, submit_s, runtime_s, 10 * runtime_s, nodes, **others)  # type: ignore[arg-type]  # by name


# Four nodes, min: job 0 starts on all of them, half of its 100 s at 2 nodes in 25 s. At 25 s job 1 needs 3: job 0 goes
# on with one, of which a second does half of one at 2. Job 1 runs 10 s, to 35 s: job 0 has done 50 + 5 s of its 100 s
# and has 4 nodes again, 22.5 s more.
WORKLOAD = Workload("two", 4, (job(0, 0, 100, 2, **MALLEABLE), job(1, 25, 10, 3)))


FAILS = Behaviour(tolerance=FaultTolerance(requeue=False))


def ran(*events: tuple[float, Event], behaviour: Behaviour | None = None) -> Replay:
    options = ReplayOptions(behaviour or Behaviour(), Settings(walltime="scaled"))
    return replay(WORKLOAD, policies.get("min"), 4, options, disturbances=events)


def row(done: Replay, job_id: int) -> Mapping[str, object]:
    rows = [dict(zip(COLUMNS, values, strict=True)) for values in job_rows(done.result.records.values(), "two", "min")]
    return rows[job_id]


def test_a_row_has_what_became_of_a_job() -> None:
    found = row(ran(), 0)
    assert (found["start_s"], found["end_s"], found["turnaround_s"], found["slowdown"]) == (0, 57.5, 57.5, 1)
    assert (found["shrinks"], found["grows"], found["outcome"]) == (1, 1, "completed")
    assert found["node_s"] == 25 * 4 + 10 * 1 + 22.5 * 4


def test_jobs_keep_their_runtime_and_get_their_sizes() -> None:
    done = ran()
    found = as_it_ran(WORKLOAD, done.result.records, "min")
    assert [each.runtime_s for each in found.jobs] == [100, 10]
    assert [each.allocations for each in found.jobs] == [((0, 4), (25, 1), (35, 4)), ((0, 3),)]
    assert [each.wait_s for each in found.jobs] == [0, 0]
    assert found.source == "two, simulated under min"


def test_of_a_job_that_did_not_complete_the_work_counts_that_it_did() -> None:
    # at 35 s: 55 of its 100 s at 2 nodes
    done = ran((35.0, CancelJob(0)))
    found = as_it_ran(WORKLOAD, done.result.records, "min").jobs[0]
    assert (found.runtime_s, found.status) == (55, "cancelled")
    assert row(done, 0)["outcome"] == "cancelled"


def test_what_never_ran_is_left_out_and_counted() -> None:
    done = ran((20.0, NodeDown("n0000")), (20.0, NodeDown("n0001")), behaviour=FAILS)
    assert row(done, 0)["outcome"] == "lost"
    assert row(done, 1)["start_s"] is None
    assert row(done, 1)["turnaround_s"] is None
    found = as_it_ran(WORKLOAD, done.result.records, "min")
    assert [(each.job_id, each.status, each.runtime_s) for each in found.jobs] == [(0, "failed", 40)]
    assert found.findings.skipped["not over, or never ran"].count == 1


def test_a_job_that_was_run_again_is_exported_as_it_ran_last() -> None:
    # lost at 20 s; job 0 waits as the first, starts again on the three nodes left, and takes its 100 s at 2 nodes anew
    done = ran((20.0, NodeDown("n0000")), (200.0, NodeUp("n0000")))
    assert (row(done, 0)["restarts"], row(done, 0)["lost_node_s"], row(done, 0)["outcome"]) == (1, 80, "completed")
    found = as_it_ran(WORKLOAD, done.result.records, "min").jobs[0]
    assert (found.runtime_s, found.wait_s, found.allocations[0]) == (100, 20, (0, 3))


def test_of_shared_nodes_the_part_of_the_cores_counts() -> None:
    # One node of four cores: job 0 is alone for 10 s, has half of the cores for 20 s, and is cancelled: 20 of 100 s.
    workload = Workload("one", 1, (job(0, 0, 100, 1, job_class="malleable"), job(1, 10, 50, 1, job_class="malleable")))
    options = ReplayOptions(settings=Settings(cores_per_node=4))
    events = [(30.0, CancelJob(0))]
    done = replay(workload, policies.get("sd-policy", max_slowdown="inf"), 1, options, disturbances=events)
    assert as_it_ran(workload, done.result.records, "sd-policy").jobs[0].runtime_s == 20
