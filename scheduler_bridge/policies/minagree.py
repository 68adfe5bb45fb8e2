"""Moving nodes between running malleable jobs with as few resizes as possible."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_bridge.model import JobSpec, RunningJob, wording
from scheduler_bridge.policies.compose import StartSize
from scheduler_bridge.policies.plan import Plan


class MinAgree:
    """Shrink the largest so that a waiting job starts; give idle nodes to the smallest [2024 paper, steps 2 and 3]."""

    def resize(self, plan: Plan, waiting: Sequence[JobSpec], size: StartSize) -> None:
        """Take nodes for waiting jobs first, then hand out what is left."""
        self._take(plan, waiting, size)
        self._give(plan, waiting)

    @staticmethod
    def _take(plan: Plan, waiting: Sequence[JobSpec], size: StartSize) -> None:
        """Shrink for every waiting job, in order, whose start that completes and that delays no reservation.

        [D] The largest job gives all that it can before the next one gives anything: fewer orders for the same start.
        """
        donors = [
            job
            for job in plan.view.running
            if job.resizable(plan.now) and job.reclaimable_nodes(job.spec.min_nodes) > 0
        ]
        donors.sort(key=lambda job: (-job.nodes, job.spec.job_id))
        left = {job.spec.job_id: job.reclaimable_nodes(job.spec.min_nodes) for job in donors}
        total = sum(left[job.spec.job_id] for job in donors)
        for spec in waiting:
            if total == 0:
                return
            need = size.need(spec, plan.view.total_nodes)
            missing = need - plan.soon
            if plan.is_promised(spec) or not 0 < missing <= total:
                continue
            is_head = plan.reservation is not None and plan.reservation.job_id == spec.job_id
            if not is_head:
                if not plan.admits(spec, need):
                    continue
                plan.charge(spec, need)
            total -= missing
            for job in donors:
                if (nodes := min(missing, left[job.spec.job_id])) > 0:
                    plan.shrink(job, nodes, f"so that job {spec.job_id} can start on {wording.nodes(need)}")
                    left[job.spec.job_id] -= nodes
                    missing -= nodes
            plan.promise(spec, need)

    @staticmethod
    def _give(plan: Plan, waiting: Sequence[JobSpec]) -> None:
        """Hand idle nodes to the smallest malleable jobs, each up to its maximum before the next.

        [D] While a reservation stands, a ready job may get any idle nodes, because it can give them back; a job that
        only starts cannot yet, so it gets what does not delay the reservation. [D] If the reserved job needs nothing
        but nodes of jobs that are being resized just now, the idle nodes stay with it.
        """
        head = plan.reservation
        if head is not None and head.start_s <= plan.now and any(_is_stuck(plan, spec) for spec in waiting):
            return
        for nodes, _, job in sorted(_takers(plan), key=lambda taker: taker[:2]):
            idle = plan.usable
            if idle == 0:
                return
            if isinstance(job, RunningJob):
                plan.grow(job, min(idle, job.max_nodes - nodes), "idle nodes go to the smallest malleable job")
                continue
            extra = min(plan.room(job, idle), job.max_nodes - nodes)
            if extra > 0:
                plan.charge(job, extra)
                plan.enlarge(job, extra, "larger because nodes are idle")


def _is_stuck(plan: Plan, spec: JobSpec) -> bool:
    """Whether ``spec`` holds the reservation and its nodes are not all free or being released."""
    return plan.reservation is not None and spec.job_id == plan.reservation.job_id and not plan.is_promised(spec)


def _takers(plan: Plan) -> list[tuple[int, int, RunningJob | JobSpec]]:
    """The malleable jobs that can get nodes: size, id, and the running or just started job."""
    takers: list[tuple[int, int, RunningJob | JobSpec]] = [
        (job.nodes, job.spec.job_id, job)
        for job in plan.view.running
        if job.resizable(plan.now) and job.nodes < job.max_nodes and not plan.is_resized(job)
    ]
    takers += [(nodes, spec.job_id, spec) for spec, nodes in plan.started if nodes < spec.max_nodes]
    return takers
