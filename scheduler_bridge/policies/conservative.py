"""Conservative backfilling."""

from __future__ import annotations

from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import ComposedPolicy, Moldable, by_submission
from scheduler_bridge.policies.registry import register
from scheduler_bridge.policies.reservations import EveryReservation


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
