"""Workloads in the form of Cirne and Berman's model: arrivals, sizes, requested times, and what of them is used.

W. Cirne and F. Berman, "A comprehensive model of the supercomputer workload", WWC-4, 2001. The model describes a job by
its arrival in the cycle of the day, its size (uniform in log2, most of them powers of two), its requested time (uniform
in the logarithm) and the accuracy of that request, of which half of the jobs and more use less than a fifth. The
published fits of single sites are not reproduced; the numbers here are ours [D], set so that the workloads of the
SD-policy paper (its Table 1: Cirne, 5,000 jobs, 1,024 nodes, jobs of up to 128 nodes, all over after 900,000 s, most
of which they wait) have its size: so this is the model's form with other parameters.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from scheduler_bridge.workloads.generate.draw import arrivals, day_cycle, spread, workload, zipf_users
from scheduler_bridge.workloads.record import Workload

POWER_OF_TWO: Final = 0.75
REQUEST_S: Final = (60.0, 172_800.0)
ACCURACY: Final = (0.55, 1.4)
"""Shapes of the beta distribution of runtime by requested time."""
_USERS: Final = 80


def cirne(
    jobs: int = 5000,
    nodes: int = 1024,
    *,
    seed: int,
    largest: int | None = None,
    load: float = 8.0,
    exact: bool = False,
    requests_s: tuple[float, float] = REQUEST_S,
) -> Workload:
    """Draw a workload.

    Args:
        jobs: Number of jobs.
        nodes: The machine.
        seed: Determines everything.
        largest: Nodes of the largest job; None: an eighth of the machine.
        load: Node-seconds of all jobs by those of the machine until the last submission.
        exact: Requested times are the runtimes, in an otherwise equal workload.
        requests_s: Shortest and longest requested time.

    Raises:
        ValueError: A number is out of range.
    """
    largest = largest or max(1, nodes // 8)
    if jobs < 1 or not 1 <= largest <= nodes or load <= 0 or not 0 < requests_s[0] < requests_s[1]:
        raise ValueError(f"jobs is {jobs}, the largest {largest} of {nodes} nodes, load {load}: out of range")
    rng = np.random.default_rng(seed)
    log_size = spread(rng, jobs) * math.log2(largest)
    rounded = rng.random(jobs) < POWER_OF_TWO
    sizes = np.clip(np.rint(2 ** np.where(rounded, np.rint(log_size), log_size)), 1, largest).astype(np.int64)
    request_s = requests_s[0] * (requests_s[1] / requests_s[0]) ** spread(rng, jobs)
    accuracy = np.maximum(rng.beta(*ACCURACY, jobs), 1e-3)
    runtime_s = np.maximum(1.0, np.rint(request_s * accuracy))
    span_s = float((sizes * runtime_s).sum()) / (load * nodes)
    days = max(1, math.ceil(span_s / 86_400))
    submit_s = arrivals(rng, jobs, day_cycle(days).tolist(), 3600.0)
    submit_s *= span_s / (days * 86_400)
    return workload(
        f"cirne-{'exact-' if exact else ''}{jobs}-{nodes}",
        nodes,
        submit_s,
        runtime_s,
        runtime_s if exact else np.maximum(request_s, runtime_s),
        sizes,
        source=f"Cirne-Berman form, jobs={jobs} nodes={nodes} largest={largest} load={load} exact={exact} seed={seed}",
        users=zipf_users(rng, jobs, _USERS),
    )
