"""The strategies of the 2025 paper: min, pref, avg and keep-pref."""

from __future__ import annotations

from scheduler_bridge.policies.backfill import Easy
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import (
    AtMinimum,
    ComposedPolicy,
    OnlyPreferred,
    Preferred,
    at_minimum,
    at_preferred,
    by_submission,
)
from scheduler_bridge.policies.redistribution import ABOVE_MINIMUM, ABOVE_PREFERRED, SHARE_OF_RANGE, ByPriority
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


@register
def pref() -> Policy:
    """Pref: EASY at preferred sizes, or fewer; who is furthest above its preferred size shrinks, furthest below grows.

    (1) EASY backfilling; a malleable job starts on its preferred nodes (the size it asked for), or on what there is,
    at least its minimum. (2) Where idle nodes do not suffice for a waiting job, running malleable jobs give some, the
    highest priority first, down to their minimum, if that lets the job start. (3) Nodes still idle go to running
    malleable jobs, the lowest priority first, up to their maximum. Priority: current minus preferred nodes. As few jobs
    as possible are resized: each gives or gets all it can before the next one does.

    Source: Zojer, Posner, Özden, "Evaluating Malleable Job Scheduling in HPC Clusters using Real-World Workloads",
    2025, section 2.1, Malleable Pref, equation 2.
    [D] Jobs shrink only for the minimum of a waiting job, not for its preferred size. [D] No idle node at all counts
    as "not enough", and free nodes count towards the start that a shrink enables. [D] No more is taken than needed,
    and for a job behind the first blocked one only if that delays no reservation. [D] The reservation is at the
    minimum and counts nodes that ready malleable jobs can give back. [D] Ties go to the smaller job id.
    """
    return ComposedPolicy("pref", by_submission, Easy(at_minimum), Preferred(), ByPriority(ABOVE_PREFERRED))


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


@register
def keep_pref() -> Policy:
    """KeepPref: EASY at preferred sizes only; jobs give only what they have above it, and get idle nodes beyond it.

    (1) EASY backfilling; a malleable job starts on its preferred nodes (the size it asked for). (2) Where idle nodes
    do not suffice for a waiting job, running malleable jobs above their preferred size give some, never below it, the
    highest priority first, if that lets the job start. (3) Nodes still idle go to running malleable jobs, the lowest
    priority first, up to their maximum. Priority: current minus preferred nodes. As few jobs as possible are resized.

    Source: Zojer, Posner, Özden, "Evaluating Malleable Job Scheduling in HPC Clusters using Real-World Workloads",
    2025, section 2.1, Malleable KeepPref, equation 2.
    [D] The reservation is at the preferred size and counts nodes above it that ready malleable jobs can give back. [D]
    A job that asked for more nodes than are in service starts on all of these, at least on its minimum. [D] No idle
    node at all counts as "not enough", and free nodes count towards the start that a shrink enables. [D] No more is
    taken than needed, and for a job behind the first blocked one only if that delays no reservation. [D] Ties go to
    the smaller job id.
    """
    return ComposedPolicy(
        "keep-pref", by_submission, Easy(at_preferred), OnlyPreferred(), ByPriority(ABOVE_PREFERRED, at_preferred)
    )
