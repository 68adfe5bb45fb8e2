"""The min strategy."""

from __future__ import annotations

from scheduler_bridge.policies.backfill import Easy
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import AtMinimum, ComposedPolicy, at_minimum, by_submission
from scheduler_bridge.policies.redistribution import ABOVE_MINIMUM, ByPriority
from scheduler_bridge.policies.registry import register


@register
def min_() -> Policy:
    """Min: EASY at minimum sizes; who is furthest above its minimum shrinks, who is least above it grows.

    (1) EASY backfilling; malleable jobs start at their minimum. (2) Where idle nodes do not suffice for a waiting job,
    running malleable jobs give some, the highest priority first, if that lets the job start. (3) Nodes still idle go
    to running malleable jobs, the lowest priority first. Priority: current minus minimum nodes. As few jobs as
    possible are resized: each gives or gets all it can before the next one does.

    Source: Zojer, Posner, Özden, "Evaluating Malleable Job Scheduling in HPC Clusters using Real-World Workloads",
    2025, section 2.1, Malleable Min, equation 1.
    [D] No idle node at all counts as "not enough", and free nodes count towards the start that a shrink enables. [D]
    No more is taken than needed, and for a job behind the first blocked one only if that delays no reservation. [D]
    The reservation counts nodes that ready malleable jobs can give back. [D] Ties go to the smaller job id.
    """
    return ComposedPolicy("min", by_submission, Easy(at_minimum), AtMinimum(), ByPriority(ABOVE_MINIMUM))
