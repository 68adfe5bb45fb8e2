"""One simulation of the experiment: the mean wait of the users of each class of accuracy.

As in the paper: a user belongs to the class in which it is at the end, by the mean accuracy of its last ten ended jobs;
a class waits as long as its users do on average, a user as long as its jobs.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from scheduler_bridge import policies
from scheduler_bridge.core import Settings
from scheduler_bridge.experiments.sweep import Cell, Figures, Scale
from scheduler_bridge.policies import Policy
from scheduler_bridge.policies.penalty import priority
from scheduler_bridge.sim import ReplayOptions, SimRecord, replay
from scheduler_bridge.workloads.generate.papers import PENALTY_JOBS, PENALTY_SCENARIOS, penalty

SEEDS: Final[dict[Scale, tuple[int, ...]]] = {"small": (1, 2, 3, 4), "full": tuple(range(1, 41))}
"""Each draws a workload; the paper has four."""
CLASSES: Final = ("a1", "a2", "a3", "a4", "a5")
AGED: Final = "penalty-aged"
AGE_S: Final = 3600.0
"""Fitted: how many seconds of waiting are worth a priority in it. The paper mentions nothing of the kind."""
POLICIES: Final[dict[str, Callable[[], Policy]]] = {
    "penalty": partial(policies.get, "penalty"),
    AGED: partial(policies.get, "penalty", age_s=AGE_S),
    "easy": partial(policies.get, "easy"),
}
"""The paper's policy, the same with aging, and the one that it puts its order on."""
COLUMNS: Final = ("wait_min", *(f"{name}{suffix}" for name in CLASSES for suffix in ("_wait_min", "_users")))
_LAST: Final = 10
_MINUTE_S: Final = 60.0


def cells(seeds: Iterable[int]) -> list[Cell]:
    """All simulations, those of the first workload first."""
    return [Cell(scenario, policy, 0, seed) for seed in seeds for scenario in PENALTY_SCENARIOS for policy in POLICIES]


def simulated(cell: Cell, jobs: int = PENALTY_JOBS) -> Figures:
    """Simulate a cell with a number of jobs; its trace is a scenario."""
    workload = penalty(seed=cell.seed, scenario=cell.trace, jobs=jobs)
    done = replay(workload, POLICIES[cell.policy](), options=ReplayOptions(settings=Settings()))
    return figures_of(done.result.records.values())


def figures_of(records: Iterable[SimRecord]) -> Figures:
    """The mean wait of all jobs, and by class the mean of its users' means and how many they are."""
    users: dict[str, list[SimRecord]] = {}
    for record in sorted(records, key=lambda record: (record.end_s or 0.0, record.spec.job_id)):
        users.setdefault(record.spec.user, []).append(record)
    waits: dict[str, list[float]] = {name: [] for name in CLASSES}
    for jobs in users.values():
        accuracy = statistics.fmean((job.runtime_s or 0.0) / job.spec.walltime_s for job in jobs[-_LAST:])
        waits[CLASSES[priority(accuracy) - 1]].append(statistics.fmean((job.wait_s or 0.0) / _MINUTE_S for job in jobs))
    every = [(job.wait_s or 0.0) / _MINUTE_S for jobs in users.values() for job in jobs]
    found: dict[str, float | None] = {"wait_min": statistics.fmean(every)}
    for name, of in waits.items():
        found[f"{name}_wait_min"] = statistics.fmean(of) if of else None
        found[f"{name}_users"] = len(of)
    return found
