"""Shared nodes in random scenarios: the work adds up, no job is ended for having made room, and defects are found."""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterable

import pytest
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.core import InvariantError, Settings, co_scheduling
from scheduler_bridge.core.events import Effect
from scheduler_bridge.core.node_sharing import Claim, Sharing, Stack
from scheduler_bridge.core.nodes import NodePool
from scheduler_bridge.core.state import SchedulerState
from scheduler_bridge.core.tracked import Shares, TrackedJob
from scheduler_bridge.model import JobClass, JobSpec
from scheduler_bridge.sim import AuditError, Engine, Scenario, SharingModel, SimRecord, check_policy

PARAMETERS: list[dict[str, object]] = [
    {"max_slowdown": "inf"},
    {"max_slowdown": "inf", "mates": 3, "jobs_per_node": 3, "free_nodes": "yes"},
    {"max_slowdown": "dynamic", "sharing_factor": 0.7},
]
SCENARIOS = 60


def crowd(seed: int, *, workers_s: float = 0.0) -> Scenario:
    """Malleable jobs, and some rigid ones, that want most of a few nodes; half of them end before their walltime."""
    rng = random.Random(seed)
    jobs = []
    for job_id in range(12):
        nodes, walltime_s = rng.randint(1, 3), float(rng.randint(5, 200))
        job_class: JobClass = "malleable" if rng.random() < 0.9 else "rigid"
        submit_s = float(rng.choice([0, rng.randint(0, 100)]))
        spec = JobSpec(job_id, f"j{job_id}", "u", job_class, nodes, nodes, nodes, walltime_s, submit_s)
        runtime_s = rng.choice([walltime_s, float(rng.randint(1, int(walltime_s)))])
        jobs.append(simulated(spec, runtime_s, workers_s=workers_s))
    return Scenario(4, tuple(jobs), settings=Settings(cores_per_node=rng.choice([2, 4, 5, 48])))


def shared(records: Iterable[SimRecord]) -> int:
    return sum(1 for record in records if any(share < 1 for _, share in record.shares))


@pytest.mark.parametrize("parameters", PARAMETERS)
@pytest.mark.parametrize("sharing", ["ideal", "worst"])
def test_the_work_adds_up_and_nobody_is_ended_early(parameters: dict[str, object], sharing: SharingModel) -> None:
    sharers = 0
    for seed in range(SCENARIOS):
        scenario = crowd(seed, workers_s=float(seed % 4))
        engine = Engine(4, policies.get("sd-policy", **parameters), scenario.settings, check=True, sharing=sharing)
        records = engine.run(scenario.jobs).records
        for job, _ in scenario.jobs:
            record = records[job.job_id]
            assert record.outcome == "completed", f"seed {seed}: {record}"
            if sharing == "ideal":
                done = sum((to_s - from_s) * nodes for from_s, to_s, nodes in record.spans())
                assert done == pytest.approx(job.runtime_s * job.nodes), f"seed {seed}: {record}"
        sharers += shared(records.values())
    assert sharers > SCENARIOS


def test_an_order_that_takes_its_time_changes_nothing_but_times() -> None:
    for seed in range(SCENARIOS):
        scenario = crowd(seed, workers_s=1.0)
        check_policy(lambda: policies.get("sd-policy", max_slowdown="inf"), scenario, conserves="head")


def one_by_one() -> Scenario:
    """A job that needs the nodes of two others, of which one makes room long before the other does."""
    jobs = []
    for job_id, (nodes, walltime_s, submit_s, workers_s) in enumerate(
        [(1, 200, 0, 50), (1, 200, 0, 1), (2, 20, 10, 1)]
    ):
        spec = JobSpec(job_id, f"j{job_id}", "u", "malleable", nodes, nodes, nodes, float(walltime_s), float(submit_s))
        jobs.append(simulated(spec, spec.walltime_s, workers_s=float(workers_s)))
    return Scenario(2, tuple(jobs), settings=Settings(cores_per_node=4))


def test_a_job_starts_when_the_last_mate_has_made_room() -> None:
    result = check_policy(lambda: policies.get("sd-policy", max_slowdown="inf"), one_by_one())
    assert result.records[2].start_s == 60.0


# defects --------------------------------------------------------------------------------------------------------------


def start_with_the_first_mate(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(co_scheduling, "Claim", lambda cores, waits, mates, why: Claim(cores, {max(waits)}, mates, why))


def give_claimed_cores_away(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sharing, "claimed", lambda self, stack: False)


def free_nodes_that_others_hold(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodePool, "_part", lambda self, ranks: ranks)


def forget_to_give_back(patch: pytest.MonkeyPatch) -> None:
    original = Sharing.spare

    def spare(self: Sharing, stack: Stack) -> int:
        return original(self, stack) | (1 if len(stack.cores) == 1 else 0)

    patch.setattr(Sharing, "spare", spare)


def take_too_much(patch: pytest.MonkeyPatch) -> None:
    original = co_scheduling._start

    def start(state: SchedulerState, job: TrackedJob, waiting: Claim, now: float) -> list[Effect]:
        waiting.cores += 1
        return list(original(state, job, waiting, now))

    patch.setattr(co_scheduling, "_start", start)


def seat_anywhere(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sharing, "spare", lambda self, stack: self.every_core)


def tell_nobody(patch: pytest.MonkeyPatch) -> None:
    original = co_scheduling.claim

    def claim(state: SchedulerState, decision: policies.Share, now: float) -> list[Effect]:
        return list(original(state, decision, now))[1:]

    patch.setattr(co_scheduling, "claim", claim)


def keep_the_walltime(patch: pytest.MonkeyPatch) -> None:
    original = Sharing.shares

    def shares(self: Sharing, jobs: Iterable[TrackedJob], now: float, growing: Container[int]) -> dict[int, Shares]:
        return {
            job: Shares(0.0, s.cores, s.neighbours, s.is_host, s.kept_nodes)
            for job, s in original(self, jobs, now, growing).items()
        }

    patch.setattr(Sharing, "shares", shares)


@pytest.mark.parametrize("plant", [start_with_the_first_mate, give_claimed_cores_away])
def test_a_start_before_all_have_made_room_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(InvariantError, match="a core is in two allocations"):
        check_policy(lambda: policies.get("sd-policy", max_slowdown="inf"), one_by_one())


def test_a_core_that_is_given_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    seat_anywhere(monkeypatch)
    with pytest.raises(AuditError, match="jobs use"):
        check_policy(lambda: policies.get("sd-policy", max_slowdown="inf"), one_by_one())


@pytest.mark.parametrize(
    "plant",
    [
        free_nodes_that_others_hold,
        forget_to_give_back,
        take_too_much,
        tell_nobody,
        keep_the_walltime,
    ],
)
def test_a_planted_defect_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    parameters = PARAMETERS[1]
    for seed in range(200):
        scenario = crowd(seed, workers_s=float(seed % 3))
        try:
            result = check_policy(lambda: policies.get("sd-policy", **parameters), scenario)
        except (AuditError, InvariantError, RuntimeError):
            return
        if any(record.outcome != "completed" for record in result.records.values()):
            return
    pytest.fail("not found in 200 scenarios")
