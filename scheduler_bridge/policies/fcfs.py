"""First come, first served."""

from __future__ import annotations

from scheduler_bridge.policies.backfill import InOrder
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import ComposedPolicy, Moldable, by_submission
from scheduler_bridge.policies.registry import register


@register
def fcfs() -> Policy:
    """First come, first served: jobs start in the order of their submission, nobody overtakes.

    Malleable jobs are moldable: they start on as many nodes as are free, up to their maximum, and keep that size.

    Source: Finnerty et al., "On the Performance of Malleable APGAS Programs and Batch Job Schedulers", SN Computer
    Science 5, 2024, section "Job Scheduler", First Come First Served.
    [D] A malleable job starts as soon as its minimum is free.
    """
    return ComposedPolicy("fcfs", by_submission, InOrder(), Moldable())
