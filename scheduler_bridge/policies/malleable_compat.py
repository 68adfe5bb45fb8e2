"""The malleable algorithm as the 2024 paper's scheduler has it."""

from __future__ import annotations

from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import ComposedPolicy, Moldable, by_submission
from scheduler_bridge.policies.published import COOLDOWN_S, PASS_INTERVAL_S, PublishedEasy, TakeFromAll
from scheduler_bridge.policies.registry import register


@register(pass_interval_s=PASS_INTERVAL_S, cooldown_s=COOLDOWN_S)
def malleable_compat() -> Policy:
    """Malleable algorithm as published in 2024: it over-shrinks; for comparison with the paper's runs, not for use.

    (1) As easy-compat; malleable jobs start on all that is free, up to their maximum, not at their minimum as the paper
    says: 430 of the 760 malleable jobs of the real runs did. (2) For the first waiting job only: if the running
    malleable jobs can give the missing nodes, each of them gives as many as are missing, or all above its minimum.
    Nothing else happens until they are released. (3) Otherwise idle nodes go to the malleable jobs with most room to
    grow, also while jobs wait. A job is left alone for 60 s after a resize. The scheduler decides every 5 s and at
    events.

    Source: Finnerty et al., "On the Performance of Malleable APGAS Programs and Batch Job Schedulers", SN Computer
    Science 5, 2024, section "Job Scheduler", Malleable-Algorithm, as in the ElasticJobScheduler published with it.
    [D] The published scheduler shrinks one job after the other; here all shrink at once. [D] Its pause after a grow
    begins with the order, here when the job has grown. [D] After a shrink it starts only the first job and gives the
    rest to running jobs; here the other waiting jobs come first.
    """
    return ComposedPolicy("malleable-compat", by_submission, PublishedEasy(), Moldable(), TakeFromAll())
