"""The avg strategy."""

from __future__ import annotations

from scheduler_bridge.policies.backfill import Easy
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import AtMinimum, ComposedPolicy, at_minimum, by_submission
from scheduler_bridge.policies.redistribution import SHARE_OF_RANGE, ByPriority
from scheduler_bridge.policies.registry import register


@register
def avg() -> Policy:
    """Avg: EASY at minimum sizes; nodes move one at a time so that all are at the same share of their range.

    (1) EASY backfilling; malleable jobs start at their minimum. (2) Where idle nodes do not suffice for a waiting job,
    running malleable jobs give some, the highest priority first, if that lets the job start. (3) Nodes still idle go
    to running malleable jobs, the lowest priority first. Priority: current minus minimum nodes, divided by maximum
    minus minimum. All malleable jobs take part: each node moves by the priorities that the one before left, and the
    nodes of one job make one order.

    Source: Zojer, Posner, Özden, "Evaluating Malleable Job Scheduling in HPC Clusters using Real-World Workloads",
    2025, section 2.1, Malleable Avg, equation 3.
    [D] The priority is 0 where minimum and maximum are the same. [D] Highest first shrinks and lowest first grows, as
    the paper says; the published code has it the other way round. [D] No idle node at all counts as "not enough", and
    free nodes count towards the start that a shrink enables. [D] No more is taken than needed, and for a job behind
    the first blocked one only if that delays no reservation. [D] The reservation counts nodes that ready malleable
    jobs can give back. [D] Ties go to the smaller job id.
    """
    return ComposedPolicy("avg", by_submission, Easy(at_minimum), AtMinimum(), ByPriority(SHARE_OF_RANGE, evenly=True))
