"""What a resize would bring and cost, by the performance models of the MEBF paper."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scheduler_bridge.model import JobSpec, RunningJob


def runtime_s(spec: JobSpec, nodes: int) -> float:
    """How long the job would run on ``nodes`` nodes, if it took its walltime on the nodes that it asked for [D].

    The speedup is n^(1 - rho) [section 2.2; the exponent is D: the text names rho and shows curves].
    """
    return spec.walltime_s * math.pow(spec.nodes / nodes, 1.0 - spec.rho)


@dataclass(frozen=True, slots=True)
class ResizeModel:
    """What a resize costs and whether it is worth its price [sections 2.2 and 3, algorithm 3].

    Attributes:
        alpha: Redistribution of data per node more or less.
        beta: Redistribution of data, divided by the nodes before plus after.
        b: Start or end of processes per node more or less.
        scale_s: Seconds per unit of these three [D]; half of it is the paper's half overhead.
        theta: A job must have more than this part of its walltime left.
        gamma: It must not take longer than this times what it takes as it is.
    """

    alpha: float
    beta: float
    b: float
    scale_s: float
    theta: float
    gamma: float

    def cost_s(self, before: int, after: int) -> float:
        """Overhead of a resize [equations 1 and 2]."""
        delta = abs(after - before)
        return self.scale_s * ((self.alpha + self.b) * delta + self.beta / (before + after))

    def is_feasible(self, job: RunningJob, nodes: int, now: float) -> bool:
        """Whether a resize to ``nodes`` is worth it. [D] The static time is that at the present size."""
        if job.expected_end_s - now <= self.theta * job.spec.walltime_s:
            return False
        predicted_s = runtime_s(job.spec, nodes) + self.cost_s(job.nodes, nodes)
        return predicted_s <= self.gamma * runtime_s(job.spec, job.nodes)
