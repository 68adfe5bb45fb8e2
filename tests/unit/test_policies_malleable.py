"""Hand-computed passes and timelines for the malleable policy (min-agree)."""

from __future__ import annotations

from collections.abc import Sequence

from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.model import ClusterView, JobSpec, Reservation, RunningJob
from scheduler_bridge.policies import Decision, Grow, Reserve, Shrink, Stand, Start
from scheduler_bridge.sim import simulate

NOW = 100.0


def rigid(job_id: int, nodes: int, walltime_s: float = 1000.0) -> JobSpec:
    return JobSpec(job_id, "r", "u", "rigid", nodes, nodes, nodes, walltime_s, 0.0)


def malleable(job_id: int, low: int, high: int, walltime_s: float = 1000.0) -> JobSpec:
    return JobSpec(job_id, "m", "u", "malleable", low, low, high, walltime_s, 0.0)


def running(spec: JobSpec, nodes: int, end_s: float = 900.0, **more: object) -> RunningJob:
    values: dict[str, object] = {"max_nodes": spec.max_nodes, "ready": spec.is_malleable} | more
    return RunningJob(spec, nodes, 0.0, end_s, **values)  # type: ignore[arg-type]  # fields by name


def decide(total: int, queue: Sequence[JobSpec], jobs: Sequence[RunningJob]) -> list[Decision]:
    free = total - sum(job.nodes for job in jobs)
    return policies.get("malleable").decide(ClusterView(total, free, tuple(queue), tuple(jobs)), NOW)


def sizes(decisions: Sequence[Decision]) -> list[tuple[type, int, int]]:
    return [(type(d), d.job_id, d.nodes) for d in decisions if not isinstance(d, Reserve | Stand)]


def reserved(decisions: Sequence[Decision]) -> Reservation | None:
    return next((d.reservation for d in decisions if isinstance(d, Reserve)), None)


def test_malleable_jobs_start_at_their_minimum_when_others_wait() -> None:
    # 4 nodes: job 1 (2 to 4) starts on 2, so that job 2 (rigid, 2) starts as well.
    assert sizes(decide(4, [malleable(1, 2, 4), rigid(2, 2)], [])) == [(Start, 1, 2), (Start, 2, 2)]


def test_a_job_started_and_expanded_in_the_same_pass_starts_larger_without_an_order() -> None:
    # 10 nodes, empty otherwise: job 1 (2 to 6) and job 2 (1 to 8) start at 2 and 1, 7 nodes are idle; the smallest
    # (job 2) gets all 7 that it can take.
    assert sizes(decide(10, [malleable(1, 2, 6), malleable(2, 1, 8)], [])) == [(Start, 1, 2), (Start, 2, 8)]


def test_the_head_starts_only_by_shrinking_the_largest() -> None:
    # 10 nodes, 1 free. Head: 3 nodes. Job 1 has 5 (min 2), job 2 has 4 (min 1): 2 are missing, job 1 is the largest.
    jobs = [running(malleable(1, 2, 8), 5), running(malleable(2, 1, 8), 4)]
    assert sizes(decide(10, [rigid(3, 3)], jobs)) == [(Shrink, 1, 2)]


def test_no_more_is_taken_than_needed_and_the_next_largest_gives_the_rest() -> None:
    # 12 nodes, none free. Head: 5 nodes. Job 1 has 6 (min 3) and gives 3; job 2 has 4 (min 1) gives 2 of its 3; job 3
    # has 2 (min 1) and gives none.
    jobs = [running(malleable(1, 3, 8), 6), running(malleable(2, 1, 8), 4), running(malleable(3, 1, 8), 2)]
    assert sizes(decide(12, [rigid(9, 5)], jobs)) == [(Shrink, 1, 3), (Shrink, 2, 2)]


def test_nobody_shrinks_if_the_head_could_not_start_all_the_same() -> None:
    # 8 nodes, none free. Head: 6 nodes; both jobs at their minimum would leave 5.
    jobs = [running(malleable(1, 2, 8), 5), running(malleable(2, 1, 8), 3)]
    assert sizes(decide(8, [rigid(9, 6)], jobs)) == []


def test_nodes_on_their_way_are_not_taken_again_nor_given_away() -> None:
    # 10 nodes, 1 free; head: 3 nodes; job 1 is releasing 2. Nothing to do but wait: job 2 (which could give 3) neither
    # gives anything nor gets the free node.
    jobs = [running(malleable(1, 2, 8), 5, order="shrink", order_nodes=2), running(malleable(2, 1, 8), 4)]
    assert sizes(decide(10, [rigid(3, 3)], jobs)) == []


def test_a_later_job_does_not_start_on_nodes_that_the_head_waits_for() -> None:
    # As above, and job 4 (1 node) waits too. The free node is the head's, so job 2 gives one for job 4. At its start
    # the head finds 1 + 2 nodes, and 1 + 3 that jobs 1 and 2 can still give are spare.
    jobs = [running(malleable(1, 2, 8), 5, order="shrink", order_nodes=2), running(malleable(2, 1, 8), 4)]
    decisions = decide(10, [rigid(3, 3), rigid(4, 1)], jobs)
    assert sizes(decisions) == [(Shrink, 2, 1)]
    assert reserved(decisions) == Reservation(3, NOW, 3, 4)


def test_a_deferred_shrink_is_not_counted_on() -> None:
    # As above, but job 1 put its order off: job 2 has to give the 2 nodes.
    jobs = [
        running(malleable(1, 2, 8), 5, order="shrink", order_nodes=2, deferred=True),
        running(malleable(2, 1, 8), 4),
    ]
    assert sizes(decide(10, [rigid(3, 3)], jobs)) == [(Shrink, 2, 2)]


def test_jobs_that_are_not_ready_busy_or_pausing_give_nothing() -> None:
    # 9 nodes, none free; head: 1 node. All three could give, none may be asked.
    jobs = [
        running(malleable(1, 1, 8), 3, ready=False),
        running(malleable(2, 1, 8), 3, order="grow", order_nodes=1),
        running(malleable(3, 1, 8), 3, resizable_from_s=NOW + 5),
    ]
    assert sizes(decide(9, [rigid(9, 1)], jobs)) == []


def test_idle_nodes_go_to_the_smallest_up_to_its_maximum_then_to_the_next() -> None:
    # 14 nodes, 5 free, queue empty: job 2 (2 nodes, max 4) gets 2, then job 3 (3 nodes) the other 3; job 1 none.
    jobs = [running(malleable(1, 1, 9), 4), running(malleable(2, 1, 4), 2), running(malleable(3, 1, 9), 3)]
    assert sizes(decide(14, [], jobs)) == [(Grow, 2, 2), (Grow, 3, 3)]


def test_ties_are_broken_by_job_id() -> None:
    # 7 nodes, 1 free, both jobs have 3.
    jobs = [running(malleable(2, 1, 9), 3), running(malleable(1, 1, 9), 3)]
    assert sizes(decide(7, [], jobs)) == [(Grow, 1, 1)]


def test_a_later_job_is_helped_only_if_the_heads_reservation_stays() -> None:
    # 10 nodes, none free. Job 1: rigid, 6 nodes, until 200 s. Job 2: malleable, 4 nodes (min 2), until 900 s.
    # Head: 8 nodes: at 200 s there are 6 + 2 that job 2 gives = 8, nothing spare.
    # Job 4 (2 nodes) could start now on job 2's nodes: with 100 s it ends at 200 s, in time; with 101 s it does not.
    jobs = [running(rigid(1, 6), 6, 200.0), running(malleable(2, 2, 9), 4)]
    in_time = decide(10, [rigid(3, 8), rigid(4, 2, 100.0)], jobs)
    assert sizes(in_time) == [(Shrink, 2, 2)]
    assert reserved(in_time) == Reservation(3, 200.0, 8, 0)
    assert sizes(decide(10, [rigid(3, 8), rigid(4, 2, 101.0)], jobs)) == []


def test_the_idle_nodes_that_a_later_job_is_helped_with_are_not_given_away() -> None:
    # 11 nodes, 1 free. Job 1: rigid, 6 nodes, until 200 s. Head: 8 nodes, at 200 s. Job 4 (2 nodes, 100 s) can start on
    # the free node and one of job 2's: job 5, the smallest, must not get the free one meanwhile.
    jobs = [running(rigid(1, 6), 6, 200.0), running(malleable(2, 2, 9), 3), running(malleable(5, 1, 9), 1)]
    assert sizes(decide(11, [rigid(3, 8), rigid(4, 2, 100.0)], jobs)) == [(Shrink, 2, 1)]


def test_growing_a_ready_job_is_harmless_because_it_can_give_back() -> None:
    # 10 nodes, 2 free. Job 1: rigid, 6 nodes, until 200 s. Job 2: malleable, 2 nodes (min 1). Head: 8 nodes, at 200 s.
    # The 2 idle nodes go to job 2 meanwhile.
    jobs = [running(rigid(1, 6), 6, 200.0), running(malleable(2, 1, 9), 2)]
    decisions = decide(10, [rigid(3, 8)], jobs)
    assert sizes(decisions) == [(Grow, 2, 2)]
    assert reserved(decisions) == Reservation(3, 200.0, 8, 1)


def test_a_starting_job_is_enlarged_only_as_far_as_the_reservation_allows() -> None:
    # 10 nodes, 4 free. Job 1: rigid, 6 nodes, until 200 s. Head: 8 nodes at 200 s, 2 spare. Job 4 (1 to 9 nodes, runs
    # beyond 200 s) overtakes on 1 spare node and cannot give back before it is ready: it gets 1 more, not 3.
    decisions = decide(10, [rigid(3, 8), malleable(4, 1, 9)], [running(rigid(1, 6), 6, 200.0)])
    assert sizes(decisions) == [(Start, 4, 2)]


def test_idle_nodes_stay_with_a_head_that_only_waits_for_a_job_being_resized() -> None:
    # 8 nodes, 1 free. Head: 4 nodes. Job 1 (5 nodes, min 2) could give 3 but is growing just now; job 2 must not get
    # the free node, or the two could take turns for ever.
    jobs = [running(malleable(1, 2, 8), 5, order="grow", order_nodes=1), running(malleable(2, 2, 8), 2)]
    assert sizes(decide(8, [rigid(9, 4)], jobs)) == []


def test_none_idle_timeline() -> None:
    # 4 nodes. 0 s: job 0 (1 to 4 nodes, 40 s at 1) starts larger, on 4: 10 s to go. 5 s: job 1 (rigid, 3 nodes, 10 s)
    # arrives; nothing is idle; job 0 has 20 node-seconds left and gives 3 nodes within 1 s, going on with 1 at once.
    # 6 s: job 1 starts. 16 s: job 1 ends; job 0 (9 node-seconds left) gets the 3 nodes within 2 s (17 s at 1 node: 7
    # left at 18 s), then runs on 4: ends at 19.75 s.
    jobs = [
        simulated(malleable(0, 1, 4), 40.0, grow_s=2.0, shrink_s=1.0),
        simulated(JobSpec(1, "r", "u", "rigid", 3, 3, 3, 10.0, 5.0), 10.0),
    ]
    records = simulate(4, policies.get("malleable"), jobs).records
    assert records[0].sizes == [(0.0, 4), (6.0, 1), (18.0, 4)]
    assert (records[1].start_s, records[1].end_s) == (6.0, 16.0)
    assert records[0].end_s == 19.75
    assert (records[0].grows, records[0].shrinks) == (1, 1)


def test_reasons_name_who_a_job_is_resized_for() -> None:
    jobs = [running(malleable(1, 2, 8), 5), running(malleable(2, 1, 8), 4)]
    shrink = next(d for d in decide(10, [rigid(3, 3)], jobs) if isinstance(d, Shrink))
    assert str(shrink.reason) == "so that job 3 can start on 3 nodes"
