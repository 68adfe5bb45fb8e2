"""Which waiting jobs start: in order only, whatever fits, or what does not delay the first blocked job."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scheduler_bridge.model import Because, ClusterView, JobSpec, Line, Reservation, wording
from scheduler_bridge.policies.compose import StartSize
from scheduler_bridge.policies.plan import Floor, Plan, endings

IN_ORDER = "first in the queue"


class InOrder:
    """No job overtakes: the pass stops at the first job that does not fit."""

    def start(self, plan: Plan, queue: Sequence[JobSpec], size: StartSize) -> None:
        """Start jobs in order until one does not fit; that one's reservation is only reported, it protects nothing."""
        if (standing := _standing(plan, queue)) is not None:
            plan.reservations.append(standing)
            return
        line = plan.line(queue, size.need)
        if (blocked := start_in_order(plan, line, size)) is not None:
            plan.reservations.append(plan.reserve(blocked, line.need, floor=None))

    def stands_until(self, view: ClusterView, now: float) -> float:
        """The first one's reservation is the same until a running job is expected to end."""
        return first_end_s(view, now)

    def why(self, need: int, view: ClusterView, reservation: Reservation | None, job: JobSpec) -> str:
        """Too few nodes for the first; the others wait for the first."""
        if reservation is not None and reservation.job_id != job.job_id:
            return f"job {reservation.job_id} is first in the queue and none overtakes"
        return too_few(need, view, reservation)


class AnyThatFits:
    """Every job that fits starts, in order, without reservations: large jobs may wait for long [2024 paper]."""

    def start(self, plan: Plan, queue: Sequence[JobSpec], size: StartSize) -> None:
        """Start every job of the queue that fits when its turn comes."""
        line = plan.line(queue, size.need)
        if plan.usable > 0 and start_in_order(plan, line, size) is not None:
            start_fitting(plan, line, size)

    def stands_until(self, view: ClusterView, now: float) -> float:  # noqa: ARG002 - part of the protocol
        """The time decides nothing."""
        return math.inf

    def why(self, need: int, view: ClusterView, reservation: Reservation | None, job: JobSpec) -> str:  # noqa: ARG002 - part of the protocol
        """Too few nodes."""
        return too_few(need, view, None)


@dataclass(frozen=True, slots=True)
class Easy:
    """The first blocked job holds a reservation; later jobs start if they do not delay it.

    A later job starts if by its walltime it ends before the reservation begins, or if it fits into the nodes that the
    reservation leaves spare. [D] A job that the nodes in service cannot hold (nodes are down) blocks no other.

    Attributes:
        floor: Nodes of a ready malleable job above this size count as available for the reservation. Set it if a
            redistribution takes them back, to the size down to which it does.
    """

    floor: Floor | None = None

    def start(self, plan: Plan, queue: Sequence[JobSpec], size: StartSize) -> None:
        """Start jobs in order; reserve for the first that is blocked; let later ones overtake where that is harmless.

        A job that only waits for nodes that are being released is promised them, so that later jobs leave them alone.
        """
        if self.floor is None and plan.view.arrived and (standing := _standing(plan, queue)) is not None:
            self._consider_arrived(plan, standing, size)
            return
        line, reserved = plan.line(queue, size.need), None
        while reserved is None and (blocked := start_in_order(plan, line, size)) is not None:
            reserved = self._block(plan, blocked, line.need)
        while reserved is not None and (room := plan.soon) > 0:
            spec = line.next_fitting(1, room, plan.spare, plan.now, reserved.start_s)
            if spec is None:
                return
            self._overtake(plan, spec, line.need, size)

    @classmethod
    def _consider_arrived(cls, plan: Plan, standing: Reservation, size: StartSize) -> None:
        """Let those overtake that have just been submitted: who could not before cannot now, for it is later."""
        plan.reservations.append(standing)
        plan.spare = standing.spare_nodes
        for spec in plan.view.arrived or ():
            need = size.need(spec, plan.view.total_nodes)
            if need <= plan.soon:
                cls._overtake(plan, spec, need, size)

    def _block(self, plan: Plan, spec: JobSpec, need: int) -> Reservation | None:
        """Reserve for a job that finds too few nodes, if the nodes in service can hold it."""
        reservation = plan.reserve(spec, need, floor=self.floor)
        if reservation.start_s == math.inf:
            return None
        plan.reservations.append(reservation)
        plan.spare = reservation.spare_nodes
        if need <= plan.soon:
            plan.promise(spec, need)
        return reservation

    @staticmethod
    def _overtake(plan: Plan, spec: JobSpec, need: int, size: StartSize) -> None:
        end_s, usable = plan.now + plan.view.walltime_s(spec, need), plan.usable
        if need <= (room := plan.room_until(end_s, usable)):
            nodes = size.pick(spec, room)
            plan.charge_until(end_s, nodes)
            plan.start(spec, nodes, Because("backfilled: {} and stay so", (plan.reservations[0],)))
        elif usable < need <= plan.room_until(end_s, plan.soon):
            plan.charge_until(end_s, need)
            plan.promise(spec, need)

    def stands_until(self, view: ClusterView, now: float) -> float:
        """The reservation is the same until a running job is expected to end; who would delay it now would later."""
        return now if self.floor is not None else first_end_s(view, now)

    def why(self, need: int, view: ClusterView, reservation: Reservation | None, job: JobSpec) -> str:
        """Too few nodes, or it would delay the reservation."""
        if need > view.free_nodes or reservation is None:
            return too_few(need, view, reservation)
        if reservation.job_id == job.job_id:
            return f"the nodes for it are being released; {reservation}"
        return f"it would delay job {reservation.job_id}: {reservation}, {wording.are(reservation.spare_nodes)} spare"


def start_in_order(plan: Plan, line: Line, size: StartSize) -> JobSpec | None:
    """Start the jobs of ``line`` until one does not fit; return that one, which needs ``line.need`` nodes."""
    while (spec := line.next()) is not None and line.need <= (usable := plan.usable):
        plan.start(spec, size.pick(spec, usable), IN_ORDER)
    return spec


def start_fitting(plan: Plan, line: Line, size: StartSize) -> None:
    """Start every further job of ``line`` that fits, whomever it delays."""
    while (room := plan.usable) > 0 and (spec := line.next_fitting(1, room, room, plan.now, plan.now)) is not None:
        plan.start(spec, size.pick(spec, room), "backfilled: it fits into the free nodes")


def _standing(plan: Plan, queue: Sequence[JobSpec]) -> Reservation | None:
    """The first blocked job's reservation, if a new one would be the same.

    That is so after a pass that started nothing, if only submissions came since and the reservation lies ahead: the
    same nodes come free at the same times.
    """
    view = plan.view
    if view.arrived is None or plan.releasing or queue is not view.queue or not (promises := view.reservations):
        return None
    standing = promises[0]
    return standing if plan.now < standing.start_s < math.inf else None


def first_end_s(view: ClusterView, now: float) -> float:
    """When the first running job is expected to end, if no job is resized meanwhile: until then reservations stay."""
    if view.releasing_nodes:
        return now
    times_s = view.index(endings(None, view.scaled)).times_s
    return times_s[0] if times_s else math.inf


def too_few(need: int, view: ClusterView, reservation: Reservation | None) -> str:
    """Word that a job that needs ``need`` nodes finds too few, and what stands in its way."""
    text = f"it needs {wording.nodes(need)}, {wording.are(view.free_nodes)} free"
    if need > view.total_nodes:
        return f"{text} and only {view.total_nodes} in service"
    return text if reservation is None else f"{text}; {reservation}"
