"""Hand-computed passes of SD-Policy: who shares with whom, and who does not; and timelines under both models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import pytest
from msgspec import structs
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.core import Settings
from scheduler_bridge.model import ClusterView, JobSpec, RunningJob
from scheduler_bridge.policies import Decision, Reserve, Share, Start
from scheduler_bridge.policies.sharing_candidates import Candidates, Terms
from scheduler_bridge.sim import Engine, SimResult, Simulated

NOW = 100.0


def malleable(job_id: int, nodes: int, walltime_s: float, submit_s: float = 0.0) -> JobSpec:
    return JobSpec(job_id, "m", "u", "malleable", nodes, nodes, nodes, walltime_s, submit_s)


def rigid(job_id: int, nodes: int, walltime_s: float) -> JobSpec:
    return JobSpec(job_id, "r", "u", "rigid", nodes, nodes, nodes, walltime_s, 0.0)


def running(spec: JobSpec, end_s: float, **more: object) -> RunningJob:
    """A job that has all cores of its nodes, and ends at ``end_s`` as it asked for."""
    values: dict[str, object] = {"max_nodes": spec.nodes, "ready": True, "start_s": end_s - spec.walltime_s} | more
    return RunningJob(spec=spec, nodes=spec.nodes, expected_end_s=end_s, **values)  # type: ignore[arg-type]  # by name


def decide(queue: Sequence[JobSpec], jobs: Sequence[RunningJob], free: int = 0, **parameters: object) -> list[Decision]:
    """One pass on nodes with four cores."""
    total = free + sum(job.nodes for job in jobs if job.is_host)
    view = ClusterView(total, free, tuple(queue), tuple(jobs), cores_per_node=4)
    return policies.get("sd-policy", **parameters).decide(view, NOW)


def shares(decisions: Sequence[Decision]) -> list[tuple[int, tuple[int, ...], int, int]]:
    """Who shares: newcomer, mates, cores, free nodes."""
    return [(d.job_id, d.mates, d.cores, d.free_nodes) for d in decisions if isinstance(d, Share)]


def starts(decisions: Sequence[Decision]) -> list[int]:
    return [d.job_id for d in decisions if isinstance(d, Start)]


# A job on 2 nodes asked for 1000 s and ends at 1000 s: it started at once.
LONG = running(malleable(1, 2, 1000.0), 1000.0)


def test_a_job_that_can_start_by_itself_does_not_share() -> None:
    assert starts(decide([malleable(2, 1, 50.0)], [LONG], free=1)) == [2]


def test_a_job_that_would_end_earlier_shares_half_of_the_cores() -> None:
    # It asked for 100 s. By itself it could run from 1000 s to 1100 s; on half of the cores from 100 s to 300 s.
    decisions = decide([malleable(2, 2, 100.0)], [LONG])
    assert shares(decisions) == [(2, (1,), 2, 0)]
    reason = str(decisions[0].reason) if isinstance(decisions[0], Share) else ""
    assert reason == "2 of 4 cores of each node of job 1: it ends at 300 s, not at 1100 s"


@pytest.mark.parametrize(("end_s", "mates"), [(199.0, []), (200.0, []), (201.0, [(2, (1,), 2, 0)])])
def test_a_job_that_would_not_end_earlier_waits(end_s: float, mates: list[object]) -> None:
    # It asked for 100 s: on half of the cores it ends at 300 s; if it waits, 100 s after the other one's end.
    assert shares(decide([malleable(2, 2, 100.0)], [running(malleable(1, 2, 150.0), end_s)])) == mates


def test_the_newcomer_must_end_before_its_mates() -> None:
    # Two nodes: job 1 ends at 130 s, job 2 at 1000 s; the newcomer needs both. Asking for 40 s it takes 80 s on half of
    # the cores, until 180 s; job 1, slowed down by 40 s, ends at 170 s, earlier. Asking for 30 s: 160 s and 160 s.
    jobs = [running(malleable(1, 1, 130.0), 130.0), running(malleable(2, 1, 1000.0), 1000.0)]
    assert shares(decide([malleable(3, 2, 40.0)], jobs)) == []
    assert shares(decide([malleable(3, 2, 30.0)], jobs)) == [(3, (2, 1), 2, 0)]


def test_the_mates_with_the_smallest_penalties_are_chosen() -> None:
    # The newcomer asked for 50 s, so each mate is slowed down by 50 s. Job 1 (4 nodes): (0 + 50 + 100) / 100 = 1.5.
    # Job 2 (4 nodes) waited for 100 s: (100 + 50 + 1000) / 1000 = 1.15. Job 3 (4 nodes): (0 + 50 + 500) / 500 = 1.1.
    jobs = [
        running(malleable(1, 4, 100.0, submit_s=100.0), 200.0),
        running(malleable(2, 4, 1000.0, submit_s=-100.0), 1000.0),
        running(malleable(3, 4, 500.0), 500.0),
    ]
    assert shares(decide([malleable(9, 4, 50.0)], jobs)) == [(9, (3,), 2, 0)]


def test_the_limit_for_penalties() -> None:
    # Slowed down by 100 s: (0 + 100 + 1000) / 1000 = 1.1, which must be below the limit.
    queue = [malleable(2, 2, 100.0)]
    assert shares(decide(queue, [LONG], max_slowdown="1.1")) == []
    assert shares(decide(queue, [LONG], max_slowdown="1.11")) == [(2, (1,), 2, 0)]
    assert shares(decide(queue, [LONG], max_slowdown="inf")) == [(2, (1,), 2, 0)]


def test_the_dynamic_limit_is_the_mean_slowdown_of_the_running_jobs() -> None:
    # Alone, the mate's slowdown is 1, and 1.1 is above it. A rigid job that waited 400 s for its 1000 s has 1.4: the
    # mean is 1.2.
    queue = [malleable(2, 2, 100.0)]
    waited = running(rigid(3, 1, 1000.0), 1400.0)
    assert shares(decide(queue, [LONG], max_slowdown="dynamic")) == []
    assert shares(decide(queue, [LONG, waited], max_slowdown="dynamic")) == [(2, (1,), 2, 0)]


def test_what_sharing_has_cost_before_counts() -> None:
    # It asked for 1000 s, runs from 0 s, and is to end at 1500 s: (0 + 500 + 100 + 1000) / 1000 = 1.6.
    delayed = running(malleable(1, 2, 1000.0), 1500.0, start_s=0.0)
    queue = [malleable(2, 2, 100.0)]
    assert shares(decide(queue, [delayed], max_slowdown="1.6")) == []
    assert shares(decide(queue, [delayed], max_slowdown="1.61")) == [(2, (1,), 2, 0)]


def test_rigid_jobs_and_jobs_that_take_no_orders_do_not_share() -> None:
    queue = [malleable(2, 2, 100.0)]
    assert shares(decide([rigid(2, 2, 100.0)], [LONG])) == []
    assert shares(decide(queue, [running(rigid(1, 2, 1000.0), 1000.0)])) == []
    assert shares(decide(queue, [running(malleable(1, 2, 1000.0), 1000.0, ready=False)])) == []
    assert shares(decide(queue, [running(malleable(1, 2, 1000.0), 1000.0, order="workers", order_nodes=2)])) == []


def test_a_mate_takes_part_once_in_a_pass() -> None:
    # Jobs 2 and 3 both want job 1's nodes; job 4 finds job 5's.
    jobs = [LONG, running(malleable(5, 1, 1000.0), 1000.0)]
    queue = [malleable(2, 2, 100.0), malleable(3, 2, 100.0), malleable(4, 1, 100.0)]
    assert shares(decide(queue, jobs)) == [(2, (1,), 2, 0), (4, (5,), 2, 0)]


def test_two_jobs_share_a_node_unless_three_may() -> None:
    # Job 1 is the host of a guest and has 2 of 4 cores: a third job gets 1 of them and takes 400 s. Guests do not give.
    host = running(malleable(1, 2, 1000.0), 1100.0, start_s=0.0, cores=2, neighbours=1)
    guest = running(malleable(2, 2, 100.0), 300.0, start_s=100.0, cores=2, neighbours=1, is_host=False, kept_nodes=2)
    queue = [malleable(3, 2, 100.0)]
    assert shares(decide(queue, [host, guest])) == []
    assert shares(decide(queue, [host, guest], jobs_per_node=3)) == [(3, (1,), 1, 0)]
    assert shares(decide(queue, [guest], jobs_per_node=3)) == []


def test_free_nodes_make_up_for_missing_ones_if_they_may() -> None:
    queue = [malleable(2, 3, 100.0)]
    assert shares(decide(queue, [LONG], free=2)) == []
    assert shares(decide(queue, [LONG], free=2, free_nodes="yes")) == [(2, (1,), 2, 1)]


def test_only_the_candidates_with_the_smallest_penalties_are_considered() -> None:
    # The newcomer needs 3 nodes: jobs 1 (2 nodes) and 3 (1 node). Job 2 has the smallest penalty, job 3 the largest.
    jobs = [
        running(malleable(1, 2, 2000.0), 2000.0),
        running(malleable(2, 4, 4000.0), 4000.0),
        running(malleable(3, 1, 1000.0), 1000.0),
    ]
    queue = [malleable(9, 3, 100.0)]
    assert shares(decide(queue, jobs)) == [(9, (1, 3), 2, 0)]
    assert shares(decide(queue, jobs, considered=2)) == [(9, (1, 3), 2, 0)]
    assert shares(decide(queue, jobs, considered=1)) == []
    assert shares(decide(queue, jobs, mates=1)) == []


def test_jobs_on_nodes_that_are_not_to_be_shared_are_no_mates() -> None:
    queue = [malleable(2, 2, 100.0)]
    assert shares(decide(queue, [running(malleable(1, 2, 1000.0), 1000.0, may_share=False)])) == []
    # Job 3, with the same penalty, is taken instead of job 1.
    other = running(malleable(3, 2, 1000.0), 1000.0)
    assert shares(decide(queue, [LONG, other])) == [(2, (1,), 2, 0)]
    assert shares(decide(queue, [structs.replace(LONG, may_share=False), other])) == [(2, (3,), 2, 0)]


@pytest.mark.parametrize(
    ("nodes", "sharing"),
    [("*", 0), ("n000[01]", 0), ("n000[1-3]", 1), ("n0002, n0003", 1), ("n000[12]", None), ("x*", None)],
)
def test_the_filter_is_by_the_names_of_nodes(nodes: str, sharing: int | None) -> None:
    # Jobs 0 and 1 (2 nodes, 100 s; job 1 came second, and has nodes n0002 and n0003). 10 s: job 2 (2 nodes, 20 s)
    # shares until 50 s with job 0, the first one; with job 1, if job 0 has a node that may not be shared; else it waits
    # for the ends at 100 s.
    jobs = [
        simulated(malleable(0, 2, 100.0), 100.0),
        simulated(malleable(1, 2, 100.0), 100.0),
        simulated(malleable(2, 2, 20.0, 10.0), 20.0),
    ]
    result = Engine(4, policies.get("sd-policy", nodes=nodes), Settings(cores_per_node=4), check=True).run(jobs)
    assert [job_id for job_id in (0, 1) if result.records[job_id].shares] == ([] if sharing is None else [sharing])
    assert result.records[2].end_s == (120.0 if sharing is None else 50.0)


def test_a_mate_keeps_a_core_per_rank() -> None:
    queue = [malleable(2, 2, 100.0)]
    assert shares(decide(queue, [LONG], cores_per_rank=3)) == [(2, (1,), 1, 0)]
    assert shares(decide(queue, [LONG], cores_per_rank=4)) == []
    assert shares(decide(queue, [LONG], sharing_factor=0.2)) == []


def test_only_so_many_waiting_jobs_are_looked_at() -> None:
    queue = [rigid(2, 3, 10.0), malleable(3, 1, 10.0)]
    assert starts(decide(queue, [LONG], free=1)) == [3]
    assert starts(decide(queue, [LONG], free=1, tested=1)) == []


def test_a_delayed_mate_delays_the_reservations_behind_it() -> None:
    # Job 1 (2 nodes) would end at 1000 s; the newcomer (100 s) slows it down until 1100 s: job 4's reservation.
    decisions = decide([malleable(2, 2, 100.0), rigid(4, 2, 10.0)], [LONG])
    assert [d.reservation.start_s for d in decisions if isinstance(d, Reserve)] == [1100.0]


def test_without_cores_there_is_nothing_to_share() -> None:
    view = ClusterView(2, 0, (malleable(2, 2, 100.0),), (LONG,))
    policy = policies.get("sd-policy")
    assert shares(policy.decide(view, NOW)) == []
    assert policy.why_waiting(view, view.queue[0], None) == "it needs 2 nodes, 0 are free"


@pytest.mark.parametrize(
    "bad",
    [
        {"max_slowdown": "ten"},
        {"free_nodes": "maybe"},
        {"sharing_factor": 1.0},
        {"mates": 0},
        {"tested": 0},
        {"nodes": "a,,b"},
    ],
)
def test_wrong_parameters_are_named(bad: dict[str, object]) -> None:
    (name,) = bad
    with pytest.raises(policies.InvalidParameterError, match=name):
        policies.get("sd-policy", **bad)


# timelines on nodes of four cores -------------------------------------------------------------------------------------


def run(nodes: int, jobs: Sequence[Simulated], sharing: Literal["ideal", "worst"] = "ideal") -> SimResult:
    engine = Engine(nodes, policies.get("sd-policy"), Settings(cores_per_node=4), check=True, sharing=sharing)
    return engine.run(jobs)


def ends(result: SimResult) -> list[float | None]:
    return [record.end_s for record in result.records.values()]


@pytest.mark.parametrize("sharing", ["ideal", "worst"])
def test_a_mate_gets_its_cores_back_when_the_newcomer_ends(sharing: Literal["ideal", "worst"]) -> None:
    # Job 0 (2 nodes, 100 s). 10 s: job 1 (2 nodes, 20 s) shares them until 50 s; job 0 loses 20 s: it ends at 120 s.
    result = run(2, [simulated(malleable(0, 2, 100.0), 100.0), simulated(malleable(1, 2, 20.0, 10.0), 20.0)], sharing)
    assert ends(result) == [120.0, 50.0]
    assert result.records[0].shares == ((10.0, 0.5), (50.0, 1.0))
    assert result.records[1].shares == ((10.0, 0.5),)
    # 2 nodes x 10 s, 1 node x 40 s and 2 x 70 s; 1 node x 40 s: nothing is counted twice.
    assert list(result.records[0].spans()) == [(0.0, 10.0, 2.0), (10.0, 50.0, 1.0), (50.0, 120.0, 2.0)]
    assert list(result.records[1].spans()) == [(10.0, 50.0, 1.0)]


@pytest.mark.parametrize(("sharing", "newcomer_s", "mate_s"), [("ideal", 50.0, 120.0), ("worst", 60.0, 125.0)])
def test_a_newcomer_takes_the_cores_of_a_mate_that_ends_first(
    sharing: Literal["ideal", "worst"], newcomer_s: float, mate_s: float
) -> None:
    # Jobs 0 and 1 (1 node each) asked for 100 s; job 0 needs only 20 s. 10 s: job 2 (2 nodes, 25 s) shares with both.
    # 30 s: job 0 has done its last 10 s on half of the cores. Job 2, with 15 s left, has 4 and 2 cores now: on 6 of 8
    # cores it needs 20 s more, as fast as on the slower node 30 s. Job 1 loses half of the time until then: 20 or 25 s.
    jobs = [
        simulated(malleable(0, 1, 100.0), 20.0),
        simulated(malleable(1, 1, 100.0), 100.0),
        simulated(malleable(2, 2, 25.0, 10.0), 25.0),
    ]
    result = run(2, jobs, sharing)
    assert ends(result) == [30.0, mate_s, newcomer_s]
    assert result.records[2].shares == ((10.0, 0.5), (30.0, 0.75))


def test_a_newcomer_that_ends_early_gives_its_mate_more_time_back() -> None:
    # Job 1 asked for 20 s and needs 5 s: it shares from 10 s to 20 s. Job 0 loses 5 s.
    result = run(2, [simulated(malleable(0, 2, 100.0), 100.0), simulated(malleable(1, 2, 20.0, 10.0), 5.0)])
    assert ends(result) == [105.0, 20.0]


def test_jobs_that_share_are_ended_at_the_extended_walltime() -> None:
    # As the first timeline, but both jobs go on for ever: job 1 is ended at 10 + 20 / 0.5 = 50 s, job 0 at 120 s.
    result = run(2, [simulated(malleable(0, 2, 100.0), 900.0), simulated(malleable(1, 2, 20.0, 10.0), 900.0)])
    assert ends(result) == [120.0, 50.0]
    assert [record.outcome for record in result.records.values()] == ["timeout", "timeout"]


def test_a_search_that_failed_is_made_again_under_a_higher_limit_only() -> None:
    candidates = Candidates(Terms(limit=math.inf, factor=0.5, cores_per_rank=1, jobs_per_node=2, all_cores=4))
    candidates.lower(2.0)
    candidates.note_failure(3, 2, 100.0)
    candidates.lower(1.5)
    assert candidates.fails(3, 2, 100.0)
    candidates.lower(1.6)
    assert not candidates.fails(3, 2, 100.0)
