"""The policies of the 2024 paper's ElasticJobScheduler: fcfs, backfilling, easy and malleable."""

from __future__ import annotations

from scheduler_bridge.policies.backfill import AnyThatFits, Easy, InOrder
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import AtMinimum, ComposedPolicy, Moldable, at_minimum, by_submission
from scheduler_bridge.policies.redistribution import BY_SIZE, ByPriority
from scheduler_bridge.policies.registry import register


@register
def fcfs() -> Policy:
    """First come, first served: jobs start in the order of their submission, none overtakes.

    Malleable jobs are moldable: they start on as many nodes as are free, up to their maximum, and keep that size.

    Source: Finnerty et al., "On the Performance of Malleable APGAS Programs and Batch Job Schedulers", SN Computer
    Science 5, 2024, section "Job Scheduler", First Come First Served.
    [D] A malleable job starts as soon as its minimum is free.
    """
    return ComposedPolicy("fcfs", by_submission, InOrder(), Moldable())


@register
def backfilling() -> Policy:
    """Backfilling without fairness: in the order of submission, every job that fits starts; there is no reservation.

    Malleable jobs are moldable: they start on as many nodes as are free, up to their maximum, and keep that size.

    Source: Finnerty et al., "On the Performance of Malleable APGAS Programs and Batch Job Schedulers", SN Computer
    Science 5, 2024, section "Job Scheduler", Backfilling.
    """
    return ComposedPolicy("backfilling", by_submission, AnyThatFits(), Moldable())


@register
def easy() -> Policy:
    """EASY backfilling: the first blocked job holds a reservation, and only what does not delay it overtakes.

    A later job starts if by its walltime it ends before the reservation begins, or if it fits into the nodes that the
    reservation leaves spare. Malleable jobs are moldable: they start on as many nodes as they may take, up to their
    maximum, and keep that size.

    Source: Finnerty et al., "On the Performance of Malleable APGAS Programs and Batch Job Schedulers", SN Computer
    Science 5, 2024, section "Job Scheduler", Easy-Backfilling.
    [D] The reservation is computed from walltimes, at the minimum of a malleable job, and the spare nodes count; the
    published code lacks the spare nodes. [D] Jobs that end exactly at the reservation count as ended. [D] A job that
    the nodes in service cannot hold blocks no other.
    """
    return ComposedPolicy("easy", by_submission, Easy(), Moldable())


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
