"""Backfilling without reservations."""

from __future__ import annotations

from scheduler_bridge.policies.backfill import AnyThatFits
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import ComposedPolicy, Moldable, by_submission
from scheduler_bridge.policies.registry import register


@register
def backfilling() -> Policy:
    """Backfilling without fairness: in the order of submission, every job that fits starts; there is no reservation.

    Malleable jobs are moldable: they start on as many nodes as are free, up to their maximum, and keep that size.

    Source: Finnerty et al., "On the Performance of Malleable APGAS Programs and Batch Job Schedulers", SN Computer
    Science 5, 2024, section "Job Scheduler", Backfilling.
    """
    return ComposedPolicy("backfilling", by_submission, AnyThatFits(), Moldable())
