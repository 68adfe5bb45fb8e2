"""The recorder: watches the events that reach a ``SchedulerCore`` and the effects that it answers with.

It is pure, so a live run, a simulated one and a replayed log leave the same record. What only the outside knows (the
seconds that a job measured, its result) is added by the ``note_*`` methods.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from scheduler_bridge.core import events as ev
from scheduler_bridge.model.allocation import listed
from scheduler_bridge.record.model import (
    Advance,
    JobRecord,
    JobState,
    Reserved,
    ResizeOutcome,
    ResizeRecord,
    RunRecord,
    Segment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler_bridge.model import AdvanceReservation, JobSpec


@dataclass
class _Watched:
    """A job of the record and what is still open about it."""

    record: JobRecord
    held: tuple[str, ...] = ()
    since_s: float = 0.0
    promised: dict[str, float] = field(default_factory=dict)
    cores: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Of nodes of which it may not use all cores: which part of them, and which ones."""
    ordered_cores: dict[str, tuple[float, str]] = field(default_factory=dict)
    is_guest: bool = False

    def change(self, nodes: Iterable[str], now_s: float) -> None:
        """Close the current segment and go on with ``nodes``."""
        if self.held and now_s > self.since_s:
            self.record.segments.append(self.segment(now_s))
        self.held = tuple(nodes)
        self.since_s = now_s

    def segment(self, to_s: float) -> Segment:
        """The current segment, as if it ended at ``to_s``."""
        if not self.cores:
            return Segment(self.since_s, to_s, self.held, is_guest=self.is_guest)
        shares, cores = zip(*(self.cores.get(node, (1.0, "")) for node in self.held), strict=True)
        if len(set(cores)) == 1:
            cores = cores[:1]
        if "" in cores:  # it has grown since, and so has all of them
            cores = ()
        if len(set(shares)) == 1:
            return Segment(self.since_s, to_s, self.held, shares[0], self.is_guest, core_ids=cores)
        return Segment(self.since_s, to_s, self.held, sum(shares) / len(shares), self.is_guest, tuple(shares), cores)


class Recorder:
    """Builds a ``RunRecord``; ``observe`` is called with every event that the core handled, in order.

    Args:
        nodes: All nodes of the cluster, in the order of the picture.
        policy: Name of the policy that decides.
        started_at: When the clock of ``now``, and the record, was at 0, as an ISO date.
        cores_per_node: Cores of each node.
        since_s: What was over before this moment of the record is forgotten, so that a part of a long run takes little
            memory.
    """

    def __init__(
        self,
        nodes: Sequence[str],
        policy: str,
        *,
        started_at: str = "",
        cores_per_node: int = 1,
        since_s: float = -math.inf,
    ) -> None:
        self._cores_per_node = cores_per_node
        self._since_s = since_s
        self._record = RunRecord(policy=policy, nodes=list(nodes), started_at=started_at)
        self._jobs: dict[int, _Watched] = {}
        self._down: dict[str, float] = {}
        self._asked: dict[str, AdvanceReservation] = {}
        self._kept: dict[str, int] = {}

    def observe(self, now: float, events: Iterable[ev.Event], effects: Iterable[ev.Effect] = ()) -> None:
        """Take in what happened at ``now``, in the order in which it was handled, and what the core answered to it."""
        self._record.end_s = max(self._record.end_s, now)
        for event in events:
            self._event(event, now)
        for effect in effects:
            self._effect(effect, now)

    def note_measured(self, job_id: int, order: int, seconds: float | None, phases: Mapping[str, float]) -> None:
        """Add what the job measured of an order, if anything: ``seconds`` in all and per phase."""
        resize = self._resize(job_id, order)
        if resize is not None and seconds is not None:
            resize.seconds = seconds
            resize.phases = dict(phases)

    def note_outcome(self, job_id: int, order: int, outcome: ResizeOutcome, reason: str = "") -> None:
        """Say more exactly how an order ended than the core needs to know (refused, aborted, not due)."""
        resize = self._resize(job_id, order)
        if resize is not None:
            resize.outcome = outcome
            resize.reason = reason or resize.reason

    def note_result(self, job_id: int, result: Mapping[str, Any]) -> None:
        """Add the JSON document that a job wrote; its ``verified`` becomes the job's."""
        watched = self._jobs.get(job_id)
        if watched is not None:
            watched.record.result = dict(result)
            verified = result.get("verified")
            watched.record.verified = verified if isinstance(verified, bool) else None

    def note_after(
        self, job_id: int, after_ok: tuple[int, ...], after_any: tuple[int, ...], requested_s: float
    ) -> None:
        """Say which jobs a job was to come after, and when it was asked for."""
        watched = self._jobs.get(job_id)
        if watched is not None:
            watched.record.after_ok, watched.record.after_any = after_ok, after_any
            watched.record.requested_s = requested_s

    def note(self, text: str) -> None:
        """Add a remark that belongs on every picture of this run (emulation, synthetic data, time scaling)."""
        if text not in self._record.notes:
            self._record.notes.append(text)

    def record(self) -> RunRecord:
        """Return the record so far, with what is open closed at the last observation.

        Later observations do not change what was returned.
        """
        return msgspec.convert(msgspec.to_builtins(self._part(-math.inf, self._record.end_s)), RunRecord)

    def recent(self, since_s: float) -> RunRecord:
        """Return a part of the record, cheaply: what is open, and what has reached beyond ``since_s``.

        Open segments and reservations end at infinity. What needs no change is shared with this recorder, so the result
        is to be used before the next observation.
        """
        return self._part(since_s, math.inf)

    def _part(self, since_s: float, until_s: float) -> RunRecord:
        """What has reached beyond ``since_s``, and what is open as if it ended at ``until_s``."""
        part = msgspec.structs.replace(self._record, jobs=[])
        part.advance = [kept for kept in self._record.advance if kept.to_s > since_s]
        part.reserved = [taken for taken in self._record.reserved if taken.to_s > since_s]
        for watched in self._jobs.values():
            job = watched.record
            if job.end_s is not None and job.end_s <= since_s:
                continue
            if not (job.segments or watched.held or watched.promised):
                part.jobs.append(job)  # It waits, as most of a long queue do.
                continue
            segments = [segment for segment in job.segments if segment.to_s > since_s]
            if watched.held and until_s > watched.since_s:
                segments.append(watched.segment(until_s))
            part.jobs.append(msgspec.structs.replace(job, segments=segments))
            promised = [Reserved(node, from_s, until_s, job.job_id) for node, from_s in watched.promised.items()]
            part.reserved += [taken for taken in promised if until_s > taken.from_s]
        part.reserved += [Reserved(node, down_s, until_s, None) for node, down_s in self._down.items()]
        return part

    # events ---------------------------------------------------------------------------------------------------------

    def _event(self, event: ev.Event, at_s: float) -> None:  # noqa: C901 - one arm an event
        match event:
            case ev.JobSubmitted(job=spec) if spec.job_id in self._jobs:
                again = self._jobs[spec.job_id].record  # It was lost, or held back, and waits once more.
                again.state, again.reason = "waiting", ""
                again.start_s = again.ready_s = again.end_s = again.result = again.verified = None
                again.restarts_s = ()
            case ev.JobSubmitted(job=spec):
                self._jobs[spec.job_id] = _Watched(record_of(spec, at_s))
            case ev.JobStarted(job_id=job_id):
                self._started(job_id, at_s)
            case ev.MalleableReady(job_id=job_id):
                ready = self._jobs[job_id].record
                ready.ready_s = at_s if ready.ready_s is None else ready.ready_s
            case ev.JobEnded(job_id=job_id, outcome=outcome, reason=reason):
                self._ended(job_id, outcome, reason, at_s)
            case ev.JobInterrupted(job_id=job_id, reason=reason):
                interrupted = self._stopped(job_id, reason, at_s)
                interrupted.restarts_s = (*interrupted.restarts_s, at_s)
            case ev.GrowCompleted() | ev.ShrinkCompleted():
                self._resized(event.job_id, event.order, event.nodes, at_s)
            case ev.WorkersChanged(job_id=job_id):
                sharer = self._jobs[job_id]
                sharer.change(sharer.held, at_s)
                sharer.cores = sharer.ordered_cores
            case ev.ResizeFailed(job_id=job_id, order=order, reason=reason):
                self._failed(job_id, order, reason, at_s)
            case ev.ResizeDeferred(job_id=job_id, order=order, reason=reason):
                resize = self._resize(job_id, order)
                if resize is not None:
                    resize.reason = f"deferred: {reason}" if reason else "deferred"
            case ev.NodesLost(job_id=job_id, nodes=nodes):
                watched = self._jobs.get(job_id)
                if watched is not None:
                    watched.change([node for node in watched.held if node not in nodes], at_s)
            case ev.NodeDown(node=node):
                self._down.setdefault(node, at_s)
            case ev.NodeUp(node=node):
                if node not in self._record.nodes:
                    self._record.nodes.append(node)
                since_s = self._down.pop(node, None)
                if since_s is not None:
                    self._record.reserved.append(Reserved(node, since_s, at_s, None))
            case ev.ReservationMade(reservation=reservation):
                self._asked[reservation.name] = reservation
            case ev.ReservationCancelled(name=name):
                self._cancelled(name, at_s)
            case _:  # The others move no node: wake-ups, requests.
                pass

    def _keep(self, name: str, nodes: tuple[str, ...], at_s: float) -> None:
        """Nodes are kept, or others than before."""
        advance, place = self._record.advance, self._kept.get(name)
        if place is not None and advance[place].to_s > at_s:
            advance[place] = msgspec.structs.replace(advance[place], nodes=nodes)
            return
        if (asked := self._asked.get(name)) is None:
            return  # It was cancelled at the instant at which it was made.
        self._kept[name] = len(advance)
        advance.append(Advance(name, asked.start_s, asked.end_s, nodes))

    def _cancelled(self, name: str, at_s: float) -> None:
        self._asked.pop(name, None)
        if (place := self._kept.get(name)) is not None and at_s < self._record.advance[place].to_s:
            before = self._record.advance[place]
            self._record.advance[place] = msgspec.structs.replace(before, to_s=max(at_s, before.from_s))

    def _started(self, job_id: int, at_s: float) -> None:
        watched = self._jobs[job_id]
        if watched.record.start_s is None:
            watched.record.start_s = at_s
        watched.record.state = "running"
        nodes = tuple(watched.promised)
        self._redeem(watched, at_s)
        watched.change(nodes, at_s)

    def _ended(self, job_id: int, outcome: JobState, reason: str, at_s: float) -> None:
        job = self._stopped(job_id, "the job ended first", at_s)
        job.end_s = at_s
        job.state = outcome
        job.reason = reason
        if at_s < self._since_s:
            del self._jobs[job_id]

    def _stopped(self, job_id: int, reason: str, at_s: float) -> JobRecord:
        """Nothing of a job runs any more; an order under way was not carried out."""
        watched = self._jobs[job_id]
        watched.change((), at_s)
        self._redeem(watched, at_s)
        for resize in watched.record.resizes:
            if resize.outcome == "pending":
                resize.outcome, resize.done_s, resize.reason = "aborted", at_s, reason
        return watched.record

    def _resized(self, job_id: int, order: int, nodes: Sequence[str], at_s: float) -> None:
        watched = self._jobs[job_id]
        resize = self._resize(job_id, order)
        if resize is None:
            return
        resize.outcome, resize.done_s, resize.nodes = "done", at_s, tuple(nodes)
        if resize.kind == "grow":
            self._redeem(watched, at_s)
            watched.change((*watched.held, *nodes), at_s)
        else:
            gone = set(nodes)
            watched.change((node for node in watched.held if node not in gone), at_s)

    def _failed(self, job_id: int, order: int, reason: str, at_s: float) -> None:
        self._redeem(self._jobs[job_id], at_s)
        resize = self._resize(job_id, order)
        if resize is not None:
            resize.outcome, resize.done_s, resize.reason = "aborted", at_s, reason

    def _redeem(self, watched: _Watched, at_s: float) -> None:
        for node, since_s in watched.promised.items():
            if at_s > max(since_s, self._since_s):
                self._record.reserved.append(Reserved(node, since_s, at_s, watched.record.job_id))
        watched.promised = {}

    def _resize(self, job_id: int, order: int) -> ResizeRecord | None:
        watched = self._jobs.get(job_id)
        if watched is None:
            return None
        return next((resize for resize in watched.record.resizes if resize.order == order), None)

    def _cores(self, effect: ev.StartJob | ev.SendOrder) -> dict[str, tuple[float, str]]:
        if not effect.core_ids:  # it may use all
            return {}
        used = zip(effect.nodes, effect.core_ids, strict=True)
        return {node: (ids.bit_count() / self._cores_per_node, listed(ids)) for node, ids in used}

    # effects --------------------------------------------------------------------------------------------------------

    def _effect(self, effect: ev.Effect, at_s: float) -> None:
        match effect:
            case ev.StartJob(job_id=job_id, nodes=nodes):
                job = self._jobs[job_id]
                job.promised = dict.fromkeys(nodes, at_s)
                job.cores = self._cores(effect)
                if job.record.start_s is None:  # else it is started again
                    job.is_guest = bool(job.cores)
            case ev.SendOrder(job_id=job_id, kind="workers"):
                self._jobs[job_id].ordered_cores = self._cores(effect)  # it moves no nodes
            case ev.SendOrder(job_id=job_id, order=order, kind="grow" | "shrink" as kind, nodes=nodes, count=count):
                watched = self._jobs[job_id]
                watched.record.resizes.append(
                    ResizeRecord(order=order, kind=kind, count=count, ordered_s=at_s, nodes=tuple(nodes))
                )
                if kind == "grow":
                    watched.promised = dict.fromkeys(nodes, at_s)
            case ev.NodeLeft(node=node):
                self._down.setdefault(node, at_s)
            case ev.KeepNodes(name=name, nodes=nodes):
                self._keep(name, nodes, at_s)
            case ev.Refuse(job_id=job_id, reason=reason):
                refused = self._jobs.get(job_id)
                if refused is not None and refused.record.start_s is None:
                    refused.record.state, refused.record.reason = "refused", reason
            case _:  # A kill shows in the job's end, a wake-up in nothing.
                pass


def record_of(spec: JobSpec, submit_s: float) -> JobRecord:
    """The record of a job that waits."""
    return JobRecord(
        job_id=spec.job_id,
        name=spec.label,
        user=spec.user,
        job_class=spec.job_class,
        nodes=spec.nodes,
        min_nodes=spec.min_nodes,
        max_nodes=spec.max_nodes,
        walltime_s=spec.walltime_s,
        submit_s=submit_s,
        command=tuple(spec.command),
        rho=spec.rho,
    )
