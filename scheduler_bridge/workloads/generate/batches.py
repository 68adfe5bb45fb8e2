"""The batches of the 2024 paper: 25 jobs for 32 nodes, about 8 node-hours, four programs in eleven configurations.

The table of configurations is from the published code (it is not in the paper's text). Node-seconds are rounded from
the published strong scaling; runs scale by Amdahl's law with a parallel share of 0.999 [D]. The published batches
themselves are other draws; they are replayed from their results by ``malleable experiment real-runs-simulated``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from msgspec import structs

from scheduler_bridge.workloads.conversion import drawn_order
from scheduler_bridge.workloads.generate.draw import workload
from scheduler_bridge.workloads.record import Workload, in_order

NODES: Final = 32
JOBS: Final = 25
AT_ONCE: Final = 5
"""So many jobs are submitted at the beginning."""
WITHIN_S: Final = 600.0
"""The others within this time; the published code has 180 s."""
WALLTIME_S: Final = 800.0
SEEDS: Final = tuple(range(42, 52))
PARALLEL_SHARE: Final = 0.999


@dataclass(frozen=True, slots=True)
class Configuration:
    """A program with its input.

    Attributes:
        name: Program and input.
        sizes: (nodes, weight) of the rigid jobs; all weights sum to 25.
        min_nodes: Fewest nodes of a malleable job.
        max_nodes: Most.
        node_s: Runtime on one node, in seconds.
    """

    name: str
    sizes: tuple[tuple[int, float], ...]
    min_nodes: int
    max_nodes: int
    node_s: float


CONFIGURATIONS: Final = (
    Configuration("BC_17", ((2, 1.5), (4, 1.0)), 1, 4, 120),
    Configuration("BC_18", ((2, 1.5), (4, 1.0), (8, 0.5)), 2, 16, 690),
    Configuration("BC_19", ((8, 1.0), (16, 0.5)), 8, 16, 3500),
    Configuration("NQueens_17", ((2, 1.5), (4, 1.0)), 1, 8, 340),
    Configuration("NQueens_18", ((8, 1.0), (16, 0.5)), 8, 16, 2900),
    Configuration("UTS_18", ((2, 1.5), (4, 0.5)), 1, 4, 200),
    Configuration("UTS_19", ((2, 1.5), (4, 1.0), (8, 1.0)), 2, 16, 800),
    Configuration("UTS_20", ((8, 1.0), (16, 0.5)), 8, 16, 3150),
    Configuration("Pi_8e10", ((2, 1.5), (4, 1.0)), 1, 4, 140),
    Configuration("Pi_6e11", ((4, 1.5), (8, 1.0), (16, 0.5)), 4, 16, 1045),
    Configuration("Pi_1.2e12", ((8, 1.0), (16, 0.5)), 8, 16, 2085),
)


def batch(*, seed: int, malleable: float = 0.0, within_s: float = WITHIN_S) -> Workload:
    """Draw a batch; the malleable jobs of a smaller share are among those of a larger one.

    Args:
        seed: Determines everything; the paper's batches have the seeds 42 to 51.
        malleable: Share of the jobs that are malleable, from 0 to 1.
        within_s: Jobs are submitted within this time.

    Raises:
        ValueError: The share is out of range.
    """
    if not 0 <= malleable <= 1:
        raise ValueError(f"malleable is {malleable}, must be from 0 to 1")
    rng = np.random.default_rng(seed)
    choices = [(configuration, *size) for configuration in CONFIGURATIONS for size in configuration.sizes]
    edges = np.cumsum([weight for *_, weight in choices])
    drawn = [choices[row] for row in np.searchsorted(edges, rng.random(JOBS) * edges[-1]).tolist()]
    sizes = np.array([size for _, size, _ in drawn])
    one_node_s = np.array([configuration.node_s for configuration, *_ in drawn])
    submit_s = np.sort(np.concatenate((np.zeros(AT_ONCE), rng.random(JOBS - AT_ONCE) * within_s)))
    rigid = workload(
        f"batch-{seed}",
        NODES,
        submit_s,
        one_node_s * (1 - PARALLEL_SHARE + PARALLEL_SHARE / sizes),
        np.full(JOBS, WALLTIME_S),
        sizes,
        source=f"batch of the 2024 paper, seed={seed} malleable={malleable} within_s={within_s}",
        names=[configuration.name for configuration, *_ in drawn],
    )
    bounds = {item.name: (item.min_nodes, item.max_nodes) for item in CONFIGURATIONS}
    law = f"amdahl:{PARALLEL_SHARE}"
    order = drawn_order((structs.replace(job, speedup=law) for job in rigid.jobs), seed)
    count = round(malleable * JOBS)
    jobs = [
        structs.replace(job, job_class="malleable", min_nodes=bounds[job.name][0], max_nodes=bounds[job.name][1])
        for job in order[:count]
    ]
    return replace(rigid, jobs=in_order([*jobs, *order[count:]]))
