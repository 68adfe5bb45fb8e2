"""What a resize would bring and cost, by the performance models of the MEBF paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from scheduler_bridge.model import JobSpec, RunningJob

MIDDLE: Final = 0.0275
"""Of the interval from which the paper draws alpha and beta [section 4.3]: for jobs of which they are not known."""


def runtime_s(spec: JobSpec, nodes: int) -> float:
    """How long the job would run on ``nodes`` nodes, if it took its walltime on the nodes that it asked for [D].

    The speedup is n^(1 - rho) [section 2.2; the exponent is D: the text names rho and shows curves].
    """
    return spec.walltime_s * math.pow(spec.nodes / nodes, 1.0 - spec.rho)


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
        """Whether a resize to ``nodes`` is worth it. [D] The static time is that at the present size."""
        if job.expected_end_s - now <= self.theta * job.spec.walltime_s:
            return False
        predicted_s = runtime_s(job.spec, nodes) + self.cost_s(job.nodes, nodes, job.spec.overhead)
        return predicted_s <= self.gamma * runtime_s(job.spec, job.nodes)
