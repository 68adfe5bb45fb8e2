"""``check_policy`` notices policies that err, each in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import pytest
from msgspec import structs
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.core import advance_reservations
from scheduler_bridge.core.events import (
    CancelJob,
    EvolvingRequest,
    MalleableEnded,
    NodeDown,
    NodeUp,
    ReservationCancelled,
    ReservationMade,
)
from scheduler_bridge.model import ClusterView, JobSpec, Reservation
from scheduler_bridge.policies import Decision, Grow, Policy, Reserve, Shrink, Stand, Start
from scheduler_bridge.sim import AuditError, Scenario, Simulated, check_policy, random_scenario
from scheduler_bridge.sim.audit import NotKeptError


def rigid(job_id: int, nodes: int, runtime_s: float) -> Simulated:
    return simulated(JobSpec(job_id, "r", "u", "rigid", nodes, nodes, nodes, runtime_s, 0.0), runtime_s)


# Four nodes: job 0 (3 nodes, 10 s), job 1 (4 nodes) blocked, job 2 (1 node, 11 s) would delay it; job 3 is malleable.
SCENARIO = Scenario(
    4,
    (
        rigid(0, 3, 10),
        rigid(1, 4, 10),
        rigid(2, 1, 11),
        simulated(JobSpec(3, "m", "u", "malleable", 1, 1, 4, 100.0, 5.0), 20.0, grow_s=1.0),
    ),
)


@dataclass
class Changed:
    """EASY or another policy, with its decisions changed."""

    change: Callable[[ClusterView, float, list[Decision]], list[Decision]]
    base: Policy = field(default_factory=lambda: policies.get("easy"))
    name: str = "changed"

    def decide(self, view: ClusterView, now: float) -> list[Decision]:
        return self.change(view, now, self.base.decide(view, now))

    def why_waiting(self, view: ClusterView, job: JobSpec, reservation: Reservation | None) -> str:
        return "because"


def start_all(view: ClusterView, now: float, decisions: list[Decision]) -> list[Decision]:
    return [Start(spec.job_id, spec.nodes, "") for spec in view.queue]


def start_small(view: ClusterView, now: float, decisions: list[Decision]) -> list[Decision]:
    return [structs.replace(d, nodes=1) if isinstance(d, Start) else d for d in decisions]


def grow_rigid(view: ClusterView, now: float, decisions: list[Decision]) -> list[Decision]:
    if any(isinstance(d, Start) for d in decisions) or not view.free_nodes:
        return decisions
    return [*decisions, *(Grow(job.spec.job_id, 1, "") for job in view.running if not job.spec.is_malleable)]


def shrink_all(view: ClusterView, now: float, decisions: list[Decision]) -> list[Decision]:
    return [*decisions, *(Shrink(job.spec.job_id, 1, "why not") for job in view.running if job.ready and not job.order)]


def promise_what_is_given(view: ClusterView, now: float, decisions: list[Decision]) -> list[Decision]:
    return [*(Reserve(Reservation(d.job_id, now, 1, 0)) for d in decisions if isinstance(d, Start)), *decisions]


def say_nothing(view: ClusterView, now: float, decisions: list[Decision]) -> list[Decision]:
    return [structs.replace(d, reason="") if isinstance(d, Start) else d for d in decisions]


def start_twice(view: ClusterView, now: float, decisions: list[Decision]) -> list[Decision]:
    return [*decisions, *(structs.replace(d, nodes=1) for d in decisions if isinstance(d, Start) and d.job_id == 3)]


def prefer_even_ids(view: ClusterView, now: float, decisions: list[Decision]) -> list[Decision]:
    return [d for d in decisions if isinstance(d, Reserve | Stand) or d.job_id % 2 == 0]


def sleep_at_night(view: ClusterView, now: float, decisions: list[Decision]) -> list[Decision]:
    return decisions if now < 2**20 else []


def do_nothing(view: ClusterView, now: float, decisions: list[Decision]) -> list[Decision]:
    return []


@pytest.mark.parametrize(
    ("change", "story"),
    [
        (start_all, "nodes more than the 4 free ones"),
        (start_small, "Start"),
        (grow_rigid, "takes no order"),
        (shrink_all, "leads to 0 nodes"),
        (promise_what_is_given, "reservations for"),
        (say_nothing, "gives no reason"),
        (start_twice, "Start"),
        (prefer_even_ids, "renamed jobs and shifted times"),
        (sleep_at_night, "renamed jobs and shifted times"),
        (do_nothing, "is not over"),
    ],
)
def test_an_erring_policy_is_caught(
    change: Callable[[ClusterView, float, list[Decision]], list[Decision]], story: str
) -> None:
    with pytest.raises(AuditError, match=story):
        check_policy(lambda: Changed(change), SCENARIO)


def test_a_policy_that_depends_on_chance_is_caught() -> None:
    calls = iter(range(1000))

    def every_other_time(view: ClusterView, now: float, decisions: list[Decision]) -> list[Decision]:
        return decisions if next(calls) % 2 else []

    with pytest.raises(AuditError, match="the same view gives different decisions"):
        check_policy(lambda: Changed(every_other_time), SCENARIO)


def test_a_policy_that_remembers_is_caught() -> None:
    def tiring() -> Policy:
        seen: set[float] = set()

        def tire(view: ClusterView, now: float, decisions: list[Decision]) -> list[Decision]:
            """Does nothing at the fourth instant, whatever it sees."""
            seen.add(now % 2**20)
            return [] if len(seen) == 4 else decisions

        return Changed(tire)

    with pytest.raises(AuditError, match="without the passes before it"):
        check_policy(tiring, SCENARIO)


def test_a_policy_that_never_settles_is_caught() -> None:
    def seesaw(view: ClusterView, now: float, decisions: list[Decision]) -> list[Decision]:
        """Resizes cost nothing here, so the job goes up and down for ever."""
        sizes = [(job.spec.job_id, job.nodes) for job in view.running if job.resizable(now)]
        return decisions + [
            Shrink(job_id, 1, "down") if nodes == 2 else Grow(job_id, 1, "up") for job_id, nodes in sizes
        ]

    job = simulated(JobSpec(0, "m", "u", "malleable", 1, 1, 2, 100.0, 0.0), 20.0)
    with pytest.raises(AuditError, match="still something to decide after 1000 passes"):
        check_policy(lambda: Changed(seesaw), Scenario(2, (job,)))


def test_a_policy_that_does_not_know_why_a_job_waits_is_caught() -> None:
    class Silent(Changed):
        def why_waiting(self, view: ClusterView, job: JobSpec, reservation: Reservation | None) -> str:
            return ""

    with pytest.raises(AuditError, match="there is no reason why job 1 waits"):
        check_policy(lambda: Silent(lambda view, now, decisions: decisions), SCENARIO)


def test_a_policy_that_delays_the_head_is_caught_although_it_promises_nothing() -> None:
    scenario = replace(SCENARIO, jobs=(*SCENARIO.jobs[:3], rigid(4, 3, 30)))
    check_policy(lambda: policies.get("easy"), scenario, protects="head")
    with pytest.raises(AuditError, match=r"job 1 was first and could have run at 10\.0 s"):
        check_policy(lambda: policies.get("backfilling"), scenario, protects="head")


def test_a_policy_that_claims_to_protect_the_head_and_does_not_is_caught() -> None:
    scenario = replace(SCENARIO, jobs=(*SCENARIO.jobs[:3], rigid(4, 3, 30)))

    def announce(view: ClusterView, now: float, decisions: list[Decision]) -> list[Decision]:
        """Reserve as EASY does, start as backfilling does."""
        reservations = [d for d in policies.get("easy").decide(view, now) if isinstance(d, Reserve)]
        return [*reservations, *decisions]

    greedy = Changed(announce, policies.get("backfilling"))
    check_policy(lambda: greedy, scenario)
    with pytest.raises(AuditError, match=r"reserved for job 1 at 10 s moved to 11\.0 s"):
        check_policy(lambda: greedy, scenario, protects="promises")


def test_a_policy_that_claims_to_leave_nobody_waiting_and_does_is_caught() -> None:
    check_policy(lambda: policies.get("backfilling"), SCENARIO, conserves="any")
    check_policy(lambda: policies.get("fcfs"), SCENARIO, conserves="head")
    with pytest.raises(AuditError, match="job 2 needs 1 nodes and waits beside 1"):
        check_policy(lambda: policies.get("fcfs"), SCENARIO, conserves="any")


def test_contradictions_between_the_jobs_and_the_core_are_caught() -> None:
    with pytest.raises(AuditError, match="the core saw contradictions"):
        check_policy(
            lambda: policies.get("easy"), replace(SCENARIO, disturbances=((1.0, MalleableEnded(0)),)), drains=False
        )


def test_random_scenarios_are_given_by_their_seed_and_contain_what_they_promise() -> None:
    assert random_scenario(7) == random_scenario(7) != random_scenario(8)
    assert all(random_scenario(seed, exact=True).is_exact for seed in range(50))
    scenarios = [random_scenario(seed) for seed in range(50)]
    jobs = [job for scenario in scenarios for job in scenario.jobs]
    assert any(dynamics.failing_orders for _, dynamics in jobs)
    assert any(job.runtime_s > job.walltime_s for job, _ in jobs)
    for behaviour in ("start_delay_s", "grow_s", "shrink_s", "defer_s", "kill_delay_s", "own_choice"):
        assert len({getattr(dynamics, behaviour) for _, dynamics in jobs}) > 1, behaviour
    assert {job.job_class for job, _ in jobs} == {"rigid", "malleable"}
    happens = {type(event) for scenario in scenarios for _, event in scenario.disturbances}
    assert happens == {NodeDown, NodeUp, CancelJob, EvolvingRequest, ReservationMade, ReservationCancelled}


@pytest.mark.parametrize("forgets", ["barred", "booking_of"])
def test_nodes_that_are_given_to_others_than_they_are_kept_for_are_noticed(
    forgets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advance_reservations, forgets, lambda *_: 0 if forgets == "barred" else None)
    with pytest.raises(NotKeptError):
        check_all(range(100))


def check_all(seeds: Iterable[int]) -> None:
    for seed in seeds:
        check_policy(lambda: policies.get("easy"), random_scenario(seed))
