"""Jobs that come after others: in traces, in job files, and in the simulator."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.core.events import CancelJob, Event, JobSubmitted, NodeDown, NodeUp
from scheduler_bridge.daemon.requests import JobRequest
from scheduler_bridge.daemon.storage.log_entries import Entry, Requested
from scheduler_bridge.daemon.storage.log_state import LogState
from scheduler_bridge.daemon.storage.store import Era
from scheduler_bridge.model import JobSpec
from scheduler_bridge.record import JobRecord as RecordedJob
from scheduler_bridge.record import RunRecord, Segment, decode_record, encode_record
from scheduler_bridge.sim import Auditor, Engine, FaultTolerance, SimRecord, node_names, replay, simulate
from scheduler_bridge.workloads import TraceJob, Workload, read_swf, write_swf
from scheduler_bridge.workloads.job_files import read_job_file
from scheduler_bridge.workloads.load import workload_of
from scheduler_bridge.workloads.source import TraceError
from scheduler_bridge.workloads.workload import dependencies


def trace(job_id: int, submit_s: float = 0.0, runtime_s: float = 10.0, **others: object) -> TraceJob:
    return TraceJob(job_id, submit_s, runtime_s, 100.0, 1, **others)  # type: ignore[arg-type]  # by name


def records(*jobs: TraceJob, nodes: int = 4) -> dict[int, SimRecord]:
    return replay(Workload("w", nodes, jobs), policies.get("easy")).result.records


def test_a_job_is_submitted_a_think_time_after_the_end_of_the_preceding_one() -> None:
    found = records(trace(1), trace(2, preceding_job=1, think_s=5.0), trace(3, 40.0, preceding_job=1, think_s=5.0))
    assert [(record.spec.submit_s, record.start_s) for record in found.values()] == [(0, 0), (15, 15), (40, 40)]
    assert found[2].wait_s == 0  # it waits from when it is submitted
    done = replay(Workload("w", 4, (trace(1), trace(2, preceding_job=1))), policies.get("easy"))
    assert (done.links.honoured, done.links.dropped) == (1, {})


def test_after_ok_cancels_and_after_any_does_not() -> None:
    # Job 1 is over its walltime at 100 s; what comes after job 2 is cancelled with it
    late = simulated(JobSpec(1, "j", "u", "rigid", 1, 1, 1, 100.0, 0.0), 200.0)
    sims = [
        late,
        *[
            simulated(JobSpec(number, "j", "u", "rigid", 1, 1, 1, 100.0, 0.0), 10.0, **after)
            for number, after in (
                (2, {"after_ok": (1,)}),
                (3, {"after_any": (1,)}),
                (4, {"after_ok": (2,)}),
                (5, {"after_any": (2,)}),
            )
        ],
    ]
    engine = Engine(2, policies.get("easy"), observer=Auditor(node_names(2)), check=True)
    found = engine.run(sims).records
    assert [found[number].outcome for number in (1, 2, 3, 4, 5)] == [
        "timeout", "cancelled", "completed", "cancelled", "completed",
    ]  # fmt: skip
    assert (found[3].start_s, found[2].start_s, found[5].start_s) == (100.0, None, 100.0)


def test_a_lost_job_is_waited_for_until_it_ends_for_good() -> None:
    first = simulated(JobSpec(0, "j", "u", "rigid", 1, 1, 1, 100.0, 0.0), 30.0, tolerance=FaultTolerance())
    second = simulated(JobSpec(1, "j", "u", "rigid", 1, 1, 1, 100.0, 0.0), 5.0, after_ok=(0,))
    events: list[tuple[float, Event]] = [(10.0, NodeDown("n0000")), (20.0, NodeUp("n0000"))]
    found = simulate(1, policies.get("easy"), [first, second], events).records
    assert (found[0].end_s, found[1].start_s, found[1].outcome) == (50.0, 50.0, "completed")


def test_a_job_behind_one_that_is_cancelled_or_refused() -> None:
    first = simulated(JobSpec(0, "j", "u", "rigid", 9, 9, 9, 100.0, 0.0), 30.0)
    others = [
        simulated(JobSpec(number, "j", "u", "rigid", 1, 1, 1, 100.0, 0.0), 5.0, **after)
        for number, after in ((1, {"after_ok": (0,)}), (2, {"after_any": (0,)}))
    ]
    found = simulate(1, policies.get("easy"), [first, *others]).records
    assert (found[0].refused, found[1].outcome, found[2].outcome) == (True, "cancelled", "completed")
    waits = simulated(JobSpec(3, "j", "u", "rigid", 1, 1, 1, 100.0, 0.0), 50.0)
    blocked = simulated(JobSpec(4, "j", "u", "rigid", 1, 1, 1, 100.0, 0.0), 5.0)
    last = simulated(JobSpec(5, "j", "u", "rigid", 1, 1, 1, 100.0, 0.0), 5.0, after_ok=(4,))
    found = simulate(1, policies.get("easy"), [waits, blocked, last], [(7.0, CancelJob(4))]).records
    assert (found[4].outcome, found[5].outcome) == ("cancelled", "cancelled")


def test_what_waits_for_a_job_that_is_cancelled_while_it_waits_to_be_run_again_goes_on() -> None:
    first = simulated(JobSpec(0, "j", "u", "rigid", 1, 1, 1, 100.0, 0.0), 30.0, tolerance=FaultTolerance())
    others = [
        simulated(JobSpec(number, "j", "u", "rigid", 1, 1, 1, 100.0, 0.0), 5.0, **after)
        for number, after in ((1, {"after_any": (0,)}), (2, {"after_ok": (0,)}))
    ]
    events: list[tuple[float, Event]] = [
        (10.0, NodeDown("n0000")), (15.0, CancelJob(0)), (17.0, CancelJob(0)), (20.0, NodeUp("n0000")),
    ]  # fmt: skip
    engine = Engine(1, policies.get("easy"), observer=Auditor(node_names(1)), check=True)
    found = engine.run([first, *others], events).records
    assert [record.outcome for record in found.values()] == ["cancelled", "completed", "cancelled"]
    assert (found[0].end_s, found[1].spec.submit_s, found[1].start_s) == (15.0, 15.0, 20.0)


def test_a_job_that_is_over_and_forgotten_may_be_cancelled() -> None:
    jobs = Workload("w", 1, (trace(0), trace(1, after_any=(0,)), trace(2, 50.0)))
    done = replay(jobs, policies.get("easy"), disturbances=[(30.0, CancelJob(0)), (31.0, CancelJob(1))])
    assert [record.outcome for record in done.result.records.values()] == ["completed"] * 3


def test_what_cannot_be_honoured_is_counted() -> None:
    jobs = (
        trace(1, preceding_job=9), trace(2, preceding_job=2), trace(3, preceding_job=4), trace(4, preceding_job=3),
        trace(5, preceding_job=1),
    )  # fmt: skip
    found = dependencies(jobs)
    assert found.dropped == {"after a job that is not there": 1, "after itself": 1, "in a circle": 1}
    assert found.honoured == 2
    assert all(record.outcome == "completed" for record in records(*jobs).values())
    assert dependencies((trace(1), trace(2))).after == {}


@pytest.mark.parametrize("seed", range(20))
def test_no_job_starts_before_those_that_it_comes_after(seed: int) -> None:
    rng = random.Random(f"{seed} dependencies")
    jobs = []
    for number in range(60):
        others: dict[str, object] = {}
        if number and rng.random() < 0.6:
            before = tuple(rng.sample(range(number), min(number, rng.randint(1, 3))))
            others = rng.choice([{"after_ok": before}, {"after_any": before}, {"preceding_job": before[0]}])
            others["think_s"] = rng.choice([0.0, 7.0])
        jobs.append(trace(number, rng.uniform(0, 200), rng.uniform(1, 60), **others))
    found = records(*jobs, nodes=5)
    for job in jobs:
        before = (*job.after_ok, *job.after_any, *([job.preceding_job] if job.preceding_job >= 0 else []))
        ends = [found[other].end_s or 0.0 for other in before]
        eligible_s = max([job.submit_s, *[end_s + job.think_s for end_s in ends]])
        assert found[job.job_id].spec.submit_s == pytest.approx(eligible_s)
        assert (found[job.job_id].start_s or 0.0) >= eligible_s


def test_the_fields_of_a_trace_are_honoured(tmp_path: Path) -> None:
    path = tmp_path / "w.swf"
    path.write_text(
        "; MaxNodes: 4\n1 0 -1 100 1 -1 -1 1 200 -1 1 1 1 1 1 1 -1 -1\n2 10 -1 100 1 -1 -1 1 200 -1 1 1 1 1 1 1 1 30\n"
    )
    assert replay(read_swf(path), policies.get("easy")).result.records[2].start_s == 130.0


def test_job_files_name_or_number_what_they_come_after(tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_text(
        'nodes = 4\n[[job]]\nname = "a"\nruntime_s = 10\ncount = 2\n[[job]]\nname = "b"\nafter_ok = ["a"]\n'
        "think_s = 3\nruntime_s = 10\n[[job]]\nafter_any = [2]\nruntime_s = 1\n"
    )
    found = replay(read_job_file(path), policies.get("easy")).result.records
    assert [record.start_s for record in found.values()] == [0, 0, 13, 23]


@pytest.mark.parametrize(
    ("lines", "story"),
    [
        ("[[job]]\nafter_ok = [7]\n", "there is no job 7"),
        ('[[job]]\nafter_any = ["x"]\n', "there is no job 'x'"),
        ("[[job]]\n[[job]]\nafter_ok = 0\n", "after_ok is 0"),
        ('[[job]]\nname = "xx"\n[[job]]\nafter_ok = "xx"\n', "after_ok is 'xx'"),
        ("[[job]]\n[[job]]\n[[job]]\nafter_ok = [true]\n", "there is no job True"),
        ("[[job]]\nafter_ok = [0]\n", "comes after itself"),
        ("[[job]]\nafter_ok = [1]\n[[job]]\nafter_any = [0]\n", "in a circle"),
    ],
)
def test_mistakes_in_job_files_are_refused(lines: str, story: str, tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_text("nodes = 4\n" + lines)
    with pytest.raises(TraceError, match=story):
        read_job_file(path)


def test_a_history_of_the_live_scheduler_is_replayed_with_its_dependencies(tmp_path: Path) -> None:
    # job 1 took 10 s, once lost after 4 s and run again; job 2, asked for at 1 s, came after it
    def record(job_id: int, submit_s: float, start_s: float, end_s: float) -> RecordedJob:
        parts = [Segment(start_s, end_s, ("a",))]
        return RecordedJob(
            job_id, "j", "u", "rigid", 1, 1, 1, 100.0, submit_s, (), start_s, end_s, "completed", segments=parts
        )

    first, second = record(1, 0.0, 5.0, 15.0), record(2, 15.0, 15.0, 18.0)
    first.segments.insert(0, Segment(0.0, 4.0, ("a",)))
    second.after_ok, second.requested_s = (1,), 1.0
    run = decode_record(encode_record(RunRecord("fcfs", ["a", "b"], jobs=[first, second])))
    workload = workload_of(run)
    assert [(job.runtime_s, job.submit_s) for job in workload.jobs] == [(10.0, 0.0), (3.0, 1.0)]
    path = tmp_path / "w.swf"
    write_swf(workload, path)
    assert read_swf(path).jobs[1].after_ok == (1,)
    for jobs in (workload, read_swf(path)):
        assert replay(jobs, policies.get("easy")).result.records[2].start_s == 10.0


def test_the_state_of_the_log_records_what_a_job_comes_after() -> None:
    era = Era(
        nodes=("a",), policy="fcfs", parameters={}, cores_per_node=1, first_job=1, started_at="", wall_s=0.0, boot="",
        monotonic_s=0.0,
    )  # fmt: skip
    log_state = LogState(era)
    afters: dict[int, tuple[int, ...]] = {1: (), 2: (1,)}
    for job_id, after in afters.items():
        request = JobRequest(name="j", command=("x",), after_ok=after)
        log_state.take(Entry(float(job_id), (), (Requested(job_id, request),)))
    for job_id in (1, 2):
        log_state.take(Entry(10.0, (JobSubmitted(log_state.jobs[job_id].spec),)))
    found = {job.job_id: job for job in log_state.recorder.record().jobs}
    assert (found[1].after_ok, found[1].requested_s) == ((), None)
    assert (found[2].after_ok, found[2].submit_s, found[2].requested_s) == ((1,), 10.0, 2.0)
