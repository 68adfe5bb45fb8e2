"""The pref strategy."""

from __future__ import annotations

from scheduler_bridge.policies.backfill import Easy
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import ComposedPolicy, Preferred, at_minimum, by_submission
from scheduler_bridge.policies.redistribution import ABOVE_PREFERRED, ByPriority
from scheduler_bridge.policies.registry import register


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
