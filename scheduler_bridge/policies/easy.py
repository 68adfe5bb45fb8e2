"""EASY backfilling."""

from __future__ import annotations

from scheduler_bridge.policies.backfill import Easy
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import ComposedPolicy, Moldable, by_submission
from scheduler_bridge.policies.registry import register


@register
def easy() -> Policy:
    """EASY backfilling: the first blocked job holds a reservation, and only what does not delay it overtakes.

    A later job starts if by its walltime it ends before the reservation begins, or if it fits into the nodes that the
    reservation leaves spare. Malleable jobs are moldable: they start on as many nodes as they may take, up to their
    maximum, and keep that size.

    Source: Finnerty et al., "On the Performance of Malleable APGAS Programs and Batch Job Schedulers", SN Computer
    Science 5, 2024, section "Job Scheduler", Easy-Backfilling.
    [D] The reservation is computed from walltimes, at the minimum of a malleable job, and the spare nodes count; the
    published code lacks the spare nodes. [D] Jobs that end exactly at the reservation count as ended. [D] A job that
    the nodes in service cannot hold blocks nobody.
    """
    return ComposedPolicy("easy", by_submission, Easy(), Moldable())
