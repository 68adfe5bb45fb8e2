"""Hand-computed timelines for conservative backfilling, and its profile against a step-by-step one."""

from __future__ import annotations

import random

from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.core import SchedulerCore
from scheduler_bridge.core.events import JobEnded, JobSubmitted
from scheduler_bridge.model import JobSpec
from scheduler_bridge.policies.profile import Profile
from scheduler_bridge.sim import SimResult, Simulated, simulate


def rigid(job_id: int, nodes: int, runtime_s: float, walltime_s: float | None = None) -> Simulated:
    walltime_s = runtime_s if walltime_s is None else walltime_s
    return simulated(JobSpec(job_id, "r", "u", "rigid", nodes, nodes, nodes, walltime_s, 0.0), runtime_s)


def starts(result: SimResult) -> list[float | None]:
    return [record.start_s for record in result.records.values()]


def test_nobody_delays_any_reservation() -> None:
    # Four nodes. 0 s: job 0 (3 nodes until 10 s). Job 1 (2 nodes) is reserved at 10 s, job 2 (4 nodes) at 20 s.
    # Job 3 (1 node, 25 s) fits beside jobs 0 and 1, but would hold a node of job 2's until 25 s: reserved at 30 s.
    jobs = [rigid(0, 3, 10), rigid(1, 2, 10), rigid(2, 4, 10), rigid(3, 1, 25)]
    assert starts(simulate(4, policies.get("conservative"), jobs)) == [0, 10, 20, 30]
    # EASY only protects job 1.
    assert starts(simulate(4, policies.get("easy"), jobs)) == [0, 10, 25, 0]


def test_a_job_overtakes_where_it_delays_nobody() -> None:
    # As above, but job 3 runs for 20 s: until job 2's reservation. It starts at 0 s.
    jobs = [rigid(0, 3, 10), rigid(1, 2, 10), rigid(2, 4, 10), rigid(3, 1, 20)]
    assert starts(simulate(4, policies.get("conservative"), jobs)) == [0, 10, 20, 0]


def test_reservations_move_forward_when_a_job_ends_early() -> None:
    # Job 0 ends at 10 s instead of 20 s: jobs 1 and 2, reserved at 20 s and 30 s, start at 10 s and 20 s.
    jobs = [rigid(0, 3, 10, walltime_s=20), rigid(1, 2, 10), rigid(2, 4, 10)]
    assert starts(simulate(4, policies.get("conservative"), jobs)) == [0, 10, 20]


def test_a_promise_is_kept_although_an_earlier_job_could_start_sooner_without_it() -> None:
    # Four nodes. 0 s: job 0 (2 nodes until 20 s), job 1 (2 nodes until 10 s). Job 2 (3 nodes, 20 s) is reserved at
    # 20 s, job 3 (2 nodes, 10 s) at 10 s.
    # 4 s: job 0 ends early. Job 2 could start at 10 s on job 3's nodes, which are promised: it stays at 20 s. Job 3
    # starts at once, until 14 s. 10 s: job 1 ends, and job 2 moves to 14 s.
    jobs = [rigid(0, 2, 4, walltime_s=20), rigid(1, 2, 10), rigid(2, 3, 20), rigid(3, 2, 10)]
    assert starts(simulate(4, policies.get("conservative"), jobs)) == [0, 0, 14, 4]


def test_a_malleable_job_gets_as_many_nodes_as_delay_nobody() -> None:
    # Six nodes. 0 s: job 0 (3 nodes until 10 s); job 1 (4 nodes) is reserved at 10 s, which leaves 2.
    # Job 2 (1 to 3 nodes, walltime 1000 s) gets 2 of the 3 free nodes.
    mold = simulated(JobSpec(2, "m", "u", "malleable", 1, 1, 3, 1000.0, 0.0), 100.0)
    result = simulate(6, policies.get("conservative"), [rigid(0, 3, 10), rigid(1, 4, 10), mold])
    assert starts(result) == [0, 10, 0]
    assert result.records[2].sizes == [(0.0, 2)]


def test_every_waiting_job_gets_a_start() -> None:
    core = SchedulerCore(("a", "b", "c", "d"), policies.get("conservative"))
    core.handle_batch([JobSubmitted(job.spec()) for job, _ in (rigid(0, 3, 10), rigid(1, 2, 10), rigid(2, 4, 10))], 0.0)
    core.handle(JobSubmitted(rigid(3, 1, 25)[0].spec()), 0.0)
    assert [row.expected_start_s for row in core.snapshot().jobs] == [None, 10.0, 20.0, 30.0]
    assert core.explain(2) == "job 2 is queued: it needs 4 nodes, 1 is free; 4 nodes are reserved for job 2 at 20 s"
    assert core.explain(3) == ("job 3 is queued: to start now would delay others; 1 node is reserved for job 3 at 30 s")


def test_a_promise_that_is_kept_is_over() -> None:
    core = SchedulerCore(("a", "b", "c", "d"), policies.get("conservative"))
    core.handle_batch([JobSubmitted(job.spec()) for job, _ in (rigid(0, 3, 10), rigid(1, 2, 10))], 0.0)
    assert [promise.job_id for promise in core._state.view().reservations] == [1]
    core.handle(JobEnded(0, "completed"), 5.0)
    assert core._state.view().reservations == ()


def test_the_profile_agrees_with_one_that_keeps_every_second() -> None:
    horizon = 100
    for seed in range(200):
        rng = random.Random(seed)
        releases = [(float(rng.randint(0, 20)), rng.randint(1, 3)) for _ in range(rng.randint(0, 5))]
        free = rng.randint(0, 4)
        profile = Profile(0.0, free, releases)
        naive = [free + sum(nodes for time_s, nodes in releases if time_s <= second) for second in range(horizon)]
        for _ in range(8):
            nodes, duration = rng.randint(1, 6), rng.randint(1, 9)
            fits = [s for s in range(horizon - duration) if min(naive[s : s + duration]) >= nodes]
            assert profile.earliest(nodes, duration) == (fits[0] if fits else float("inf")), f"seed {seed}"
            start = rng.randint(0, 30)
            assert profile.room(start, start + duration) == min(naive[start : start + duration]), f"seed {seed}"
            if fits:
                profile.take(fits[0], fits[0] + duration, nodes)
                naive[fits[0] : fits[0] + duration] = [n - nodes for n in naive[fits[0] : fits[0] + duration]]
