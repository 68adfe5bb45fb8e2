"""Walltimes at other sizes than asked for: fixed as submitted, or scaled by what the scheduler believes."""

from __future__ import annotations

import pytest
from msgspec import structs
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.core import SchedulerCore, Settings
from scheduler_bridge.core.events import (
    GrowCompleted,
    JobEnded,
    JobStarted,
    JobSubmitted,
    KillJob,
    MalleableReady,
    SendOrder,
    StartJob,
    WakeUp,
)
from scheduler_bridge.model import ClusterView, JobSpec, Reservation
from scheduler_bridge.policies import Decision, Grow, Shrink, Start
from scheduler_bridge.sim import Engine

NODES = tuple("abcdefgh")
SCALED = Settings(walltime="scaled")


def job(job_id: int, low: int, nodes: int, high: int, walltime_s: float = 100.0, rho: float = 0.0) -> JobSpec:
    return JobSpec(job_id, "m", "u", "malleable", nodes, low, high, walltime_s, 0.0, rho=rho)


def rigid(job_id: int, nodes: int, walltime_s: float = 100.0) -> JobSpec:
    return JobSpec(job_id, "r", "u", "rigid", nodes, nodes, nodes, walltime_s, 0.0)


def end_of(core: SchedulerCore, job_id: int) -> float | None:
    return next(row.expected_end_s for row in core.snapshot().jobs if row.job == job_id)


def test_the_walltime_at_another_size_follows_rho() -> None:
    assert job(0, 1, 4, 8).walltime_at_s(8) == 50.0
    assert job(0, 1, 4, 8, rho=0.5).walltime_at_s(1) == 200.0
    assert job(0, 1, 4, 8, rho=1.0).walltime_at_s(1) == 100.0
    assert job(0, 1, 4, 8, rho=0.3).walltime_at_s(4) == 100.0


@pytest.mark.parametrize(("settings", "end_s"), [(Settings(), 100.0), (SCALED, 200.0)])
def test_a_job_that_starts_smaller_is_expected_to_take_longer(settings: Settings, end_s: float) -> None:
    core = SchedulerCore(NODES[:2], policies.get("malleable"), settings)
    core.handle(JobSubmitted(job(0, 1, 4, 8)), 0.0)
    core.handle(JobStarted(0), 0.0)
    assert end_of(core, 0) == end_s


def test_what_is_left_is_scaled_when_the_size_changes() -> None:
    # Job 0 runs on 2 of its 4 nodes beside job 1, so it is expected to take 200 s. At 40 s it has grown to 8: what is
    # left, 160 s, takes a quarter of that.
    core = SchedulerCore(NODES, policies.get("malleable"), SCALED)
    core.handle(JobSubmitted(rigid(1, 6)), 0.0)
    core.handle(JobStarted(1), 0.0)
    core.handle(JobSubmitted(job(0, 2, 4, 8)), 0.0)
    core.handle_batch([JobStarted(0), MalleableReady(0)], 0.0)
    assert end_of(core, 0) == 200.0
    order = next(e for e in core.handle(JobEnded(1, "completed"), 30.0) if isinstance(e, SendOrder))
    core.handle(GrowCompleted(0, order.order, order.nodes), 40.0)
    assert end_of(core, 0) == 80.0


def test_the_reservation_follows_the_scaled_walltime() -> None:
    # 8 nodes. Job 0 (asked for 4, 100 s) starts on 8: 50 s. Job 1 needs all: it is promised them at 50 s.
    core = SchedulerCore(NODES, policies.get("easy"), SCALED)
    core.handle(JobSubmitted(job(0, 1, 4, 8)), 0.0)
    core.handle(JobStarted(0), 0.0)
    core.handle(JobSubmitted(rigid(1, 8)), 1.0)
    (reservation,) = core._state.view().reservations
    assert reservation.start_s == 50.0


def test_a_backfilled_job_is_judged_at_the_size_at_which_it_starts() -> None:
    # 8 nodes, 6 of them busy until 100 s, all promised to job 1 then. Job 2 wants 2 nodes for 60 s; on its minimum of
    # 1, where it has that, it would take 120 s.
    for low, starts in ((2, True), (1, False)):
        core = SchedulerCore(NODES, policies.get("min"), SCALED)
        core.handle(JobSubmitted(rigid(0, 6)), 0.0)
        core.handle(JobStarted(0), 0.0)
        core.handle(JobSubmitted(rigid(1, 8)), 0.0)
        effects = core.handle(JobSubmitted(job(2, low, 2, 2, 60.0)), 0.0)
        assert any(isinstance(effect, StartJob) for effect in effects) is starts


def test_only_a_job_that_kept_the_size_it_asked_for_is_killed() -> None:
    for low, killed in ((4, True), (2, False)):
        core = SchedulerCore(NODES[:low], policies.get("malleable"), SCALED)
        core.handle(JobSubmitted(job(0, low, 4, 8)), 0.0)
        core.handle(JobStarted(0), 0.0)
        kills = [e for now in (100.0, 200.0, 1000.0) for e in core.handle(WakeUp(), now) if isinstance(e, KillJob)]
        assert bool(kills) is killed


def test_the_index_of_waiting_jobs_knows_scaled_walltimes() -> None:
    """Many jobs that wait, so that there are blocks to be passed over; check_policy has too few."""
    jobs = [simulated(rigid(0, 6, 1000.0), 1000.0), simulated(rigid(1, 8, 10.0), 10.0)]
    jobs += [simulated(structs.replace(job(number, 1, 2, 2, 600.0), submit_s=1.0), 300.0) for number in range(2, 100)]
    jobs.append(simulated(structs.replace(job(100, 1, 2, 2, 400.0), submit_s=2.0), 100.0))
    records = Engine(8, policies.get("min"), SCALED).run(jobs).records
    assert records[100].start_s == 2.0  # on 1 node: 800 s, which ends before 1000 s; the others would not
    assert all(record.start_s != 1.0 for number, record in records.items() if 2 <= number < 100)


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="walltime is 'long'"):
        Settings(walltime="long")  # type: ignore[arg-type]  # wrong on purpose


def test_a_shrink_for_a_later_job_delays_no_reservation() -> None:
    # 8 nodes. Job 0 asked for 2 nodes and 20 s and runs on 4, until 10 s; job 1 on 4, until 15 s. Job 2 needs 6: it
    # gets them at 15 s even if job 0 is back on 2 nodes then, until 19 s. That leaves nothing for job 3, which would
    # have to take 2 nodes of job 0 and keep them.
    core = SchedulerCore(NODES, policies.get("keep-pref"), SCALED)
    core.handle_batch([JobSubmitted(job(0, 1, 2, 4, 20.0)), JobSubmitted(rigid(1, 4, 15.0))], 0.0)
    core.handle_batch([JobStarted(0), JobStarted(1), MalleableReady(0)], 0.0)
    assert end_of(core, 0) == 10.0
    assert core.handle_batch([JobSubmitted(rigid(2, 6)), JobSubmitted(rigid(3, 2, 500.0))], 1.0) == []
    (reservation,) = core._state.view().reservations
    assert (reservation.job_id, reservation.start_s, reservation.spare_nodes) == (2, 15.0, 0)


def test_a_policy_that_takes_back_what_it_did_is_found_out() -> None:
    class Fickle:
        name = "fickle"

        def decide(self, view: ClusterView, now: float) -> list[Decision]:
            if view.queue:
                return [Start(view.queue[0].job_id, 1, "first")]
            running = view.running[0]
            if not running.resizable(now):
                return []
            return [Grow(0, 1, "why not") if running.nodes == 1 else Shrink(0, 1, "no")]

        def why_waiting(self, view: ClusterView, job: JobSpec, reservation: Reservation | None) -> str:
            return "never"

    with pytest.raises(RuntimeError, match=r"fickle does not come to an end at 0 s"):
        Engine(2, Fickle()).run([simulated(job(0, 1, 1, 2), 5.0)])
