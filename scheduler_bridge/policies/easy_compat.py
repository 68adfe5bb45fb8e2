"""EASY backfilling as the 2024 paper's scheduler has it."""

from __future__ import annotations

from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import ComposedPolicy, Moldable, by_submission
from scheduler_bridge.policies.published import PASS_INTERVAL_S, PublishedEasy
from scheduler_bridge.policies.registry import register


@register(pass_interval_s=PASS_INTERVAL_S)
def easy_compat() -> Policy:
    """EASY as published in 2024: it hardly backfills; for comparison with the paper's runs, not for use.

    A later job starts only if it ends before the first blocked job can start, by walltimes; it may not use the nodes
    that the first job would leave spare. The pass that finds a job blocked ends there. Where all walltimes are equal,
    as in the paper's 240 runs, nobody ever overtakes: it is fcfs. Malleable jobs are moldable: they start on as many
    nodes as are free, up to their maximum. The scheduler decides every 5 s and at events.

    Source: Finnerty et al., "On the Performance of Malleable APGAS Programs and Batch Job Schedulers", SN Computer
    Science 5, 2024, section "Job Scheduler", Easy-Backfilling, as in the ElasticJobScheduler published with it.
    [D] The published scheduler keeps an old estimate of the first job's start until another job starts; here it is
    computed in each pass. [D] A walltime counts from the start of the job's processes, not from the decision.
    """
    return ComposedPolicy("easy-compat", by_submission, PublishedEasy(), Moldable())
