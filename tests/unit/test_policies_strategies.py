"""Hand-computed passes and timelines for min, pref, avg and keep-pref."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.model import ClusterView, JobSpec, Reservation, RunningJob
from scheduler_bridge.policies import Decision, Grow, Reserve, Shrink, Stand, Start
from scheduler_bridge.sim import simulate

NOW = 100.0
STRATEGIES = ["min", "pref", "avg", "keep-pref"]


def rigid(job_id: int, nodes: int, walltime_s: float = 1000.0) -> JobSpec:
    return JobSpec(job_id, "r", "u", "rigid", nodes, nodes, nodes, walltime_s, 0.0)


def malleable(job_id: int, low: int, preferred: int, high: int) -> JobSpec:
    return JobSpec(job_id, "m", "u", "malleable", preferred, low, high, 1000.0, 0.0)


def running(spec: JobSpec, nodes: int, end_s: float = 900.0, **more: object) -> RunningJob:
    values: dict[str, object] = {"max_nodes": spec.max_nodes, "ready": spec.is_malleable} | more
    return RunningJob(spec, nodes, 0.0, end_s, **values)  # type: ignore[arg-type]  # fields by name


def decide(policy: str, total: int, queue: Sequence[JobSpec], jobs: Sequence[RunningJob]) -> list[Decision]:
    free = total - sum(job.nodes for job in jobs)
    return policies.get(policy).decide(ClusterView(total, free, tuple(queue), tuple(jobs)), NOW)


def sizes(decisions: Sequence[Decision]) -> list[tuple[type, int, int]]:
    return [(type(d), d.job_id, d.nodes) for d in decisions if not isinstance(d, Reserve | Stand)]


def reserved(decisions: Sequence[Decision]) -> Reservation | None:
    return next((d.reservation for d in decisions if isinstance(d, Reserve)), None)


# Step 1: start sizes. Job 1 wants 2, 4 or 8 nodes; job 2 is rigid and fills what the policy leaves of 10 nodes.


@pytest.mark.parametrize(("policy", "nodes"), [("min", 2), ("avg", 2), ("pref", 4), ("keep-pref", 4)])
def test_the_start_size(policy: str, nodes: int) -> None:
    decisions = decide(policy, 10, [malleable(1, 2, 4, 8), rigid(2, 10 - nodes)], [])
    assert sizes(decisions) == [(Start, 1, nodes), (Start, 2, 10 - nodes)]


@pytest.mark.parametrize(("policy", "nodes"), [("min", 3), ("avg", 3), ("pref", 3), ("keep-pref", None)])
def test_three_free_nodes_for_a_job_that_prefers_four(policy: str, nodes: int | None) -> None:
    # 10 nodes, 3 free. min and avg start it on 2 and enlarge it by the idle one; pref takes 3; keep-pref waits.
    decisions = decide(policy, 10, [malleable(1, 2, 4, 8)], [running(rigid(9, 7), 7)])
    assert sizes(decisions) == ([] if nodes is None else [(Start, 1, nodes)])
    assert (reserved(decisions) is None) == (nodes is not None)


def test_keep_pref_reserves_at_the_preferred_size() -> None:
    # 3 free and 7 at 900 s: 10 - 4 = 6 spare then.
    decisions = decide("keep-pref", 10, [malleable(1, 2, 4, 8)], [running(rigid(9, 7), 7)])
    assert reserved(decisions) == Reservation(1, 900.0, 4, 6)


def test_keep_pref_starts_a_job_that_prefers_more_than_there_is_on_all_that_there_is() -> None:
    assert sizes(decide("keep-pref", 6, [malleable(1, 2, 8, 16)], [])) == [(Start, 1, 6)]


# Step 2: 20 nodes, all held; the head needs 3. Who gives?
#          nodes   min pref max    above min   above pref   share of range
#   job 1  8       6   7    10     2           1            2/4 = 0.50
#   job 2  7       1   9    25     6           -2           6/24 = 0.25
#   job 3  5       2   2    6      3           3            3/4 = 0.75
HOLDERS = [running(malleable(1, 6, 7, 10), 8), running(malleable(2, 1, 9, 25), 7), running(malleable(3, 2, 2, 6), 5)]


@pytest.mark.parametrize(
    ("policy", "given"),
    [
        ("min", [(2, 3)]),  # furthest above its minimum, gives all 3
        ("pref", [(3, 3)]),  # furthest above its preferred size, gives all 3
        # one node each time: job 3 (0.75 -> 0.50), then jobs 1 and 3 tie at 0.50: job 1 (-> 0.25), job 3 (-> 0.25)
        ("avg", [(3, 2), (1, 1)]),
        ("keep-pref", [(3, 3)]),
        ("malleable", [(1, 2), (2, 1)]),  # for comparison: the most nodes
    ],
)
def test_who_gives(policy: str, given: list[tuple[int, int]]) -> None:
    assert sizes(decide(policy, 20, [rigid(9, 3)], HOLDERS)) == [(Shrink, job_id, nodes) for job_id, nodes in given]


@pytest.mark.parametrize(
    ("policy", "given"),
    [
        ("min", [(2, 5)]),  # can give 6
        ("pref", [(3, 3), (1, 2)]),  # job 3 down to its minimum, which it prefers; job 1 below its preferred size
        # job 3 (0.75 -> 0.50), 1 (0.50 -> 0.25), 3 (0.50 -> 0.25), then all tie at 0.25: job 1 (-> 0), job 2 (-> 5/24)
        ("avg", [(3, 2), (1, 2), (2, 1)]),
        ("keep-pref", []),  # only 3 + 1 nodes are above preferred sizes: too few, so none is taken
    ],
)
def test_who_gives_more(policy: str, given: list[tuple[int, int]]) -> None:
    assert sizes(decide(policy, 20, [rigid(9, 5)], HOLDERS)) == [(Shrink, job_id, nodes) for job_id, nodes in given]


def test_keep_pref_takes_all_above_the_preferred_sizes_if_that_is_enough() -> None:
    assert sizes(decide("keep-pref", 20, [rigid(9, 4)], HOLDERS)) == [(Shrink, 3, 3), (Shrink, 1, 1)]


@pytest.mark.parametrize("policy", STRATEGIES)
def test_free_nodes_count_towards_the_start(policy: str) -> None:
    # 22 nodes, 2 free; the head needs 3: one is taken. Every strategy has a first candidate of its own (above).
    first = {"min": 2, "pref": 3, "avg": 3, "keep-pref": 3}[policy]
    assert sizes(decide(policy, 22, [rigid(9, 3)], HOLDERS)) == [(Shrink, first, 1)]


@pytest.mark.parametrize("policy", STRATEGIES)
def test_nobody_shrinks_in_vain(policy: str) -> None:
    # At their minimum the three jobs would leave 2 + 6 + 3 = 11 nodes.
    assert sizes(decide(policy, 20, [rigid(9, 12)], HOLDERS)) == []


def test_a_waiting_malleable_job_is_helped_to_its_minimum_only() -> None:
    # 20 nodes, none free: job 9 (2, 6 or 9 nodes) waits. keep-pref would need 6, and 4 are above preferred sizes.
    queue = [malleable(9, 2, 6, 9)]
    assert sizes(decide("pref", 20, queue, HOLDERS)) == [(Shrink, 3, 2)]
    assert sizes(decide("keep-pref", 20, queue, HOLDERS)) == []


def test_keep_pref_does_not_count_on_nodes_below_the_preferred_size() -> None:
    # 10 nodes, none free. Job 1: rigid, 6 nodes, until 200 s. Job 2 holds 4, prefers 3, could do with 1. The head needs
    # 8: pref has 6 + 3 at 200 s; keep-pref has 6 + 1 then and must wait for job 2's end at 900 s.
    jobs = [running(rigid(1, 6), 6, 200.0), running(malleable(2, 1, 3, 9), 4)]
    assert reserved(decide("pref", 10, [rigid(3, 8)], jobs)) == Reservation(3, 200.0, 8, 1)
    assert reserved(decide("keep-pref", 10, [rigid(3, 8)], jobs)) == Reservation(3, 900.0, 8, 2)


# Step 3: which job gets idle nodes, when none waits? Sizes as above.


@pytest.mark.parametrize(
    ("policy", "idle", "given"),
    [
        ("min", 3, [(1, 2), (3, 1)]),  # job 1 (2 above its minimum) up to its maximum of 10, then job 3 (3 above)
        ("pref", 3, [(2, 3)]),  # 2 below its preferred size; its maximum is far
        ("keep-pref", 3, [(2, 3)]),
        # job 2 all the time: 0.25 -> 9/24 = 0.375, below job 1's 0.50
        ("avg", 3, [(2, 3)]),
        # job 2 up to 12/24 with the sixth node, where it ties with job 1, which is next (0.50 -> 0.75)
        ("avg", 7, [(2, 6), (1, 1)]),
        ("pref", 20, [(2, 18), (1, 2)]),  # job 2 up to 25, then job 1 (1 above) before job 3 (3 above)
    ],
)
def test_who_gets(policy: str, idle: int, given: list[tuple[int, int]]) -> None:
    assert sizes(decide(policy, 20 + idle, [], HOLDERS)) == [(Grow, job_id, nodes) for job_id, nodes in given]


def test_avg_fills_two_equal_jobs_evenly() -> None:
    # Two jobs with 2 of 1 to 9 nodes, 5 idle nodes: job 1 gets the odd one.
    jobs = [running(malleable(1, 1, 1, 9), 2), running(malleable(2, 1, 1, 9), 2)]
    assert sizes(decide("avg", 9, [], jobs)) == [(Grow, 1, 3), (Grow, 2, 2)]
    assert sizes(decide("min", 9, [], jobs)) == [(Grow, 1, 5)]


def test_avg_enlarges_starting_jobs_evenly_without_orders() -> None:
    # 8 nodes: both start on 1; 6 idle nodes. Shares: job 1 of 1 to 5 by 1/4 each, job 2 of 1 to 9 by 1/8 each.
    # 1: 0.25, 2: 0.125, 2: 0.25, 1: 0.5, 2: 0.375, 2: 0.5.
    decisions = decide("avg", 8, [malleable(1, 1, 2, 5), malleable(2, 1, 2, 9)], [])
    assert sizes(decisions) == [(Start, 1, 3), (Start, 2, 5)]


def test_a_job_below_its_preferred_size_gets_nothing_while_a_reservation_stands() -> None:
    # It could not give the nodes back. 10 nodes, 2 free, the head needs 6 from 200 s on; job 2 (prefers 4) lost a node.
    jobs = [running(rigid(1, 5), 5, 200.0), running(malleable(2, 2, 4, 9), 3)]
    assert sizes(decide("keep-pref", 10, [rigid(3, 6)], jobs)) == []
    assert sizes(decide("pref", 10, [rigid(3, 6)], jobs)) == [(Grow, 2, 2)]


@pytest.mark.parametrize("policy", STRATEGIES)
def test_reasons_say_who_gets_and_for_whom_one_gives(policy: str) -> None:
    grow = next(d for d in decide(policy, 23, [], HOLDERS) if isinstance(d, Grow))
    shrink = next(d for d in decide(policy, 20, [rigid(9, 3)], HOLDERS) if isinstance(d, Shrink))
    assert str(grow.reason).startswith("idle nodes go to the job")
    assert str(shrink.reason) == "so that job 9 can start on 3 nodes"


def test_timeline_of_min_and_keep_pref() -> None:
    # 6 nodes. 0 s: job 0 (1, 4 or 6 nodes; 48 s on 4, 192 node-seconds): min starts it on 1, enlarged to 6 at once;
    # keep-pref starts it on 4, enlarged to 6. 12 s: job 1 (rigid, 3 nodes, 10 s) arrives, 120 node-seconds are left.
    # min: job 0 gives 3 nodes within 1 s (on 3 from 12 s on); 13 s to 23 s job 1; job 0 grows back to 6 at once, with
    # 120 - 33 = 87 node-seconds left: ends at 37.5 s.
    # keep-pref: job 0 could only give 2, so job 1 waits until job 0's end at 32 s.
    late = JobSpec(1, "r", "u", "rigid", 3, 3, 3, 10.0, 12.0)
    jobs = [simulated(malleable(0, 1, 4, 6), 48.0, shrink_s=1.0), simulated(late, 10.0)]
    records = simulate(6, policies.get("min"), jobs).records
    assert records[0].sizes == [(0.0, 6), (13.0, 3), (23.0, 6)]
    assert (records[1].start_s, records[1].end_s, records[0].end_s) == (13.0, 23.0, 37.5)
    records = simulate(6, policies.get("keep-pref"), jobs).records
    assert records[0].sizes == [(0.0, 6)]
    assert (records[0].end_s, records[1].start_s) == (32.0, 32.0)


def test_pref_looks_at_the_preferred_size_and_not_at_the_maximum() -> None:
    # Job 1: 5 nodes, 1 above the 4 that it prefers. Job 2: 5 nodes, as it prefers, and close to its maximum.
    jobs = [running(malleable(1, 1, 4, 20), 5), running(malleable(2, 1, 5, 6), 5)]
    for policy in ("pref", "keep-pref"):
        assert sizes(decide(policy, 10, [rigid(9, 1)], jobs)) == [(Shrink, 1, 1)]
        assert sizes(decide(policy, 11, [], jobs)) == [(Grow, 2, 1)]


@pytest.mark.parametrize("policy", ["min", "pref", "avg"])
def test_the_reservation_counts_nodes_down_to_the_minimum(policy: str) -> None:
    # 10 nodes, none free. Job 1: rigid, 6 nodes, until 200 s. Job 2: 4 nodes, can give 3 then. The head needs 9.
    jobs = [running(rigid(1, 6), 6, 200.0), running(malleable(2, 1, 3, 9), 4)]
    assert reserved(decide(policy, 10, [rigid(3, 9)], jobs)) == Reservation(3, 200.0, 9, 0)


def test_avg_takes_a_job_without_a_range_that_lost_nodes_for_the_lowest() -> None:
    jobs = [running(malleable(1, 1, 1, 5), 3), running(malleable(2, 3, 3, 3), 2)]
    assert sizes(decide("avg", 6, [], jobs)) == [(Grow, 2, 1)]
