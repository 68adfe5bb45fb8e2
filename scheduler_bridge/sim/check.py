"""What every policy must hold: ``check_policy`` runs one on a scenario and raises where it does not."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from msgspec import structs

from scheduler_bridge.core import Settings
from scheduler_bridge.core import events as ev
from scheduler_bridge.model import AdvanceReservation, ClusterView, JobClass, JobSpec, Reservation, RunningJob
from scheduler_bridge.policies import Decision, Grow, Policy, Reserve, Share, Shrink, Stand, Start, in_full
from scheduler_bridge.policies.base import Around
from scheduler_bridge.policies.compose import at_minimum
from scheduler_bridge.sim.audit import AuditError, Auditor
from scheduler_bridge.sim.engine import Engine, node_names
from scheduler_bridge.sim.jobs import Dynamics, SimResult, Simulated
from scheduler_bridge.workloads import TraceJob

_ID_FACTOR, _ID_OFFSET = 7, 13  # keeps the order of ids, by which ties are broken
_SHIFT_S = float(2**20)
_GRAIN_S = 2.0**-10  # times on this grid are shifted without rounding
_SLACK_S = 1e-6
_MAX_PASSES = 1000

Conserves: TypeAlias = Literal["nothing", "head", "any"]
Protects: TypeAlias = Literal["nothing", "promises", "head"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """What happens to a policy under test: nodes, jobs with their behaviour, and events from outside (time, event)."""

    nodes: int
    jobs: tuple[Simulated, ...]
    disturbances: tuple[tuple[float, ev.Event], ...] = ()
    settings: Settings = field(default_factory=Settings)

    @property
    def is_exact(self) -> bool:
        """Whether walltimes bound all that jobs do: no delays, failing orders or disturbances."""
        return not self.disturbances and all(
            not (how.start_delay_s or how.ready_delay_s or how.grow_s or how.shrink_s or how.defer_s)
            and not how.failing_orders
            and not how.kill_delay_s
            for _, how in self.jobs
        )


def check_policy(
    make_policy: Callable[[], Policy],
    scenario: Scenario,
    *,
    conserves: Conserves = "nothing",
    need: Callable[[JobSpec], int] = at_minimum,
    protects: Protects = "nothing",
    drains: bool = True,
    shifts: bool = True,
) -> SimResult:
    """Run a policy on ``scenario`` and check everything that can be checked.

    Always: every pass is feasible, deterministic, the same for renamed jobs and shifted times, independent of earlier
    passes, and gives its reasons; no node is given twice, no size out of bounds, no job started twice, no order to a
    job that is busy, ending or not ready; no job is placed on nodes of an advance reservation that could stay into it;
    passes at one instant come to an end; a second run gives the same records.

    Args:
        make_policy: Makes a fresh policy.
        scenario: What happens.
        conserves: What the policy claims never to leave waiting beside enough free nodes: the first job of the queue
            ("head"), or any job ("any").
        need: The fewest nodes on which the policy claims to start a job.
        protects: What the policy claims where walltimes bound all that jobs do; checked where the scenario is exact.
            "promises": no job starts after the first reservation that it got. "head": besides, a job that has become
            the first of the queue starts by the time at which, by the walltimes of those that run, there are enough
            nodes for it; whether or not a reservation says so.
        drains: Every job is over at the end, or was refused. Needs all nodes to be back in service.
        shifts: The policy claims to decide the same if all times are shifted alike, as it should: what the scheduler's
            clock shows says nothing about jobs.

    Returns:
        The result of the run.

    Raises:
        AuditError: A check failed; the text says which, where and when.
    """
    watcher = _Watcher(
        make_policy(), conserves, need, protects if scenario.is_exact else "nothing", _SHIFT_S if shifts else 0.0
    )
    auditor = Auditor(
        node_names(scenario.nodes),
        scenario.settings.cores_per_node,
        watcher.jobs_per_node,
        scenario.settings.walltime == "scaled",
        watcher.shared_nodes,
    )
    engine = Engine(scenario.nodes, watcher, scenario.settings, observer=auditor, check=True)
    result = engine.run(scenario.jobs, scenario.disturbances)
    watcher.check_memory(make_policy())
    if engine.core.anomalies:
        raise AuditError(f"the core saw contradictions: {engine.core.anomalies}")
    if drains:
        for record in result.records.values():
            if record.end_s is None and not record.refused:
                raise AuditError(f"{record} is not over: {engine.core.explain(record.spec.job_id)}")
    again = Engine(scenario.nodes, make_policy(), scenario.settings).run(scenario.jobs, scenario.disturbances)
    if again.records != result.records:
        raise AuditError("a second run gave other records")
    return result


@dataclass(eq=False)
class _Watcher(Around):
    """A policy that passes everything on to another one and checks its decisions."""

    policy: Policy
    conserves: Conserves
    need: Callable[[JobSpec], int]
    protects: Protects
    shift_s: float
    _first: dict[int, Reservation] = field(default_factory=dict)
    _due_s: dict[int, float] = field(default_factory=dict)
    _passes: list[tuple[ClusterView, float, list[Decision]]] = field(default_factory=list)

    def decide(self, view: ClusterView, now: float) -> list[Decision]:
        given = self.policy.decide(view, now)
        view = view.snapshot()
        decisions = in_full(given, view.reservations)
        if (found := self.policy.decide(view, now)) != decisions:
            raise AuditError(f"at {now} s: the same view gives different decisions, {decisions} and {found}")
        check_feasible(view, now, decisions)
        if len(self._passes) >= _MAX_PASSES and self._passes[-_MAX_PASSES][1] == now:
            raise AuditError(f"at {now} s: still something to decide after {_MAX_PASSES} passes at this instant")
        started = {decision.job_id for decision in decisions if isinstance(decision, Start | Share)}
        waiting = tuple(spec for spec in view.queue if spec.job_id not in started)
        after = replace(view, free_nodes=view.free_nodes - _used(decisions), queue=waiting)
        self._check_reasons(after, now, decisions)
        self._check_invariance(view, now)
        self._check_conservation(after, now)
        if self.protects != "nothing":
            self._check_promises(now, decisions)
        if self.protects == "head":
            self._check_head(view, now, decisions)
        self._passes.append((view, now, decisions))
        return given

    def check_memory(self, fresh: Policy) -> None:
        """Let a fresh policy decide the passes in another order.

        Raises:
            AuditError: It decides otherwise, so passes depend on more than their view.
        """
        for view, now, decisions in reversed(self._passes):
            if (found := fresh.decide(view, now)) != decisions:
                raise AuditError(f"at {now} s: without the passes before it decides {found}, not {decisions}")

    def _check_reasons(self, after: ClusterView, now: float, decisions: Sequence[Decision]) -> None:
        reservations = {d.reservation.job_id: d.reservation for d in decisions if isinstance(d, Reserve)}
        first = next(iter(reservations.values()), None)
        for decision in decisions:
            if not isinstance(decision, Reserve | Stand) and not str(decision.reason):
                raise AuditError(f"at {now} s: {decision} gives no reason")
        for spec in after.queue:
            if not self.policy.why_waiting(after, spec, reservations.get(spec.job_id, first)):
                raise AuditError(f"at {now} s: there is no reason why job {spec.job_id} waits")

    def _check_invariance(self, view: ClusterView, now: float) -> None:
        plain = _moved(view, 0.0, rename=False)
        now = _snap(now)
        expected = [_moved_decision(decision, self.shift_s) for decision in self.policy.decide(plain, now)]
        found = self.policy.decide(_moved(view, self.shift_s, rename=True), now + self.shift_s)
        expected, found = ([_plain(decision, view) for decision in decisions] for decisions in (expected, found))
        if found != expected:
            raise AuditError(f"at {now} s: renamed jobs and shifted times give {found}, not {expected}")

    def _check_conservation(self, after: ClusterView, now: float) -> None:
        left = after.free_nodes
        for spec in {"nothing": (), "head": after.queue[:1], "any": after.queue}[self.conserves]:
            if self.need(spec) <= left:
                raise AuditError(f"at {now} s: job {spec.job_id} needs {self.need(spec)} nodes and waits beside {left}")

    def _check_head(self, view: ClusterView, now: float, decisions: Sequence[Decision]) -> None:
        """Keep, for the first job that waits, when it could start by walltimes; jobs behind it do not count."""
        started = {decision.job_id: decision.nodes for decision in decisions if isinstance(decision, Start)}
        for job_id in started:
            if now > self._due_s.get(job_id, math.inf) + _SLACK_S:
                raise AuditError(f"at {now} s: job {job_id} was first and could have run at {self._due_s[job_id]} s")
        ahead = list(itertools.takewhile(lambda spec: spec.job_id in started, view.queue))
        if len(ahead) == len(view.queue):
            return
        head = view.queue[len(ahead)]
        releases = [(job.expected_end_s, job.nodes) for job in view.running]
        releases += [(now + spec.walltime_s, started[spec.job_id]) for spec in ahead]
        free = view.free_nodes - sum(started[spec.job_id] for spec in ahead)
        due_s = now if free >= self.need(head) else math.inf
        for time_s, nodes in sorted(releases):
            free += nodes
            if free >= self.need(head):
                due_s = min(due_s, max(now, time_s))
        self._due_s.setdefault(head.job_id, due_s)

    def _check_promises(self, now: float, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, Reserve) and math.isfinite(decision.reservation.start_s):
                self._first.setdefault(decision.reservation.job_id, decision.reservation)
                first = self._first[decision.reservation.job_id]
                if decision.reservation.start_s > first.start_s + _SLACK_S:
                    raise AuditError(f"at {now} s: {first} moved to {decision.reservation.start_s} s")
            elif isinstance(decision, Start):
                promised = self._first.get(decision.job_id)
                if promised is not None and now > promised.start_s + _SLACK_S:
                    raise AuditError(f"at {now} s: job {decision.job_id} starts late, {promised}")


def check_feasible(view: ClusterView, now: float, decisions: Sequence[Decision]) -> None:
    """Check the decisions of one pass against the view alone.

    Raises:
        AuditError: They use more nodes than are free, break a size's bounds, or order a job that takes no order.
    """
    free = view.free_nodes
    waiting = {spec.job_id: spec for spec in view.queue}
    running = {job.spec.job_id: job for job in view.running}
    started = {decision.job_id for decision in decisions if isinstance(decision, Start | Share)}
    promised = [decision.reservation.job_id for decision in decisions if isinstance(decision, Reserve)]
    if len(set(promised)) < len(promised) or not set(promised) <= set(waiting).difference(started):
        raise AuditError(f"at {now} s: reservations for {promised}, waiting: {sorted(set(waiting) - started)}")
    for decision in decisions:
        what = f"at {now} s, {decision}"
        if isinstance(decision, Reserve | Stand):
            continue
        if decision.nodes < 1:
            raise AuditError(f"{what}: no nodes")
        if isinstance(decision, Start):
            spec = waiting.pop(decision.job_id, None)
            if spec is None or not spec.min_nodes <= decision.nodes <= spec.max_nodes:
                raise AuditError(f"{what}: {spec}")
            free -= decision.nodes
            continue
        if isinstance(decision, Share):
            _check_share(view, now, decision, waiting.pop(decision.job_id, None), running)
            free -= decision.free_nodes
            continue
        job = running.pop(decision.job_id, None)
        if job is None or not job.resizable(now):
            raise AuditError(f"{what}: takes no order: {job}")
        size = job.nodes + (-decision.nodes if isinstance(decision, Shrink) else decision.nodes)
        if not job.spec.min_nodes <= size <= max(job.nodes, job.max_nodes):
            raise AuditError(f"{what}: leads to {size} nodes: {job}")
        free -= decision.nodes if isinstance(decision, Grow) else 0
    if free < 0:
        raise AuditError(f"at {now} s: {decisions} use {-free} nodes more than the {view.free_nodes} free ones")


def _check_share(
    view: ClusterView, now: float, decision: Share, spec: JobSpec | None, running: dict[int, RunningJob]
) -> None:
    """Check that mates can make room; they take part in nothing else in the same pass."""
    what = f"at {now} s, {decision}"
    if spec is None or not spec.is_malleable or not spec.min_nodes <= decision.nodes <= spec.max_nodes:
        raise AuditError(f"{what}: {spec}")
    mates = [running.pop(mate, None) for mate in decision.mates]
    nodes = decision.free_nodes
    for mate in mates:
        if mate is None or not mate.spec.is_malleable or not mate.takes_orders(now) or not mate.is_host:
            raise AuditError(f"{what}: not a mate: {mate}")
        if not mate.may_share:
            raise AuditError(f"{what}: not on these nodes: {mate}")
        if not 0 < decision.cores < (mate.cores if mate.cores is not None else view.cores_per_node):
            raise AuditError(f"{what}: it has too few cores: {mate}")
        nodes += mate.nodes
    if not mates or decision.free_nodes < 0 or nodes != decision.nodes:
        raise AuditError(f"{what}: there are {nodes} nodes")


def _used(decisions: Sequence[Decision]) -> int:
    """The free nodes that are free no more."""
    used = sum(decision.nodes for decision in decisions if isinstance(decision, Start | Grow))
    return used + sum(decision.free_nodes for decision in decisions if isinstance(decision, Share))


def _snap(time_s: float) -> float:
    return round(time_s / _GRAIN_S) * _GRAIN_S if math.isfinite(time_s) else time_s


def _moved(view: ClusterView, shift_s: float, *, rename: bool) -> ClusterView:
    """The same cluster at another time, with other names; all times on a grid, so that nothing is rounded."""

    def spec(job: JobSpec) -> JobSpec:
        walltime_s = max(_GRAIN_S, _snap(job.walltime_s))
        moved = structs.replace(job, submit_s=_snap(job.submit_s) + shift_s, walltime_s=walltime_s)
        if not rename:
            return moved
        return structs.replace(moved, job_id=_renamed(job.job_id), name="x", user=_renamed_user(job.user))

    def running(job: RunningJob) -> RunningJob:
        return structs.replace(
            job,
            spec=spec(job.spec),
            start_s=_snap(job.start_s) + shift_s,
            expected_end_s=_snap(job.expected_end_s) + shift_s,
            resizable_from_s=_snap(job.resizable_from_s) + shift_s,
        )

    def promised(reservation: Reservation) -> Reservation:
        moved = structs.replace(reservation, start_s=_snap(reservation.start_s) + shift_s)
        return structs.replace(moved, job_id=_renamed(reservation.job_id)) if rename else moved

    return replace(
        view,
        queue=tuple(map(spec, view.queue)),
        running=tuple(map(running, view.running)),
        reservations=tuple(map(promised, view.reservations)),
        accuracy={_renamed_user(user) if rename else user: value for user, value in view.accuracy.items()},
    )


def _renamed(job_id: int) -> int:
    return job_id * _ID_FACTOR + _ID_OFFSET


def _renamed_user(user: str) -> str:
    return f"not {user}"


def _plain(decision: Decision, view: ClusterView) -> Decision:
    """Without its words, and without what rounding does to sums of predicted walltimes, which are on no grid."""
    if isinstance(decision, Reserve):
        reservation = decision.reservation
        return Reserve(structs.replace(reservation, start_s=round(reservation.start_s, 3))) if view.scaled else decision
    if isinstance(decision, Stand):
        return decision
    return structs.replace(decision, reason="")


def _moved_decision(decision: Decision, shift_s: float) -> Decision:
    if isinstance(decision, Reserve):
        promise = decision.reservation
        return Reserve(structs.replace(promise, job_id=_renamed(promise.job_id), start_s=promise.start_s + shift_s))
    if isinstance(decision, Stand):
        return decision
    if isinstance(decision, Share):
        decision = structs.replace(decision, mates=tuple(map(_renamed, decision.mates)))
    if isinstance(decision, Shrink):
        whom = tuple((_renamed(job_id), nodes) for job_id, nodes in decision.for_jobs)
        decision = structs.replace(decision, for_jobs=whom)
    return structs.replace(decision, job_id=_renamed(decision.job_id))


# Random scenarios ----------------------------------------------------------------------------------------------------

_LAST_SUBMIT_S = 60
_LAST_DISTURBANCE_S = 400


def random_scenario(seed: int, *, exact: bool = False) -> Scenario:
    """Make a small cluster with a dozen rigid and malleable jobs, in whole seconds, so that many things coincide.

    Some jobs end before their walltime, some after it; some never take orders. Unless ``exact``, starts, resizes and
    ends take time, resizes fail or are put off, jobs are cancelled and ask for nodes or offer some, and nodes go out of
    service; all nodes are back at the end. Nodes are reserved, by number or name, and some reservations are cancelled.

    Args:
        seed: Determines everything.
        exact: Walltimes bound all that jobs do: needed to check what a policy protects.
    """
    rng = random.Random(f"{seed} {exact}")
    nodes = rng.randint(1, 8)
    jobs = tuple(_job(rng, job_id, nodes, exact=exact) for job_id in range(rng.randint(1, 12)))
    cores = random.Random(f"{seed} cores").choice([1, 2, 4, 5])
    if exact:
        return Scenario(nodes, jobs, settings=Settings(cores_per_node=cores))
    happens: list[tuple[float, ev.Event]] = [
        (float(rng.randint(_LAST_SUBMIT_S + 1, _LAST_DISTURBANCE_S)), _disturbance(rng, nodes, len(jobs)))
        for _ in range(rng.randint(0, 5))
    ]
    happens += _reservations(random.Random(f"{seed} reservations"), nodes)
    happens += [(_LAST_DISTURBANCE_S + 1.0, ev.NodeUp(node)) for node in node_names(nodes)]
    settings = Settings(
        pass_interval_s=rng.choice([None, 5.0]),
        cooldown_s=rng.choice([0.0, 3.0]),
        failure_backoff_s=rng.choice([1.0, 30.0]),
        walltime_grace_s=rng.choice([0.0, 2.0]),
        cores_per_node=cores,
        walltime="scaled" if rng.random() < 0.3 else "fixed",
    )
    return Scenario(nodes, jobs, tuple(happens), settings)


def _job(rng: random.Random, job_id: int, largest: int, *, exact: bool) -> Simulated:
    low, preferred, high = sorted(rng.randint(1, largest) for _ in range(3))
    walltime_s, submit_s = float(rng.randint(1, 80)), float(rng.choice([0, rng.randint(0, _LAST_SUBMIT_S)]))
    runtime_s = float(rng.choice([walltime_s, rng.randint(1, 90)]))
    job_class: JobClass = "malleable" if rng.random() < 0.6 else "rigid"
    if job_class == "rigid":
        low = high = preferred
    job = TraceJob(
        job_id=job_id,
        name=f"j{job_id}",
        user=rng.choice("abc"),
        job_class=job_class,
        nodes=preferred,
        min_nodes=low,
        max_nodes=high,
        walltime_s=walltime_s,
        submit_s=submit_s,
        runtime_s=runtime_s,
        rho=rng.choice([0.0, 0.1, 0.3]),
        reservation=""
        if exact
        else random.Random(f"{job_id} {submit_s} {walltime_s}").choice(["", "", "", "r0", "r1"]),
    )
    if exact:
        return job, Dynamics(ready_delay_s=rng.choice([0.0, 0.0, None]))
    return job, Dynamics(
        start_delay_s=_rarely(rng),
        ready_delay_s=rng.choice([0.0, 1.0, 5.0, None]),
        grow_s=_rarely(rng),
        shrink_s=_rarely(rng),
        workers_s=float(job_id % 3),
        defer_s=_rarely(rng),
        failing_orders=frozenset(rng.sample(range(4), rng.randint(0, 2))),
        own_choice=rng.random() < 0.5,
        kill_delay_s=_rarely(rng),
    )


def _reservations(rng: random.Random, nodes: int) -> list[tuple[float, ev.Event]]:
    """None to three reservations, which may follow each other or ask for too much."""
    happens: list[tuple[float, ev.Event]] = []
    for number in range(rng.choice([0, 0, 1, 2, 3])):
        made_s = float(rng.randint(0, _LAST_SUBMIT_S))
        start_s = made_s + rng.choice([0, rng.randint(1, 120)])
        named = tuple(sorted(rng.sample(node_names(nodes), rng.randint(1, nodes))))
        reservation = AdvanceReservation(
            name=f"r{number}",
            start_s=start_s,
            end_s=start_s + rng.randint(1, 100),
            nodes=len(named),
            named=named if rng.random() < 0.4 else (),
            users=rng.choice([(), ("a",), ("a", "b")]),
            jobs=(rng.randrange(12),) if rng.random() < 0.2 else (),
        )
        happens.append((made_s, ev.ReservationMade(reservation)))
        if rng.random() < 0.2:
            happens.append((made_s + rng.randint(0, 150), ev.ReservationCancelled(reservation.name)))
    return happens


def _rarely(rng: random.Random) -> float:
    return rng.choice([0.0, 0.0, 0.0, 2.0, 7.0])


def _disturbance(rng: random.Random, nodes: int, jobs: int) -> ev.Event:
    node, job_id = f"n{rng.randrange(nodes):04d}", rng.randrange(jobs)
    events: list[ev.Event] = [
        ev.NodeDown(node),
        ev.NodeUp(node),
        ev.CancelJob(job_id),
        ev.EvolvingRequest(job_id, rng.randint(-3, 3)),
    ]
    return rng.choice(events)
