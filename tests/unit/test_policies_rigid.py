"""Hand-computed timelines for fcfs, backfilling and easy."""

from __future__ import annotations

import pytest
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.model import JobSpec
from scheduler_bridge.sim import SimResult, Simulated, simulate


def rigid(
    job_id: int, nodes: int, runtime_s: float, submit_s: float = 0.0, walltime_s: float | None = None
) -> Simulated:
    walltime_s = runtime_s if walltime_s is None else walltime_s
    return simulated(JobSpec(job_id, "r", "u", "rigid", nodes, nodes, nodes, walltime_s, submit_s), runtime_s)


def malleable(job_id: int, sizes: tuple[int, int, int], runtime_s: float, submit_s: float = 0.0) -> Simulated:
    low, nodes, high = sizes
    return simulated(JobSpec(job_id, "m", "u", "malleable", nodes, low, high, 1000.0, submit_s), runtime_s)


def starts(result: SimResult) -> list[float | None]:
    return [record.start_s for record in result.records.values()]


# Four nodes; walltimes are exact.
#   job 0: 3 nodes, 10 s      job 1: 2 nodes, 10 s      job 2: 1 node, 10 s      job 3: 1 node, 12 s; all at 0 s
MIX = [rigid(0, 3, 10), rigid(1, 2, 10), rigid(2, 1, 10), rigid(3, 1, 12)]


def test_fcfs_starts_nobody_before_the_blocked_job() -> None:
    # 0 s: job 0 (3 of 4 nodes); job 1 is blocked, so jobs 2 and 3 wait too, though a node is free.
    # 10 s: jobs 1, 2 and 3 (2 + 1 + 1 nodes).
    assert starts(simulate(4, policies.get("fcfs"), MIX)) == [0, 10, 10, 10]


def test_backfilling_starts_whatever_fits_and_starves_the_wide_job() -> None:
    # 0 s: jobs 0 and 1 (3 + 1 of 4 nodes); job 2 wants all 4. 5 s and 6 s: jobs 3 and 4 arrive, nothing is free.
    jobs = [rigid(0, 3, 10), rigid(1, 1, 12), rigid(2, 4, 5), rigid(3, 3, 10, submit_s=5), rigid(4, 1, 10, submit_s=6)]
    # 10 s: job 0 ends, 3 free: job 2 needs 4, job 3 overtakes it. 12 s: job 1 ends, 1 free: job 4 overtakes too.
    # 20 s: job 3 ends, 3 free. 22 s: job 4 ends, 4 free: job 2 at last.
    assert starts(simulate(4, policies.get("backfilling"), jobs)) == [0, 0, 22, 10, 12]


def test_easy_lets_a_job_overtake_that_ends_before_the_reservation() -> None:
    # 0 s: job 0 (3 nodes until 10 s). Job 1 (2 nodes) is blocked and reserved at 10 s, when 4 nodes are free: 2 spare.
    # Job 2 (1 node) ends at 10 s, in time: starts at 0 s. Job 3 has no node left until 10 s.
    assert starts(simulate(4, policies.get("easy"), MIX)) == [0, 10, 0, 10]


def test_easy_lets_a_job_overtake_that_fits_into_the_spare_nodes() -> None:
    # 0 s: job 0 (3 nodes until 10 s); job 1 (3 nodes) is reserved at 10 s, which leaves 1 of 4 spare.
    # Job 2 (1 node, 50 s) runs beyond the reservation but fits into the spare node: starts at 0 s.
    jobs = [rigid(0, 3, 10), rigid(1, 3, 10), rigid(2, 1, 50)]
    assert starts(simulate(4, policies.get("easy"), jobs)) == [0, 10, 0]


def test_easy_does_not_let_a_job_overtake_that_would_delay_the_reservation() -> None:
    # 0 s: job 0 (3 nodes until 10 s); job 1 (4 nodes) is reserved at 10 s, nothing spare.
    # Job 2 (1 node, 11 s) would hold a node until 11 s: waits until job 1 has ended at 20 s.
    jobs = [rigid(0, 3, 10), rigid(1, 4, 10), rigid(2, 1, 11)]
    assert starts(simulate(4, policies.get("easy"), jobs)) == [0, 10, 20]


def test_easy_counts_spare_nodes_only_once() -> None:
    # 0 s: job 0 (2 of 5 nodes until 10 s); job 1 (4 nodes) is reserved at 10 s with 1 spare. Jobs 2 and 3 (1 node,
    # 50 s) both want the spare node: only job 2 gets it. Job 3 starts when job 1 ends at 20 s.
    jobs = [rigid(0, 2, 10), rigid(1, 4, 10), rigid(2, 1, 50), rigid(3, 1, 50)]
    assert starts(simulate(5, policies.get("easy"), jobs)) == [0, 10, 0, 20]


def test_easy_counts_all_jobs_that_end_at_the_reservation() -> None:
    # 0 s: jobs 0 and 1 (2 + 1 of 4 nodes until 10 s). Job 2 (3 nodes) is reserved at 10 s: both end then, so 1 is
    # spare, and job 3 (1 node, 50 s) may have it at once.
    jobs = [rigid(0, 2, 10), rigid(1, 1, 10), rigid(2, 3, 10), rigid(3, 1, 50)]
    assert starts(simulate(4, policies.get("easy"), jobs)) == [0, 0, 10, 0]


def test_easy_reserves_by_walltime_and_starts_earlier_when_jobs_end_earlier() -> None:
    # Job 0 (3 nodes) asks for 20 s and runs 10 s. Job 1 (4 nodes) is reserved at 20 s, so job 2 (1 node, 15 s) starts
    # at 0 s. Job 0 ends at 10 s, but job 1 has to wait for job 2 until 15 s: earlier than reserved.
    jobs = [rigid(0, 3, 10, walltime_s=20), rigid(1, 4, 10), rigid(2, 1, 15)]
    assert starts(simulate(4, policies.get("easy"), jobs)) == [0, 15, 0]


@pytest.mark.parametrize("policy", ["fcfs", "backfilling", "easy"])
def test_malleable_jobs_are_moldable_and_keep_their_size(policy: str) -> None:
    # Six nodes. 0 s: job 0 (rigid, 2 nodes, 30 s), then job 1 (2 to 8 nodes): all 4 that are left, although it asked
    # for 2; 20 s at 2 nodes are 10 s at 4. 10 s: job 2 (1 to 3 nodes, 6 s at 2) starts on 3: 4 s.
    jobs = [rigid(0, 2, 30), malleable(1, (2, 2, 8), 20), malleable(2, (1, 2, 3), 6)]
    result = simulate(6, policies.get(policy), jobs)
    assert starts(result) == [0, 0, 10]
    assert result.records[1].sizes == [(0.0, 4)]
    assert result.records[2].sizes == [(10.0, 3)]
    assert [record.end_s for record in result.records.values()] == [30, 10, 14]


def test_easy_reserves_at_the_minimum_and_gives_an_overtaking_job_no_more_than_is_harmless() -> None:
    # Six nodes. 0 s: job 0 (rigid, 3 nodes until 10 s); job 1 (malleable, 4 to 6 nodes) is reserved at 10 s with 4 of 6
    # nodes: 2 spare. Job 2 (1 to 3 nodes, walltime 1000 s) could use all 3 free nodes, but gets the 2 spare ones.
    # 10 s: job 1 starts on the 4 nodes that are free.
    jobs = [rigid(0, 3, 10), malleable(1, (4, 4, 6), 10), malleable(2, (1, 1, 3), 100)]
    result = simulate(6, policies.get("easy"), jobs)
    assert starts(result) == [0, 10, 0]
    assert result.records[2].sizes == [(0.0, 2)]
    assert result.records[1].sizes == [(10.0, 4)]
