"""Conservative backfilling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from scheduler_bridge.model import ClusterView, JobSpec, Reservation, wording
from scheduler_bridge.policies.backfill import IN_ORDER, too_few
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import ComposedPolicy, Moldable, StartSize, by_submission
from scheduler_bridge.policies.plan import Plan
from scheduler_bridge.policies.profile import Profile
from scheduler_bridge.policies.registry import register

OVERTAKES: Final = "backfilled: it delays nobody's reservation"


class EveryReservation:
    """Every waiting job holds a reservation, and nobody starts in a way that delays any of them.

    The reservations of the last pass stay; in the order of the queue each job gives its own up for the earliest one
    that delays nobody else's (it finds its old one again at worst), and starts if that is now. A reservation that does
    not hold any more, because a start, an end or a node was late, is made anew. [D] A job that the nodes in service
    cannot hold blocks nobody.

    It does not count on nodes that running jobs could give back: compose it without a redistribution.
    """

    def start(self, plan: Plan, queue: Sequence[JobSpec], size: StartSize) -> None:
        """Start every job whose earliest reservation begins now; promise the others theirs."""
        if not queue:
            return
        profile = plan.profile()
        kept = _keep(plan, queue, profile)
        reason = IN_ORDER
        walltime_s = plan.view.walltime_s
        for spec in queue:
            need = size.need(spec, plan.view.total_nodes)
            length_s = walltime_s(spec, need)
            if (old := kept.get(spec.job_id)) is not None:
                if old.nodes == need and plan.now < old.start_s <= profile.first(need):  # there is no earlier one
                    spare = profile.room(old.start_s, old.start_s + length_s)
                    plan.reservations.append(Reservation(spec.job_id, old.start_s, need, spare))
                    reason = OVERTAKES
                    continue
                profile.take(old.start_s, old.start_s + walltime_s(spec, old.nodes), -old.nodes)
            start_s = profile.earliest(need, length_s)
            if start_s <= plan.now and need <= plan.usable:
                nodes = size.pick(spec, min(plan.usable, profile.room(plan.now, plan.now + length_s)))
                plan.start(spec, nodes, reason)
                profile.take(plan.now, plan.now + walltime_s(spec, nodes), nodes)
                continue
            reason = OVERTAKES
            if math.isfinite(start_s):
                spare = profile.take(start_s, start_s + length_s, need)
                plan.reservations.append(Reservation(spec.job_id, start_s, need, spare))

    def why(self, need: int, view: ClusterView, reservation: Reservation | None, job: JobSpec) -> str:
        """Its own reservation, and what it waits for."""
        if need > view.free_nodes or reservation is None:
            return too_few(need, view, reservation)
        if reservation.job_id != job.job_id:
            return f"it would delay others: {reservation}"
        return f"to start now would delay others; {reservation}, {wording.are(reservation.spare_nodes)} spare then"


def _keep(plan: Plan, queue: Sequence[JobSpec], profile: Profile) -> dict[int, Reservation]:
    """Enter the last pass's reservations that still hold into ``profile``, first come, first served; return them."""
    before = {reservation.job_id: reservation for reservation in plan.view.reservations}
    kept: dict[int, Reservation] = {}
    for spec in queue:
        if (old := before.get(spec.job_id)) is None:
            continue
        start_s = max(plan.now, old.start_s)
        end_s = start_s + plan.view.walltime_s(spec, old.nodes)
        if profile.take(start_s, end_s, old.nodes) >= 0:
            kept[spec.job_id] = Reservation(spec.job_id, start_s, old.nodes, old.spare_nodes)
        else:
            profile.take(start_s, end_s, -old.nodes)
    return kept


@register
def conservative() -> Policy:
    """Conservative backfilling: every waiting job holds a reservation, and overtaking delays none of them.

    A job starts if its walltime fits before and beside all reservations. A reservation moves only forward: when a job
    ends early, the waiting jobs, in the order of the queue, take the earliest start that delays nobody else.

    Source: Mu'alem and Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling
    the IBM SP2 with Backfilling", IEEE Transactions on Parallel and Distributed Systems 12(6), 2001.
    [D] Malleable jobs are moldable, as in ``easy``: they reserve at their minimum, start on as many nodes as delay
    nobody, up to their maximum, and keep that size. [D] The first job of the queue does not start on free nodes that
    a later job's reservation needs during its walltime: what was promised is kept.
    """
    return ComposedPolicy("conservative", by_submission, EveryReservation(), Moldable())
