"""Malleable EASY backfilling (MEBF)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from scheduler_bridge.model import Because, JobSpec, Key, RunningJob, wording
from scheduler_bridge.policies.backfill import Easy
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import ComposedPolicy, Preferred, StartSize, by_submission
from scheduler_bridge.policies.plan import Plan
from scheduler_bridge.policies.registry import InvalidParameterError, register

# Performance models ---------------------------------------------------------------------------------------------------

MIDDLE: Final = 0.0275
"""Of the interval from which the paper draws alpha and beta [section 4.3]: for jobs of which they are not known."""


@dataclass(frozen=True, slots=True)
class ResizeModel:
    """What a resize costs and whether it is worth its price [sections 2.2 and 3, algorithm 3].

    Attributes:
        alpha: Redistribution of data per node more or less; None: the job's own.
        beta: Redistribution of data, divided by the nodes before plus after; None: the job's own.
        b: Start or end of processes per node more or less.
        scale_s: Seconds per unit of these three [D]; half of it is the paper's half overhead.
        theta: A job must have more than this part of its walltime left.
        gamma: It must not take longer than this times what it takes as it is.
    """

    alpha: float | None
    beta: float | None
    b: float
    scale_s: float
    theta: float
    gamma: float

    def cost_s(self, before: int, after: int, own: tuple[float, float] | None) -> float:
        """Overhead of a resize of a job whose ``own`` alpha and beta are known, or not [equations 1 and 2]."""
        alpha, beta = own or (MIDDLE, MIDDLE)
        if self.alpha is not None:
            alpha = self.alpha
        if self.beta is not None:
            beta = self.beta
        return self.scale_s * ((alpha + self.b) * abs(after - before) + beta / (before + after))

    def is_feasible(self, job: RunningJob, nodes: int, now: float) -> bool:
        """Whether a resize to ``nodes`` is worth it.

        [D] The static time is that at the present size. The job takes its walltime on the nodes that it asked for.
        """
        if job.expected_end_s - now <= self.theta * job.spec.walltime_s:
            return False
        predicted_s = job.spec.walltime_at_s(nodes) + self.cost_s(job.nodes, nodes, job.spec.overhead)
        return predicted_s <= self.gamma * job.spec.walltime_at_s(job.nodes)


OWN: Final = "own"
EXPAND: Final = ("handoff", "spare", "intensive")
PLUS: Final = ("none", "shrink", "expand")


def least_scalable_first(job: RunningJob) -> float | None:
    """The jobs that take orders and can shrink, by falling rho."""
    return -job.spec.rho if job.ready and job.order is None and job.nodes > job.spec.min_nodes else None


def most_scalable_first(job: RunningJob) -> float | None:
    """The jobs that take orders and can grow, by rising rho."""
    return job.spec.rho if job.ready and job.order is None and job.nodes < job.max_nodes else None


@dataclass(frozen=True, slots=True)
class ByScalability:
    """Shrink the least scalable jobs when nothing is free, grow the most scalable ones when no job waits.

    Attributes:
        model: What a resize brings and costs.
        share_factor: A job that shrinks gives this part of its nodes.
        least_growth: A job grows only by more than this part of its nodes.
        plus: What is done where nodes are free but too few for any waiting job.
    """

    model: ResizeModel
    share_factor: float
    least_growth: float
    plus: str

    def resize(self, plan: Plan, waiting: Sequence[JobSpec], size: StartSize) -> None:
        """Look at what the starts and backfilling have left [algorithm 1, lines 10 to 21]."""
        if not waiting:
            self._expand(plan, passed_over=None)
        elif plan.usable == 0 or self.plus == "shrink":
            self._shrink(plan, waiting[0], size)
        elif self.plus == "expand":
            self._expand(plan, passed_over="shrink")  # or the two would take turns for ever

    def _shrink(self, plan: Plan, head: JobSpec, size: StartSize) -> None:
        """Take nodes until the first waiting job fits [algorithm 2]."""
        need = size.need(head, plan.view.total_nodes)
        if plan.is_promised(head):
            return
        for job in _resizable(plan, least_scalable_first):
            if need <= plan.soon:
                break
            if job.last_resize == "shrink":
                continue
            nodes = min(int(self.share_factor * job.nodes), job.reclaimable_nodes(job.spec.min_nodes))
            if nodes > 0 and self.model.is_feasible(job, job.nodes - nodes, plan.now):
                reason = Because("so that job {} can start on {}", (head.job_id, wording.nodes(need)))
                plan.shrink(job, nodes, reason, ((head.job_id, need),))

    def _expand(self, plan: Plan, passed_over: Literal["shrink"] | None) -> None:
        """Give nodes away, as far as no reservation is delayed [algorithms 4 to 6]."""
        for spec, nodes in list(plan.started):
            if (extra := self._growth(spec.max_nodes, nodes, plan.room(spec, plan.usable, at=nodes))) > 0:
                plan.charge(spec, extra, at=nodes)
                plan.enlarge(spec, extra)
        for job in _resizable(plan, most_scalable_first):
            if plan.usable == 0:
                return
            if passed_over is not None and job.last_resize == passed_over:
                continue
            extra = self._growth(job.max_nodes, job.nodes, plan.room_until(job.expected_end_s, plan.usable))
            if extra > 0 and self.model.is_feasible(job, job.nodes + extra, plan.now):
                plan.charge_until(job.expected_end_s, extra)
                plan.grow(job, extra, "idle nodes go to the most scalable malleable job")

    def _growth(self, max_nodes: int, nodes: int, room: int) -> int:
        """By how many nodes a job may grow; 0 if that is too little."""
        extra = min(max_nodes - nodes, room)
        return extra if extra > self.least_growth * nodes else 0


def _resizable(plan: Plan, order: Key) -> Iterator[RunningJob]:
    jobs = plan.view.running_by(order)
    return (job for job in jobs if job.resizable_from_s <= plan.now and not plan.is_resized(job))


@register
def mebf(
    expand: str = "handoff",
    plus: str = "none",
    share_factor: float = 0.4,
    ratio: float = 0.5,
    theta: float = 0.5,
    gamma: float = 2.0,
    alpha: str = OWN,
    beta: str = OWN,
    b: float = MIDDLE,
    scale_s: float = 10.0,
) -> Policy:
    """MEBF: EASY at preferred sizes or fewer; shrink the least scalable when nothing is free, grow when no job waits.

    Malleable jobs start on their preferred nodes (the size that they asked for), else on what is free, at least their
    minimum. If jobs wait and no node is free, running malleable jobs shrink, the least scalable first: each gives
    floor(share_factor x its nodes), never below its minimum, until the first waiting job fits. If no job waits and
    nodes are idle, running malleable jobs grow, the most scalable first, by min(maximum - current, idle). A resize must
    be feasible: more than theta of the walltime is left, and the runtime predicted for the new size, with the overhead,
    is at most gamma times that at the present size.

    Parameters: ``expand``: handoff grows a job only by more than its nodes, spare by more than ratio x its nodes,
    intensive by any number. ``plus``, where nodes are free but too few for any waiting job: shrink (shrink+), expand
    (expand+), or none. ``alpha``, ``beta``, ``b``: overhead scale_s x ((alpha + b) x change + beta / (nodes before +
    after)); ``own`` takes alpha and beta of the job's ``overhead``, a number holds for all jobs; half of ``scale_s`` is
    half overhead. A job's ``rho`` says how scalable it is.

    Source: Almaaitah, Singh, Özden, Carretero, "Performance-driven scheduling for malleable workloads", The Journal of
    Supercomputing, 2024, sections 2.2 and 3.
    [D] The static time is that at the present size, the estimates are walltimes. [D] "Excludes the previously
    configured ones": who was shrunk is not shrunk again until it has grown; who has grown may be shrunk. [D] No further
    job shrinks once the first waiting one fits. [D] A job that starts while no job waits starts larger, without an
    order. [D] expand+ gives only what does not delay the reservation, and nothing to jobs that were shrunk, or the two
    would take turns for ever. [D] alpha and beta are constants of a job, not of a resize; where a job has none they are
    0.0275, the middle of the paper's interval; b is the same, and scale_s makes a change by 8 nodes cost 4.4 s. [D]
    Ties go to the smaller job id.
    """
    for name, value, known in (("expand", expand, EXPAND), ("plus", plus, PLUS)):
        if value not in known:
            raise InvalidParameterError(f"mebf: {name} is {value!r}, must be one of {', '.join(known)}")
    least_growth = {"handoff": 1.0, "spare": ratio, "intensive": 0.0}[expand]
    model = ResizeModel(_known("alpha", alpha), _known("beta", beta), b, scale_s, theta, gamma)
    return ComposedPolicy(
        "mebf", by_submission, Easy(), Preferred(), ByScalability(model, share_factor, least_growth, plus)
    )


def _known(name: str, value: str) -> float | None:
    """A number that holds for all jobs; None: each job's own."""
    try:
        number = None if value == OWN else float(value)
    except ValueError:
        number = math.nan
    if number is not None and not 0 <= number < math.inf:
        raise InvalidParameterError(f"mebf: {name} is {value!r}, must be {OWN}, or a number that is not negative")
    return number
