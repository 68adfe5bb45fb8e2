"""Hand-computed passes and timelines for the policies as the papers' published schedulers have them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import structs
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.core import Settings, settings_for
from scheduler_bridge.core.events import Effect, Event, SendOrder
from scheduler_bridge.model import ClusterView, JobSpec, Reservation, RunningJob
from scheduler_bridge.policies import Decision, Grow, Reserve, Shrink, Stand, Start
from scheduler_bridge.policies.base import stands_until
from scheduler_bridge.sim import Engine, SimResult, simulate

NOW = 100.0
HEAD = 9


def rigid(job_id: int, nodes: int, walltime_s: float = 1000.0, submit_s: float = 0.0) -> JobSpec:
    return JobSpec(job_id, "r", "u", "rigid", nodes, nodes, nodes, walltime_s, submit_s)


def malleable(job_id: int, low: int, high: int, walltime_s: float = 1000.0, submit_s: float = 0.0) -> JobSpec:
    return JobSpec(job_id, "m", "u", "malleable", low, low, high, walltime_s, submit_s)


def running(spec: JobSpec, nodes: int, end_s: float = 900.0, **more: object) -> RunningJob:
    values: dict[str, object] = {"max_nodes": spec.max_nodes, "ready": spec.is_malleable} | more
    return RunningJob(spec, nodes, 0.0, end_s, **values)  # type: ignore[arg-type]  # fields by name


def decide(
    policy: str, total: int, queue: Sequence[JobSpec], jobs: Sequence[RunningJob], known: Reservation | None = None
) -> list[tuple[type[Decision], int, int]]:
    """One pass of ``policy``: what it starts and resizes; ``known``: what the pass before reserved."""
    free = total - sum(job.nodes for job in jobs)
    started = tuple(structs.replace(job, turn=turn) for turn, job in enumerate(jobs))
    view = ClusterView(total, free, tuple(queue), started, (known,) if known else ())
    found = policies.get(policy).decide(view, NOW)
    return [(type(d), d.job_id, d.nodes) for d in found if not isinstance(d, Reserve | Stand)]


def starts(result: SimResult) -> list[float | None]:
    return [record.start_s for record in result.records.values()]


RESERVED = Reservation(HEAD, 900.0, 3, 1)


def test_nobody_overtakes_in_the_pass_that_finds_the_first_job_blocked() -> None:
    # 4 nodes, 2 free. The first job needs 3. Job 2 (1 node, 10 s) ends long before 900 s, and starts in the next pass.
    jobs = [running(rigid(1, 2), 2)]
    queue = [rigid(HEAD, 3), rigid(2, 1, 10.0)]
    assert decide("easy-compat", 4, queue, jobs) == []
    assert decide("easy-compat", 4, queue, jobs, RESERVED) == [(Start, 2, 1)]


def test_a_job_that_fits_into_the_spare_nodes_does_not_overtake() -> None:
    # 5 nodes, 3 free, the first job needs 4: at 900 s there are 5, 1 is spare. Job 2 (1 node) would not delay it.
    jobs = [running(rigid(1, 2), 2)]
    queue = [rigid(HEAD, 4), rigid(2, 1, 1000.0)]
    assert decide("easy-compat", 5, queue, jobs, RESERVED) == []
    assert decide("easy", 5, queue, jobs, RESERVED) == [(Start, 2, 1)]


@pytest.mark.parametrize(("walltime_s", "overtakes"), [(799.0, True), (800.0, False)])
def test_a_job_that_ends_with_the_wait_of_the_first_one_does_not_overtake(walltime_s: float, overtakes: bool) -> None:
    # As above; the first job can start at 900 s, 800 s from now.
    jobs = [running(rigid(1, 2), 2)]
    queue = [rigid(HEAD, 3), rigid(2, 1, walltime_s)]
    assert decide("easy-compat", 4, queue, jobs, RESERVED) == ([(Start, 2, 1)] if overtakes else [])
    assert decide("easy", 4, queue, jobs, RESERVED) == [(Start, 2, 1)]


def test_with_equal_walltimes_it_is_fcfs() -> None:
    # 4 nodes, walltimes of 800 s. 0 s: job 0 (3 nodes, 100 s). Job 1 (2 nodes) waits until 100 s, and so does job 2
    # (1 node, 10 s), although a node is free all the time: no job overtakes.
    jobs = [
        simulated(rigid(0, 3, 800.0), 100.0),
        simulated(rigid(1, 2, 800.0), 50.0),
        simulated(rigid(2, 1, 800.0), 10.0),
    ]
    result = simulate(4, policies.get("easy-compat"), jobs, settings=settings_for("easy-compat"))
    assert starts(result) == [0, 100, 100]
    assert starts(simulate(4, policies.get("fcfs"), jobs)) == [0, 100, 100]


def test_the_pass_after_five_seconds_lets_overtake() -> None:
    # 4 nodes. 0 s: job 0 (3 nodes, 100 s); job 1 (2 nodes) is found blocked. 5 s: the next pass; job 2 (1 node, 90 s)
    # would end at 95 s < 100 s: it starts. Decided at events alone it would start when job 0 ends.
    jobs = [
        simulated(rigid(0, 3, 100.0), 100.0),
        simulated(rigid(1, 2, 50.0), 50.0),
        simulated(rigid(2, 1, 90.0), 90.0),
    ]
    result = simulate(4, policies.get("easy-compat"), jobs, settings=settings_for("easy-compat"))
    assert starts(result) == [0, 100, 5]
    assert starts(simulate(4, policies.get("easy-compat"), jobs)) == [0, 100, 100]


def test_malleable_jobs_start_on_all_that_is_free() -> None:
    # As in the real runs (100 %, seed 45): 8-16, 1-4 and 2-16 nodes on 32 start on 16, 4 and the 12 that are left.
    queue = [malleable(1, 8, 16), malleable(2, 1, 4), malleable(3, 2, 16), malleable(4, 1, 8)]
    for policy in ("easy-compat", "malleable-compat"):
        assert decide(policy, 32, queue, []) == [(Start, 1, 16), (Start, 2, 4), (Start, 3, 12)]


def test_every_job_gives_what_is_missing() -> None:
    # 12 nodes, 1 free. The first job needs 3: 2 are missing. Job 1 has 5 (min 2), job 2 has 4 (min 1), job 3 has 2
    # (min 1): they give 2, 2 and 1, where 2 would be enough.
    jobs = [running(malleable(1, 2, 8), 5), running(malleable(2, 1, 8), 4), running(malleable(3, 1, 8), 2)]
    queue = [rigid(HEAD, 3)]
    assert decide("malleable-compat", 12, queue, jobs) == [(Shrink, 1, 2), (Shrink, 2, 2), (Shrink, 3, 1)]
    assert decide("malleable", 12, queue, jobs) == [(Shrink, 1, 2)]


def test_nobody_gives_if_it_would_not_suffice_and_the_idle_nodes_are_given_away_beside_the_waiting_job() -> None:
    # 8 nodes, 1 free; the first job needs 7, both jobs at their minimum leave 5. The idle node goes to the job with
    # most room to grow: job 1 (3 of 8) before job 2 (4 of 8).
    jobs = [running(malleable(1, 2, 8), 3), running(malleable(2, 1, 8), 4)]
    assert decide("malleable-compat", 8, [rigid(HEAD, 7)], jobs) == [(Grow, 1, 1)]


def test_only_the_first_waiting_job_is_helped() -> None:
    # 9 nodes, none free; the first job needs 9 and cannot be helped, job 2 (1 node) could be.
    jobs = [running(malleable(1, 2, 9), 9)]
    assert decide("malleable-compat", 9, [rigid(HEAD, 9), rigid(2, 1)], jobs) == []
    assert decide("malleable-compat", 9, [rigid(2, 1), rigid(HEAD, 9)], jobs) == [(Shrink, 1, 1)]


def test_idle_nodes_go_to_the_job_with_most_room_and_then_to_the_one_that_started_last() -> None:
    # 20 nodes, 5 free. Room: job 1 two, jobs 2 and 3 four each. Job 3 started last and gets 4, job 2 the fifth.
    jobs = [running(malleable(1, 1, 7), 5), running(malleable(2, 1, 9), 5), running(malleable(3, 1, 9), 5)]
    assert decide("malleable-compat", 20, [], jobs) == [(Grow, 3, 4), (Grow, 2, 1)]


@pytest.mark.parametrize(("first", "last"), [(1, 2), (2, 1)])
def test_among_equals_the_start_decides_who_grows_first_and_not_the_id(first: int, last: int) -> None:
    # 8 nodes: two malleable jobs start on 4 each, at 0 and 1 s. 2 s: job 3 needs 6: each gives 3. 12 s: its 6 nodes are
    # free, and each could get 3.
    jobs = [
        simulated(malleable(first, 1, 4, 100.0), 50.0),
        simulated(malleable(last, 1, 4, 100.0, submit_s=1.0), 50.0),
        simulated(rigid(3, 6, 10.0, submit_s=2.0), 10.0),
    ]
    grown: list[int] = []

    def watch(now: float, events: Sequence[Event], effects: Sequence[Effect]) -> None:
        grown.extend(effect.job_id for effect in effects if isinstance(effect, SendOrder) and effect.kind == "grow")

    Engine(8, policies.get("malleable-compat"), observer=watch).run(jobs)
    assert grown == [last, first]


def test_nothing_is_decided_until_the_nodes_are_released() -> None:
    # 10 nodes, 4 free; job 1 is releasing 2 nodes. The first job (3 nodes) fits, and waits all the same.
    jobs = [running(malleable(1, 2, 8), 4, order="shrink", order_nodes=2), running(malleable(2, 1, 8), 2)]
    queue = [rigid(HEAD, 3)]
    assert decide("malleable-compat", 10, queue, jobs, RESERVED) == []
    view = ClusterView(10, 4, tuple(queue), tuple(jobs))
    why = policies.get("malleable-compat").why_waiting(view, queue[0], None)
    assert why == "nothing is decided until job 1 has released its nodes"


def test_a_timeline_with_too_many_nodes_released() -> None:
    # 8 nodes. 0 s: jobs 0 and 1 (1 to 4 nodes, 40 s at 1 node) start on 4 each: 10 s each if nothing happened.
    # 2 s: job 2 (rigid, 2 nodes, 5 s) arrives. Both have done 8 of 40 and give 2 nodes each within 1 s, going on with
    # 2: 30 left at 3 s. 3 s: job 2 starts, 2 nodes stay idle, for both jobs pause until 63 s. 8 s: job 2 ends.
    # 18 s: both jobs end.
    jobs = [
        simulated(malleable(0, 1, 4), 40.0, shrink_s=1.0),
        simulated(malleable(1, 1, 4), 40.0, shrink_s=1.0),
        simulated(rigid(2, 2, submit_s=2.0), 5.0),
    ]
    records = simulate(8, policies.get("malleable-compat"), jobs, settings=settings_for("malleable-compat")).records
    assert [record.sizes for record in records.values()] == [
        [(0.0, 4), (3.0, 2)],
        [(0.0, 4), (3.0, 2)],
        [(3.0, 2)],
    ]
    assert [record.end_s for record in records.values()] == [18.0, 18.0, 8.0]


@pytest.mark.parametrize(("walltime_s", "overtakes"), [(NOW, True), (NOW + 1.0, False)])
def test_by_the_clock_none_overtakes_until_the_first_ones_walltime_has_passed(
    walltime_s: float, overtakes: bool
) -> None:
    # 4 nodes, 2 free, 100 s on the clock. The first job needs 3. Job 2 would delay it by 4,100 s, until 5,000 s.
    jobs = [running(rigid(1, 2), 2)]
    queue = [rigid(HEAD, 3, walltime_s), rigid(2, 2, 4900.0), rigid(3, 1, 10.0)]
    assert decide("easy-clock-compat", 4, queue, jobs) == ([(Start, 2, 2)] if overtakes else [])
    assert decide("easy", 4, queue, jobs) == [(Start, 3, 1)]
    view = ClusterView(4, 2, tuple(queue), tuple(jobs))
    policy = policies.get("easy-clock-compat")
    promised = [d.reservation for d in policy.decide(view, NOW) if isinstance(d, Reserve)]
    assert [reservation.job_id for reservation in promised] == ([] if overtakes else [HEAD])
    if promised:
        why = policy.why_waiting(view, queue[1], promised[0])
        assert why == f"none overtakes job {HEAD} until the scheduler's clock is past that job's walltime"


def test_by_the_clock_the_first_one_that_is_blocked_decides_not_those_that_start_before_it() -> None:
    # 4 nodes. Job 1 (1 node, 5,000 s) starts; the first that is blocked is the next one (4 nodes, 50 s): the clock is
    # past that, and job 3 overtakes.
    queue = [rigid(1, 1, 5000.0), rigid(HEAD, 4, 50.0), rigid(3, 3, 5000.0)]
    assert decide("easy-clock-compat", 4, queue, []) == [(Start, 1, 1), (Start, 3, 3)]


def test_by_the_clock_a_job_that_no_nodes_in_service_can_hold_blocks_no_other() -> None:
    queue = [rigid(HEAD, 5, 5000.0), rigid(2, 2, 5000.0)]
    assert decide("easy-clock-compat", 4, queue, []) == [(Start, 2, 2)]


def test_by_the_clock_a_malleable_job_starts_on_the_nodes_that_it_asks_for() -> None:
    job = structs.replace(malleable(1, 2, 8), nodes=5)
    assert decide("easy-clock-compat", 8, [job], []) == [(Start, 1, 5)]
    assert decide("easy-clock-compat", 8, [job], [running(rigid(2, 4), 4)]) == []


def test_by_the_clock_the_first_job_is_delayed_once_the_clock_is_past_its_walltime() -> None:
    # 4 nodes. 0 s: job 0 (3 nodes, 100 s). Job 1 (4 nodes, 50 s) waits, and protects itself until 50 s: job 2 (1 node,
    # 200 s, submitted at 10 s) does not start then. 60 s: job 3 is submitted, the clock is past 50 s, and job 2 starts
    # until 260 s. Under EASY job 1 starts at 100 s.
    jobs = [
        simulated(rigid(0, 3, 100.0), 100.0),
        simulated(rigid(1, 4, 50.0), 50.0),
        simulated(rigid(2, 1, 200.0, submit_s=10.0), 200.0),
        simulated(rigid(3, 4, 10.0, submit_s=60.0), 10.0),
    ]
    assert starts(simulate(4, policies.get("easy-clock-compat"), jobs)) == [0, 260, 60, 310]
    assert starts(simulate(4, policies.get("easy"), jobs)) == [0, 100, 150, 350]


def test_they_bring_their_own_timing() -> None:
    assert settings_for("easy-clock-compat") == Settings()
    assert settings_for("easy-compat") == Settings(pass_interval_s=5.0)
    assert settings_for("malleable-compat") == Settings(pass_interval_s=5.0, cooldown_s=60.0)
    assert settings_for("easy") == Settings()


def test_nothing_changes_until_the_first_pause_is_over_also_where_another_job_started_first() -> None:
    jobs = [
        running(malleable(number, 1, 2), 2, resizable_from_s=until_s) for number, until_s in ((1, 170.0), (2, 130.0))
    ]
    view = ClusterView(4, 0, (rigid(HEAD, 3),), tuple(jobs))
    assert stands_until(policies.get("malleable-compat"), view, NOW) == 130.0
