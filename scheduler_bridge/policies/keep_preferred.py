"""The keep-pref strategy."""

from __future__ import annotations

from scheduler_bridge.policies.backfill import Easy
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import ComposedPolicy, OnlyPreferred, at_preferred, by_submission
from scheduler_bridge.policies.redistribution import ABOVE_PREFERRED, ByPriority
from scheduler_bridge.policies.registry import register


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
