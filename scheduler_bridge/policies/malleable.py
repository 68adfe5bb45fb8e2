"""The malleable algorithm (min-agree)."""

from __future__ import annotations

from scheduler_bridge.policies.backfill import Easy
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import AtMinimum, ComposedPolicy, at_minimum, by_submission
from scheduler_bridge.policies.redistribution import BY_SIZE, ByPriority
from scheduler_bridge.policies.registry import register


@register
def malleable() -> Policy:
    """Malleable algorithm (min-agree): EASY at minimum sizes, shrink the largest to start jobs, grow the smallest.

    (1) EASY backfilling; malleable jobs start at their minimum. (2) Where idle nodes do not suffice for a waiting job,
    the running malleable jobs with most nodes give some, if that lets the job start: first for the first blocked job,
    then for later ones that do not delay its reservation. No more is taken than needed. (3) Nodes still idle go to the
    malleable jobs with fewest nodes; one that starts in the same pass starts larger.

    Source: Finnerty et al., "On the Performance of Malleable APGAS Programs and Batch Job Schedulers", SN Computer
    Science 5, 2024, section "Job Scheduler", Malleable-Algorithm.
    [D] No idle node at all counts as "not enough". [D] The published code never counts down and takes too much. [D]
    The reservation counts nodes that ready malleable jobs can give back, so that growing them never delays it. [D] The
    largest job gives all it can before the next one, and the smallest gets all it can: fewer orders. [D] Nodes on
    their way to a waiting job are not taken for it again, nor given to others.
    """
    return ComposedPolicy("malleable", by_submission, Easy(at_minimum), AtMinimum(), ByPriority(BY_SIZE))
