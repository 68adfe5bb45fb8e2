"""An independent account of what the scheduler does: it sees events and effects only, and believes nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, assert_never

from scheduler_bridge.core.effects import Effect, KillJob, Refuse, SendOrder, StartJob, WakeAt
from scheduler_bridge.core.events import (
    Event,
    GrowCompleted,
    JobEnded,
    JobSubmitted,
    MalleableEnded,
    MalleableReady,
    NodeDown,
    NodeUp,
    ResizeFailed,
    ShrinkCompleted,
)
from scheduler_bridge.model import JobSpec


class AuditError(AssertionError):
    """The scheduler did what it must not do; the text says what and when."""


@dataclass(slots=True)
class _Account:
    spec: JobSpec
    nodes: set[str]
    ready: bool = False
    ending: bool = False
    order: tuple[int, Literal["grow", "shrink"], tuple[str, ...]] | None = None


@dataclass(slots=True)
class Auditor:
    """Keeps its own book of nodes, jobs and orders; an ``Observer`` of the engine.

    Attributes:
        nodes: The cluster's nodes.
    """

    nodes: Sequence[str]
    _holder: dict[str, int] = field(default_factory=dict)
    _down: set[str] = field(default_factory=set)
    _waiting: dict[int, JobSpec] = field(default_factory=dict)
    _accounts: dict[int, _Account] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)

    def __call__(self, now: float, events: Sequence[Event], effects: Sequence[Effect]) -> None:
        """Book one batch.

        Raises:
            AuditError: A node was given twice, a size is out of bounds, a job was started twice or unasked, or an
                order went to a job that is not ready, is being resized, or is ending.
        """
        for event in sorted(events, key=lambda event: not isinstance(event, JobEnded)):
            self._book_event(event)
        for effect in effects:
            self._book_effect(effect, f"at {now} s, {effect}")

    def _book_event(self, event: Event) -> None:
        match event:
            case JobSubmitted(job=spec):
                self._waiting[spec.job_id] = spec
            case NodeUp(node=node):
                self._down.discard(node)
            case NodeDown(node=node):
                self._down.add(node)
            case JobEnded(job_id=job_id):
                account = self._accounts.pop(job_id)
                self._free(account, account.nodes)
            case MalleableReady(job_id=job_id) | MalleableEnded(job_id=job_id) if job_id in self._accounts:
                self._accounts[job_id].ready = isinstance(event, MalleableReady)
            case GrowCompleted() | ShrinkCompleted() | ResizeFailed() if event.job_id in self._accounts:
                self._book_answer(self._accounts[event.job_id], event)
            case _:
                pass

    def _book_answer(self, account: _Account, answer: GrowCompleted | ShrinkCompleted | ResizeFailed) -> None:
        if account.ending or account.order is None:
            return
        _, kind, nodes = account.order
        account.order = None
        match answer:
            case GrowCompleted():
                self._free(account, set(nodes) - set(answer.nodes))
            case ShrinkCompleted():
                self._free(account, set(answer.nodes))
            case ResizeFailed():
                self._free(account, set(nodes) if kind == "grow" else set())
            case _:
                assert_never(answer)

    def _free(self, account: _Account, nodes: set[str]) -> None:
        for node in nodes:
            del self._holder[node]
        account.nodes = account.nodes - nodes

    def _book_effect(self, effect: Effect, what: str) -> None:
        match effect:
            case StartJob():
                spec = self._waiting.pop(effect.job_id, None)
                if spec is None or effect.job_id in self._seen:
                    raise AuditError(f"{what}: the job does not wait, or was started before")
                self._seen.add(effect.job_id)
                self._accounts[effect.job_id] = _Account(spec, set())
                self._give(effect.job_id, effect.nodes, what)
            case SendOrder():
                self._book_order(effect, what)
            case KillJob():
                self._accounts[effect.job_id].ending = True
            case Refuse():
                self._waiting.pop(effect.job_id, None)
            case WakeAt():
                pass
            case _:
                assert_never(effect)

    def _book_order(self, effect: SendOrder, what: str) -> None:
        account = self._accounts[effect.job_id]
        if not account.ready or account.ending or account.order is not None:
            raise AuditError(f"{what}: the job is not ready, is ending, or has the order {account.order}")
        if not account.spec.is_malleable or len(set(effect.nodes)) != effect.count or effect.count < 1:
            raise AuditError(f"{what}: not an order for this job")
        account.order = (effect.order, effect.kind, effect.nodes)
        if effect.kind == "grow":
            self._give(effect.job_id, effect.nodes, what)
        elif not set(effect.nodes) <= account.nodes or len(account.nodes) - effect.count < account.spec.min_nodes:
            raise AuditError(f"{what}: the job holds {sorted(account.nodes)}, at least {account.spec.min_nodes}")

    def _give(self, job_id: int, nodes: Sequence[str], what: str) -> None:
        account = self._accounts[job_id]
        for node in nodes:
            if node in self._holder or node in self._down:
                raise AuditError(f"{what}: {node} is held by job {self._holder.get(node)}, or down")
            self._holder[node] = job_id
            account.nodes.add(node)
        if not account.spec.min_nodes <= len(account.nodes) <= account.spec.max_nodes:
            raise AuditError(f"{what}: {len(account.nodes)} nodes, out of bounds")
