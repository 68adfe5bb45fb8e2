"""The parts of the scheduler that the 2024 paper published, as it runs, not as the paper describes it.

They serve to replay the paper's real runs. Where they differ from the correct parts, their docstrings say so.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_bridge.model import ClusterView, JobSpec, Reservation, RunningJob, wording
from scheduler_bridge.policies.backfill import IN_ORDER, too_few
from scheduler_bridge.policies.compose import StartSize
from scheduler_bridge.policies.plan import Plan

PASS_INTERVAL_S = 5.0
"""The published scheduler decides this often, and at submissions and ends."""
COOLDOWN_S = 60.0
"""It leaves a job alone for this long after a resize."""


def giver(view: ClusterView) -> RunningJob | None:
    """The job whose released nodes the scheduler waits for: the published one does nothing else meanwhile."""
    return next((job for job in view.running if job.releasing_nodes > 0), None)


class PublishedEasy:
    """EASY backfilling as published: a job overtakes only if it ends before the first job's start.

    It lacks the rule of the spare nodes. The pass that finds the first blocked job ends there, so that others overtake
    from the next pass on. A job must end before the first one can start; to end with it is not enough: where all
    walltimes are equal, as in the paper's batches, nobody ever overtakes.
    """

    def start(self, plan: Plan, queue: Sequence[JobSpec], size: StartSize) -> None:
        """Start jobs in order, then those that end before the first blocked one can start, if it was known before."""
        if giver(plan.view) is not None:
            plan.reservations += [old for old in plan.view.reservations if any(s.job_id == old.job_id for s in queue)]
            return
        known = {reservation.job_id for reservation in plan.view.reservations}
        for spec in queue:
            need = size.need(spec, plan.view.total_nodes)
            fits = need <= plan.usable
            if (head := plan.reservation) is None:
                if fits:
                    plan.start(spec, size.pick(spec, plan.usable), IN_ORDER)
                    continue
                if plan.usable > 0 or spec.job_id in known:
                    plan.reservations.append(plan.reserve(spec, need, floor=None))
                if spec.job_id not in known:
                    return
            elif fits and plan.now + spec.walltime_s < head.start_s:
                why = f"backfilled: it ends before {wording.seconds(head.start_s)}; {head}"
                plan.start(spec, size.pick(spec, plan.usable), why)

    def why(self, need: int, view: ClusterView, reservation: Reservation | None, job: JobSpec) -> str:
        """Too few nodes, or it might delay the first job, or a job is releasing nodes."""
        if (job_that_gives := giver(view)) is not None and need <= view.free_nodes:
            return f"nothing is decided until job {job_that_gives.spec.job_id} has released its nodes"
        if need > view.free_nodes:
            return too_few(need, view, reservation)
        if reservation is None or reservation.job_id == job.job_id:
            return "nobody overtakes before the next pass"
        return f"it would not end before job {reservation.job_id} can start: {reservation}"


class TakeFromAll:
    """The published malleable algorithm's steps 2 and 3: it shrinks more than needed, and grows while jobs wait.

    For the first waiting job only, and only if they suffice: every malleable job that takes orders gives as many nodes
    as are missing, or all it has above its minimum; what is missing is never counted down. Until they are released the
    scheduler does nothing else. Otherwise idle nodes go to the malleable jobs with most room to grow, whoever waits.
    """

    def resize(self, plan: Plan, waiting: Sequence[JobSpec], size: StartSize) -> None:
        """Shrink for the first waiting job; if there is none, or it cannot be helped, give idle nodes away."""
        if giver(plan.view) is not None:
            return
        able = [job for job in plan.view.running if job.resizable(plan.now)]
        if not (waiting and self._take(plan, waiting[0], able, size.need(waiting[0], plan.view.total_nodes))):
            self._give(plan, able)

    @staticmethod
    def _take(plan: Plan, head: JobSpec, able: Sequence[RunningJob], need: int) -> bool:
        """Shrink for ``head``; return whether that is done."""
        missing = need - plan.free
        donors = [(job, job.reclaimable_nodes(job.spec.min_nodes)) for job in able]
        if not 0 < missing <= sum(nodes for _, nodes in donors):
            return False
        for job, nodes in donors:
            if nodes > 0:
                reason = f"so that job {head.job_id} can start on {wording.nodes(need)}; every job gives that can"
                plan.shrink(job, min(missing, nodes), reason)
        return True

    @staticmethod
    def _give(plan: Plan, able: Sequence[RunningJob]) -> None:
        """Give idle nodes to the jobs with most room to grow; among equals, to the one that started last."""
        for job in sorted(able, key=lambda job: job.max_nodes - job.nodes)[::-1]:
            nodes = min(plan.usable, job.max_nodes - job.nodes)
            if nodes > 0:
                plan.grow(job, nodes, "idle nodes go to the job with most room to grow")
