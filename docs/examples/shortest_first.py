"""A scheduling policy of one's own: the shortest job first."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_bridge.model import ClusterView, JobSpec
from scheduler_bridge.policies.backfill import Easy
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import AtMinimum, ComposedPolicy, at_minimum
from scheduler_bridge.policies.redistribution import ABOVE_MINIMUM, ByPriority
from scheduler_bridge.policies.registry import register


@register
def shortest_first(patience: float = 0.1) -> Policy:
    """Shortest first: jobs with short walltimes come first, and who has waited for long comes before them.

    Parameters: ``patience``, by how many seconds a second of waiting shortens a job's walltime in the comparison.

    Source: shortest job first is as old as batch systems; waiting as a bonus keeps long jobs from starving.
    """

    def order(view: ClusterView, now: float) -> Sequence[JobSpec]:
        return sorted(view.queue, key=lambda spec: spec.walltime_s - patience * (now - spec.submit_s))

    return ComposedPolicy("shortest-first", order, Easy(at_minimum), AtMinimum(), ByPriority(ABOVE_MINIMUM))
