"""A limit on the nodes of a user: a job that waits for it holds up no other."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec import structs
from support.scheduling import malleable, rigid, without_alarms
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.core import InfeasibleDecisionError, SchedulerCore, Settings
from scheduler_bridge.core.events import (
    Effect,
    EvolvingRequest,
    GrowCompleted,
    JobEnded,
    JobStarted,
    JobSubmitted,
    MalleableReady,
    NodeDown,
    Refuse,
    ReservationMade,
    SendOrder,
    StartJob,
    UserNodesLimited,
    WakeUp,
)
from scheduler_bridge.model import AdvanceReservation, ClusterView, JobSpec, Reservation
from scheduler_bridge.policies import Decision, Start
from scheduler_bridge.sim import Engine, simulate

NODES = tuple("abcdefgh")


def of(user: str, spec: JobSpec) -> JobSpec:
    return structs.replace(spec, user=user)


def make(policy: str = "easy", user_nodes: int | None = 4) -> SchedulerCore:
    return SchedulerCore(NODES, policies.get(policy), Settings(user_nodes=user_nodes))


def started(effects: list[Effect]) -> dict[int, int]:
    return {effect.job_id: len(effect.nodes) for effect in effects if isinstance(effect, StartJob)}


def submit(core: SchedulerCore, *specs: JobSpec, now: float = 0.0) -> dict[int, int]:
    """Submit jobs at one instant; those that start run."""
    starts = started(core.handle_batch([JobSubmitted(spec) for spec in specs], now))
    for job_id in starts:
        core.handle(JobStarted(job_id), now)
    core.check()
    return starts


@pytest.mark.parametrize("policy", policies.names())
def test_several_jobs_of_one_instant_stay_within_it(policy: str) -> None:
    core = make(policy)
    starts = submit(core, *(of("u", rigid(number, 2)) for number in range(4)), of("v", rigid(9, 2)))
    assert starts == {0: 2, 1: 2, 9: 2}
    assert core.explain(2) == "job 2 is queued: it needs 2 nodes; its user's jobs have 4 nodes and may have 4"
    assert started(core.handle(JobEnded(0, "completed"), 1.0)) == {2: 2}


@pytest.mark.parametrize("policy", policies.names())
def test_who_waits_for_the_limit_holds_no_reservation(policy: str) -> None:
    core = make(policy)
    submit(core, of("u", rigid(1, 4, 1000.0)), of("u", rigid(2, 4, 1000.0)))
    assert submit(core, of("v", rigid(3, 4, 5000.0)), now=1.0) == {3: 4}  # as if job 2 were not there
    assert submit(core, of("w", rigid(4, 4, 6000.0)), now=2.0) == {}
    assert all(promise.job_id == 4 for promise in core._state.view().reservations)
    assert started(core.handle(JobEnded(1, "completed"), 3.0)) in ({2: 4}, {4: 4})  # now both could


def test_a_promise_to_a_user_keeps_its_nodes_within_the_limit() -> None:
    core = make()
    submit(core, of("v", rigid(1, 4, 100.0)), of("w", rigid(2, 2, 100.0)))
    assert submit(core, of("u", rigid(3, 4)), now=1.0) == {}  # promised for 100 s
    assert submit(core, of("u", rigid(4, 2, 500.0)), of("u", rigid(5, 1, 50.0)), now=2.0) == {5: 1}
    core.handle(JobEnded(5, "completed"), 52.0)
    core.handle(JobEnded(2, "completed"), 90.0)
    assert core.snapshot().jobs[2].start_s is None
    assert started(core.handle(JobEnded(1, "completed"), 100.0)).get(3, 4) == 4
    core.check()


def test_malleable_jobs_start_smaller_and_do_not_grow_above_it() -> None:
    core = make("malleable")
    assert submit(core, of("u", malleable(1, 1, 8))) == {1: 4}
    core.handle(MalleableReady(1), 1.0)
    assert submit(core, of("v", malleable(2, 1, 8)), now=2.0) == {2: 4}
    core.handle(MalleableReady(2), 2.0)
    assert without_alarms(core.handle(JobEnded(2, "completed"), 3.0)) == []
    assert without_alarms(core.handle(EvolvingRequest(1, 1), 4.0)) == [
        Refuse(1, "job 1 asked for 1 node; none can be given now")
    ]
    (order,) = without_alarms(core.handle(UserNodesLimited(6), 5.0))
    assert isinstance(order, SendOrder)
    assert (order.kind, order.count) == ("grow", 2)
    core.handle(GrowCompleted(1, order.order, order.nodes), 6.0)
    assert without_alarms(core.handle(UserNodesLimited(2), 7.0)) == []  # what runs keeps what it has
    core.check()


def test_a_malleable_job_does_not_grow_while_another_one_of_its_user_waits_for_the_limit() -> None:
    core = make("malleable", user_nodes=6)
    submit(core, of("u", rigid(1, 3)), of("u", malleable(2, 1, 8)), of("v", rigid(3, 4)))
    assert submit(core, of("u", rigid(4, 6)), now=1.0) == {}
    core.handle(MalleableReady(2), 1.0)
    assert without_alarms(core.handle(JobEnded(1, "completed"), 2.0)) == []
    core.handle(UserNodesLimited(None), 3.0)
    assert any(row.resizing for row in core.snapshot().jobs if row.job == 2) or core.pool.held > 5


def test_a_job_above_it_waits_for_another_limit() -> None:
    core = make()
    assert submit(core, rigid(1, 5)) == {}
    assert core.explain(1) == "job 1 is queued: it needs 5 nodes; a user may have 4"
    assert started(core.handle(UserNodesLimited(5), 1.0)) == {1: 5}


def test_it_holds_beside_reservations_and_under_another_policy() -> None:
    core = make("easy")
    core.handle(ReservationMade(AdvanceReservation("r", 1000.0, 2000.0, 2)), 0.0)
    starts = submit(core, *(of("u", rigid(number, 2)) for number in range(4)))
    assert starts == {0: 2, 1: 2}
    core.use(policies.get("fcfs"), Settings())
    core.handle(WakeUp(), 1.0)
    assert core.settings.user_nodes == 4
    assert core.pool.held == 4


class Careless:
    name = "careless"

    def decide(self, view: ClusterView, now: float) -> list[Decision]:
        return [Start(1, 5, "so be it")]

    def why_waiting(self, view: ClusterView, job: JobSpec, reservation: Reservation | None) -> str:
        return "?"


def test_what_a_policy_could_not_know_is_checked_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    core = SchedulerCore(NODES, Careless(), Settings(user_nodes=4))
    monkeypatch.setattr("scheduler_bridge.core.limits.under", lambda state, policy: policy)
    with pytest.raises(InfeasibleDecisionError, match="may have 4 nodes more"):
        core.handle(JobSubmitted(malleable(1, 1, 8)), 0.0)


@pytest.mark.parametrize("nodes", [0, -1])
def test_a_limit_is_a_number_of_nodes(nodes: int) -> None:
    with pytest.raises(ValueError, match="user_nodes is"):
        Settings(user_nodes=nodes)


@pytest.mark.parametrize("name", ["pass_interval_s", "cooldown_s", "failure_backoff_s", "walltime_grace_s"])
def test_a_time_is_a_number(name: str) -> None:
    times: dict[str, Any] = {name: math.nan}
    with pytest.raises(ValueError, match=f"{name} is nan"):
        Settings(**times)


@pytest.mark.parametrize("job", [malleable(1, 1, 8), malleable(2, 1, 8)], ids=["too large", "not waiting"])
def test_a_policy_that_does_not_heed_what_it_is_shown_is_refused(job: JobSpec) -> None:
    core = SchedulerCore(NODES, Careless(), Settings(user_nodes=4))
    with pytest.raises(InfeasibleDecisionError):
        core.handle(JobSubmitted(job), 0.0)


def test_a_simulated_job_is_refused_by_the_limit_as_it_is_then() -> None:
    jobs = [simulated(structs.replace(rigid(number, 3), submit_s=10.0 * number), 5.0) for number in range(3)]
    limits = [(5.0, UserNodesLimited(2)), (15.0, UserNodesLimited(3))]
    found = simulate(NODES, policies.get("easy"), jobs, limits, Settings(user_nodes=4)).records.values()
    assert [(record.refused, record.outcome) for record in found] == [
        (False, "completed"),
        (True, None),
        (False, "completed"),
    ]


def test_it_is_said_why_a_simulated_job_was_refused_or_not_let_in() -> None:
    after, dynamics = simulated(rigid(2, 1), 5.0)
    jobs = [simulated(rigid(0, 9), 5.0), simulated(rigid(1, 3), 5.0), simulated(rigid(3, 8), 5.0)]
    jobs.append((structs.replace(after, after_any=(3,)), dynamics))

    def said(user_nodes: int | None) -> dict[int, str]:
        engine = Engine(NODES, policies.get("easy"), Settings(user_nodes=user_nodes), remember="all")
        found = engine.run(jobs, [(0.0, NodeDown("a"))]).explanations
        return {job_id: explanation.text for job_id, explanation in found.items()}

    unlimited, limited = said(None), said(8)
    assert unlimited[0] == "refused: job 0 needs 9 nodes, the cluster has 8"
    assert limited[0] == "refused: job 0 needs 9 nodes, a user may have 8"
    assert {text[2] for text in (unlimited, limited)} == {"it waits for the end of other jobs"}
    assert {text[1] for text in (unlimited, limited)} == {"completed"}


@pytest.mark.parametrize("policy", ["malleable", "avg", "best-use", "mebf", "malleable-compat"])
def test_others_shrink_for_a_job_that_alone_is_within_the_limit(policy: str) -> None:
    """Its reservation, and that it could start then, are the same nodes."""
    core = make(policy, user_nodes=6)
    wide = structs.replace(malleable(1, 2, 6, 1000.0), user="v", nodes=6)
    assert submit(core, wide, of("w", rigid(2, 2, 1000.0))) == {1: 6, 2: 2}
    core.handle(MalleableReady(1), 1.0)
    effects = core.handle_batch([JobSubmitted(of("u", rigid(3, 4)))], 2.0)
    (order,) = [effect for effect in effects if isinstance(effect, SendOrder)]
    assert (order.job_id, order.kind) == (1, "shrink")
