"""An independent account of what the scheduler does: it sees events and effects only, and believes nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, assert_never

from scheduler_bridge.core import events as ev
from scheduler_bridge.model import EVERY_NODE, AdvanceReservation, JobSpec, NodeFilter
from scheduler_bridge.model.allocation import members

_SLACK_S: Final = 1e-6

_Answer: TypeAlias = ev.GrowCompleted | ev.ShrinkCompleted | ev.WorkersChanged | ev.ResizeFailed


class AuditError(AssertionError):
    """The scheduler did what it must not do; the text says what and when."""


class NotKeptError(AssertionError):
    """A job was placed on nodes that are kept for others; the text says which and when."""


@dataclass(slots=True)
class _Account:
    spec: JobSpec
    nodes: set[str]
    before: dict[str, int] = field(default_factory=dict)
    """The cores of its nodes before an order to use others."""
    ready: bool = False
    ending: bool = False
    order: ev.SendOrder | None = None
    losses: int = 0
    end_s: float = 0.0
    """When it must have ended, by its walltime."""

    @property
    def least(self) -> int:
        """Its minimum; one that has lost nodes may hold less."""
        return 1 if self.losses else self.spec.min_nodes


@dataclass(slots=True)
class Auditor:
    """Keeps its own book of nodes, jobs and orders; an ``Observer`` of the engine."""

    nodes: Sequence[str]
    cores_per_node: int = 1
    jobs_per_node: int = 1
    scaled: bool = False
    shared_nodes: NodeFilter = EVERY_NODE
    _uses: dict[str, dict[int, int]] = field(default_factory=dict)
    """Which cores (a bitset) a job uses, by node and job."""
    _down: set[str] = field(default_factory=set)
    _waiting: dict[int, JobSpec] = field(default_factory=dict)
    _accounts: dict[int, _Account] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)
    _asked: dict[str, AdvanceReservation] = field(default_factory=dict)
    _kept: dict[str, frozenset[str]] = field(default_factory=dict)
    """The nodes that are kept for advance reservations."""
    _placed: set[int] = field(default_factory=set)

    def __call__(self, now: float, events: Sequence[ev.Event], effects: Sequence[ev.Effect]) -> None:
        """Book one batch.

        Raises:
            AuditError: A core was given twice, a node has more jobs than the policy declares, a size is out of bounds,
                a job was started twice or unasked, or an order went to a job that is not ready, is busy, or is ending.
            NotKeptError: A job starts on, or gets, a kept node that it could still hold at the start of a reservation
                that it does not belong to; or it starts for its reservation elsewhere, too early or for too long.
        """
        for event in sorted(events, key=lambda event: not isinstance(event, ev.JobEnded)):
            self._book_event(event, now)
        self._book_kept(now, events, effects)
        for effect in effects:
            self._book_effect(effect, f"at {now} s, {effect}", now)

    def _book_event(self, event: ev.Event, now: float) -> None:
        match event:
            case ev.JobSubmitted(job=spec):
                self._waiting[spec.job_id] = spec
                if spec.job_id not in self._accounts:
                    self._seen.discard(spec.job_id)  # it was lost, and is to be run again
            case ev.NodeUp(node=node):
                self._down.discard(node)
            case ev.NodeDown(node=node) | ev.NodeDrained(node=node):
                self._down.add(node)
            case ev.JobEnded(job_id=job_id):
                if (account := self._accounts.pop(job_id, None)) is None:
                    del self._waiting[job_id]  # it was cancelled
                else:
                    self._free(account, account.nodes)
            case ev.JobStarted(job_id=job_id) if job_id in self._accounts:
                self._accounts[job_id].end_s = now + self._accounts[job_id].spec.walltime_s
            case ev.NodesLost(job_id=job_id, nodes=nodes) if job_id in self._accounts:
                self._accounts[job_id].losses += len(nodes)
                self._free(self._accounts[job_id], set(nodes))
            case ev.MalleableReady(job_id=job_id) | ev.MalleableEnded(job_id=job_id) if job_id in self._accounts:
                self._accounts[job_id].ready = isinstance(event, ev.MalleableReady)
            case ev.GrowCompleted() | ev.ShrinkCompleted() | ev.WorkersChanged() | ev.ResizeFailed() if (
                event.job_id in self._accounts
            ):
                self._book_answer(self._accounts[event.job_id], event)
            case _:
                pass

    def _book_answer(self, account: _Account, answer: _Answer) -> None:
        if account.ending or account.order is None:
            return
        order, account.order = account.order, None
        match answer:
            case ev.GrowCompleted():
                self._free(account, set(order.nodes) - set(answer.nodes))
            case ev.ShrinkCompleted():
                self._free(account, set(answer.nodes))
            case ev.WorkersChanged():
                self._book_cores(account, zip(order.nodes, order.core_ids, strict=True), f"{answer}")
            case ev.ResizeFailed() if order.kind == "workers":
                self._book_cores(account, account.before.items(), f"{answer}")
            case ev.ResizeFailed():
                self._free(account, set(order.nodes) if order.kind == "grow" else set())
            case _:
                assert_never(answer)

    def _book_cores(self, account: _Account, cores: Iterable[tuple[str, int]], what: str) -> None:
        for node, used in cores:
            if node in account.nodes:  # else it was lost meanwhile
                self._use(account.spec.job_id, node, used, what)

    def _free(self, account: _Account, nodes: set[str]) -> None:
        for node in nodes:
            del self._uses[node][account.spec.job_id]
        account.nodes = account.nodes - nodes

    def _book_effect(self, effect: ev.Effect, what: str, now: float) -> None:
        match effect:
            case ev.StartJob():
                spec = self._waiting.pop(effect.job_id, None)
                if spec is None or effect.job_id in self._seen:
                    raise AuditError(f"{what}: the job does not wait, or was started before")
                self._seen.add(effect.job_id)
                end_s = now + (spec.walltime_at_s(len(effect.nodes)) if self.scaled else spec.walltime_s)
                self._accounts[effect.job_id] = account = _Account(spec, set(), end_s=end_s)
                self._give(effect.job_id, effect.nodes, what, effect.core_ids)
                self._place(account, effect.nodes, now)
            case ev.SendOrder():
                self._book_order(effect, what, now)
            case ev.KillJob():
                self._accounts[effect.job_id].ending = True
            case ev.Refuse():
                self._waiting.pop(effect.job_id, None)
            case ev.WakeAt() | ev.KeepNodes() | ev.NodeLeft() | ev.RefuseReservation():
                pass
            case _:
                assert_never(effect)

    def _book_order(self, effect: ev.SendOrder, what: str, now: float) -> None:
        account = self._accounts[effect.job_id]
        if not account.ready or account.ending or account.order is not None:
            raise AuditError(f"{what}: the job is not ready, is ending, or has the order {account.order}")
        count = effect.count if effect.kind != "workers" else len(account.nodes)
        if not account.spec.is_malleable or len(set(effect.nodes)) != count or effect.count < 1:
            raise AuditError(f"{what}: not an order for this job")
        account.order = effect
        if effect.kind == "workers":
            self._book_workers(account, effect, what)
        elif effect.kind == "grow":
            self._give(effect.job_id, effect.nodes, what)
            self._place(account, effect.nodes, now)
        elif not set(effect.nodes) <= account.nodes or len(account.nodes) - effect.count < account.least:
            raise AuditError(f"{what}: the job holds {sorted(account.nodes)}, at least {account.spec.min_nodes}")

    def _book_workers(self, account: _Account, effect: ev.SendOrder, what: str) -> None:
        """More cores are the job's from now on, those that it is to give when it has done so."""
        if set(effect.nodes) != account.nodes or effect.count != min(ids.bit_count() for ids in effect.core_ids):
            raise AuditError(f"{what}: the job holds {sorted(account.nodes)}")
        job_id = account.spec.job_id
        account.before = {node: self._uses[node][job_id] for node in effect.nodes}
        for node, cores in zip(effect.nodes, effect.core_ids, strict=True):
            self._use(job_id, node, cores | account.before[node], what)

    def _give(self, job_id: int, nodes: Sequence[str], what: str, cores: Sequence[int] = ()) -> None:
        account = self._accounts[job_id]
        for index, node in enumerate(nodes):
            if node in self._down or job_id in self._uses.get(node, {}):
                raise AuditError(f"{what}: {node} is down, or the job's already")
            self._use(job_id, node, cores[index] if cores else (1 << self.cores_per_node) - 1, what)
            account.nodes.add(node)
        if not account.least <= len(account.nodes) <= account.spec.max_nodes:
            raise AuditError(f"{what}: {len(account.nodes)} nodes, out of bounds")

    def _use(self, job_id: int, node: str, cores: int, what: str) -> None:
        uses = self._uses.setdefault(node, {})
        others = sum(used for job, used in uses.items() if job != job_id)  # as those are disjoint
        uses[job_id] = cores
        if not 0 < cores < 1 << self.cores_per_node or cores & others or len(uses) > self.jobs_per_node:
            ids = {job: list(members(used)) for job, used in uses.items()}
            raise AuditError(f"{what}: of the {self.cores_per_node} cores of {node}, jobs use {ids}")
        if len(uses) > 1 and node not in self.shared_nodes:
            raise AuditError(f"{what}: {node} is shared, which is none of {self.shared_nodes}")

    # advance reservations: who is placed on nodes that are kept, and for how long ------------------------------------

    def _book_kept(self, now: float, events: Sequence[ev.Event], effects: Sequence[ev.Effect]) -> None:
        for event in events:
            if isinstance(event, ev.ReservationMade):
                self._asked.setdefault(event.reservation.name, event.reservation)
            elif isinstance(event, ev.ReservationCancelled):
                self._forget(event.name)
        for effect in effects:
            if isinstance(effect, ev.KeepNodes) and effect.name in self._asked:  # else it was cancelled at once
                self._kept[effect.name] = frozenset(effect.nodes)
        for name in [name for name, asked in self._asked.items() if asked.end_s <= now or name not in self._kept]:
            self._forget(name)

    def _forget(self, name: str) -> None:
        self._asked.pop(name, None)
        self._kept.pop(name, None)

    def _place(self, account: _Account, nodes: Sequence[str], now: float) -> None:
        spec, end_s = account.spec, account.end_s
        job_id = spec.job_id
        for name, kept in self._kept.items():
            asked = self._asked[name]
            taken = kept.intersection(nodes)
            owner = (spec.reservation == name and asked.admits(spec.user)) or job_id in asked.jobs
            if owner and now >= asked.start_s and len(taken) == len(nodes):
                continue
            if taken and end_s > asked.start_s + _SLACK_S:
                raise NotKeptError(f"at {now} s: job {job_id} gets {sorted(taken)} until {end_s} s, kept as {asked}")
            if owner and now < asked.end_s and job_id not in self._placed:
                raise NotKeptError(
                    f"at {now} s: job {job_id} does not start as and where its reservation says: {asked}"
                )
        self._placed.add(job_id)
