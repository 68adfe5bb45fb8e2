"""Published schedulers as they run, not as their papers describe them: the 2024 paper's and the 2025 paper's EASY.

They are there to repeat what the papers measured. Where parts differ from the correct ones, their docstrings say so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scheduler_bridge.model import Because, ClusterView, JobSpec, Line, Reservation, RunningJob, wording
from scheduler_bridge.policies.backfill import first_end_s, start_fitting, start_in_order, too_few
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import (
    ComposedPolicy,
    Moldable,
    OnlyPreferred,
    StartSize,
    at_minimum,
    by_submission,
)
from scheduler_bridge.policies.plan import Plan
from scheduler_bridge.policies.redistribution import givable_nodes
from scheduler_bridge.policies.registry import register

PASS_INTERVAL_S = 5.0
"""The published scheduler decides this often, and at submissions and ends."""
COOLDOWN_S = 60.0
"""It leaves a job alone for this long after a resize."""


def giver(view: ClusterView) -> RunningJob | None:
    """The job whose released nodes the scheduler waits for, if there is one."""
    return next((job for job in view.running if job.releasing_nodes > 0), None)


class PublishedEasy:
    """EASY backfilling as published: a job overtakes only if it ends before the first job's start.

    It lacks the rule of the spare nodes. The pass that finds the first blocked job ends there, so that others overtake
    from the next pass on. A job must end before the first one can start; to end with it is not enough: where all
    walltimes are equal, as in the paper's batches, none ever overtakes.
    """

    def start(self, plan: Plan, queue: Sequence[JobSpec], size: StartSize) -> None:
        """Start jobs in order, then those that end before the first blocked one can start, if it was known before."""
        if plan.releasing:  # the published scheduler waits for it, and does nothing else meanwhile
            plan.reservations += [old for old in plan.view.reservations if any(s.job_id == old.job_id for s in queue)]
            return
        line = plan.line(queue, size.need)
        if (spec := start_in_order(plan, line, size)) is None:
            return
        is_known = any(reservation.job_id == spec.job_id for reservation in plan.view.reservations)
        if is_known or plan.usable > 0:
            plan.reservations.append(plan.reserve(spec, line.need, floor=None))
        if is_known:
            self._overtake(plan, line, plan.reservations[0], size)

    @staticmethod
    def _overtake(plan: Plan, line: Line, head: Reservation, size: StartSize) -> None:
        """Start those that end before ``head`` begins."""
        while (usable := plan.usable) > 0 and (spec := line.next_fitting(1, usable, usable, plan.now, plan.now)):
            if plan.now + spec.walltime_s < head.start_s:
                why = Because("backfilled: it ends before {}; {}", (wording.seconds(head.start_s), head))
                plan.start(spec, size.pick(spec, usable), why)

    def stands_until(self, view: ClusterView, now: float) -> float:
        """Nothing happens while nodes are released; else the first job's reservation stays until a job should end."""
        return math.inf if view.releasing_nodes else first_end_s(view, now)

    def why(self, need: int, view: ClusterView, reservation: Reservation | None, job: JobSpec) -> str:
        """Too few nodes, or it might delay the first job, or a job is releasing nodes."""
        if (job_that_gives := giver(view)) is not None and need <= view.free_nodes:
            return f"nothing is decided until job {job_that_gives.spec.job_id} has released its nodes"
        if need > view.free_nodes:
            return too_few(need, view, reservation)
        if reservation is None or reservation.job_id == job.job_id:
            return "none overtakes before the next pass"
        return f"it would not end before job {reservation.job_id} can start: {reservation}"


class ByTheClock:
    """EASY as published by the 2025 paper's authors: it protects the first blocked job in the beginning only.

    They ask whether the *time* at which that job starts is smaller than the *duration* that it asks for, and mean by
    that whether another job delays it. The time turns out to be that of the pass, since who may overtake fits into the
    free nodes. So none overtakes until as many seconds have passed since the scheduler began as the first blocked job's
    walltime has, and every job that fits does so afterwards: in effect that is backfilling without reservations.

    [D] A job that the nodes in service cannot hold (nodes are down) blocks no other.
    """

    def start(self, plan: Plan, queue: Sequence[JobSpec], size: StartSize) -> None:
        """Start jobs in order, and all others that fit if the clock is past the first blocked one's walltime.

        Until then that one's reservation is reported; nothing is computed from it.
        """
        line = plan.line(queue, size.need)
        if (blocked := start_in_order(plan, line, size)) is None:
            return
        if plan.now < blocked.walltime_s and line.need <= plan.view.total_nodes:
            plan.reservations.append(plan.reserve(blocked, line.need, floor=None))
        else:
            start_fitting(plan, line, size)

    def why(self, need: int, view: ClusterView, reservation: Reservation | None, job: JobSpec) -> str:
        """Too few nodes, or the clock is not past the first blocked job's walltime."""
        if need > view.free_nodes or reservation is None or reservation.job_id == job.job_id:
            return too_few(need, view, reservation)
        return f"none overtakes job {reservation.job_id} until the scheduler's clock is past that job's walltime"


class TakeFromAll:
    """The published malleable algorithm's steps 2 and 3: it shrinks more than needed, and grows while jobs wait.

    For the first waiting job only, and only if they suffice: every malleable job that takes orders gives as many nodes
    as are missing, or all it has above its minimum; what is missing is never counted down. Until they are released the
    scheduler does nothing else. Otherwise idle nodes go to the malleable jobs with most room to grow, though jobs wait.
    """

    def resize(self, plan: Plan, waiting: Sequence[JobSpec], size: StartSize) -> None:
        """Shrink for the first waiting job; if there is none, or it cannot be helped, give idle nodes away."""
        if plan.releasing:
            return
        if not (waiting and self._take(plan, waiting[0], size.need(waiting[0], plan.view.total_nodes))):
            self._give(plan)

    def stands_until(self, view: ClusterView, now: float) -> float:
        """The end of the first pause of a job."""
        return min([job.resizable_from_s for job in view.paused(now)], default=math.inf)

    @staticmethod
    def _take(plan: Plan, head: JobSpec, need: int) -> bool:
        """Shrink for ``head``; return whether that is done."""
        missing = need - plan.free
        if not 0 < missing <= givable_nodes(plan, at_minimum):
            return False
        reason = Because("so that job {} can start on {}; every job gives that can", (head.job_id, wording.nodes(need)))
        for job in plan.view.running:
            if job.resizable(plan.now) and (nodes := job.reclaimable_nodes(job.spec.min_nodes)) > 0:
                plan.shrink(job, min(missing, nodes), reason, ((head.job_id, need),))
        return True

    @staticmethod
    def _give(plan: Plan) -> None:
        """Give idle nodes to the jobs with most room to grow; among equals, to the one that started last."""
        if plan.usable == 0:
            return
        for job in plan.view.running_by(_most_room):
            if job.resizable_from_s <= plan.now:
                nodes = min(plan.usable, job.max_nodes - job.nodes)
                plan.grow(job, nodes, "idle nodes go to the job with most room to grow")
                if plan.usable == 0:
                    return


def _most_room(job: RunningJob) -> tuple[int, int] | None:
    """The jobs that can grow, if they are not on pause; the one with most room, or else that started last, is first."""
    room = job.max_nodes - job.nodes
    able = room > 0 and job.ready and job.order is None and not job.shares
    return (-room, -job.turn) if able else None


# The policies ---------------------------------------------------------------------------------------------------------


@register(pass_interval_s=PASS_INTERVAL_S)
def easy_compat() -> Policy:
    """EASY as published in 2024: it hardly backfills; for comparison with the paper's runs, not for use.

    A later job starts only if it ends before the first blocked job can start, by walltimes; it may not use the nodes
    that the first job would leave spare. The pass that finds a job blocked ends there. Where all walltimes are equal,
    as in the paper's 240 runs, none ever overtakes: it is fcfs. Malleable jobs are moldable: they start on as many
    nodes as are free, up to their maximum. The scheduler decides every 5 s and at events.

    Source: Finnerty et al., "On the Performance of Malleable APGAS Programs and Batch Job Schedulers", SN Computer
    Science 5, 2024, section "Job Scheduler", Easy-Backfilling, as in the ElasticJobScheduler published with it.
    [D] The published scheduler keeps an old estimate of the first job's start until another job starts; here it is
    computed in each pass. [D] A walltime counts from the start of the job's processes, not from the decision.
    """
    return ComposedPolicy("easy-compat", by_submission, PublishedEasy(), Moldable())


@register
def easy_clock_compat() -> Policy:
    """EASY as the 2025 paper's authors published it: in effect backfilling; for comparison with that paper only.

    It compares the time at which the first blocked job could start with the walltime of that job. So none overtakes it
    while fewer seconds have passed since the scheduler began than its walltime has; later every job that fits starts,
    in the order of submission, and no job is protected. Malleable jobs start on the nodes that they ask for.

    Source: Zojer, Posner, Özden, "Evaluating Malleable Job Scheduling in HPC Clusters using Real-World Workloads",
    2025, EASY, as in the class RigidEasyBackfillScheduler of a simulator that authors of it published in 2026
    (FuldaHPC/ElastisimFulda).
    [D] The published scheduler compares with the walltime of the job that is first when a pass begins, though that one
    starts; here with the first one that does not. [D] It decides at ticks, too, here at events only. [D] A job that the
    nodes in service cannot hold blocks no other.
    """
    return ComposedPolicy("easy-clock-compat", by_submission, ByTheClock(), OnlyPreferred())


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
