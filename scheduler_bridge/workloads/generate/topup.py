"""Adds the small jobs that a trace lacks, marked as synthetic, so that it has the numbers that a paper prints.

The real trace of Theta has 1,617 of the 2,550 jobs that the 2025 paper simulates for the 28 days from 2023-08-01;
mostly small ones are missing. The paper prints the shares of three sizes and of short runtimes (section 3.4); the jobs
to add are what is missing of these sizes, with runtimes so that 84.7 % of all are within 10,000 s.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from msgspec import structs

from scheduler_bridge.workloads.generate.draw import DAY_S, arrivals, day_cycle, piecewise_log, spread, workload
from scheduler_bridge.workloads.record import Workload, in_order

JOBS: Final = 2550
SHARES: Final = {1: 0.348, 8: 0.203, 256: 0.126}
"""Sizes and their share of all jobs [2025, section 3.4]."""
SHORT_S: Final = 10_000.0
SHORT: Final = 0.847
MARK: Final = "synthetic"
"""The name of the jobs that were added."""
_OTHERS: Final = (2, 4, 16, 32, 64)
_LONGEST_S: Final = 60_000.0


def top_up_theta(window: Workload, *, seed: int, jobs: int = JOBS) -> Workload:
    """Add jobs to 28 days of Theta.

    Args:
        window: The real jobs.
        seed: Determines the jobs that are added.
        jobs: How many there are then.

    Raises:
        ValueError: There are more jobs already, or the machine is smaller than the jobs to add.
    """
    missing = jobs - len(window)
    if missing < 1:
        raise ValueError(f"the window has {len(window)} jobs already, {jobs} are wanted")
    if window.nodes < max(SHARES):
        raise ValueError(f"the machine has {window.nodes} nodes, jobs to add have up to {max(SHARES)}")
    rng = np.random.default_rng(seed)
    present = np.array([job.nodes for job in window.jobs])
    wanted = {size: max(0, round(share * jobs) - int((present == size).sum())) for size, share in SHARES.items()}
    sizes = np.repeat(list(wanted), list(wanted.values()))[:missing]
    others = rng.choice(_OTHERS, missing - len(sizes))
    sizes = rng.permutation(np.concatenate((sizes, others))).astype(np.int64)
    short_now = sum(job.runtime_s <= SHORT_S for job in window.jobs)
    short = min(1.0, max(0.0, (SHORT * jobs - short_now) / missing))
    runtime_s = piecewise_log(spread(rng, missing), ((0.0, 10.0), (short, SHORT_S), (1.0 + 1e-9, _LONGEST_S)))
    days = max(1, int(np.ceil((window.jobs[-1].submit_s + 1) / DAY_S)))
    drawn = workload(
        window.name,
        window.nodes,
        arrivals(rng, missing, day_cycle(days).tolist(), 3600.0),
        runtime_s,
        1.25 * runtime_s + 1,
        sizes,
        source="",
        names=[MARK] * missing,
    )
    first_id = 1 + max(job.job_id for job in window.jobs)
    added = (structs.replace(job, job_id=first_id + job.job_id, user="synthetic") for job in drawn.jobs)
    return replace(
        window,
        name=f"{window.name}, topped up",
        jobs=in_order([*window.jobs, *added]),
        synthetic=True,
        source=f"{window.source}; {missing} of {jobs} jobs are synthetic, seed={seed}",
    )
