"""One simulation of the experiment, and which ones there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from scheduler_bridge import policies
from scheduler_bridge.core import settings_for
from scheduler_bridge.experiments.ours.traces import Trace
from scheduler_bridge.experiments.sweep import Cell, Figures, Scale
from scheduler_bridge.sim import Behaviour, JobRecord, Means, ReplayOptions, parse_cost, replay

OWN: Final = "best-use"
OTHERS: Final = (
    "fcfs",
    "backfilling",
    "easy",
    "conservative",
    "penalty",
    "sd-policy",
    "malleable",
    "min",
    "pref",
    "avg",
    "keep-pref",
    "mebf",
)
"""All but those that repeat a published program with its faults."""
WITHOUT: Final[Mapping[str, Mapping[str, object]]] = {
    "submission order": {"patience": 0.0},
    "walltimes ignored": {"haste": 0.0},
    "no moves": {"ratio": 0.0},
    "any move": {"worth_s": 0.0},
    "none of these": {"patience": 0.0, "haste": 0.0, "ratio": 0.0},
}
"""The own policy with an ingredient off: its parameters."""
_CORES: Final = 48
"""Of each node, for the policy that lets jobs share them."""
_NEVER_S: Final = 1e9
"""No job is killed: walltimes are for reservations only."""
GROUPS: Final = ("all", "rigid", "malleable")
MEASURES: Final = ("turnaround_s", "wait_s", "slowdown")
COLUMNS: Final = (
    "jobs",
    *(f"{group}_{measure}" for group in GROUPS for measure in MEASURES),
    "wait_p95_s",
    "wait_max_s",
    "utilization",
    "resizes",
    "fairness",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is simulated.

    Attributes:
        shares: Malleable jobs in percent.
        seeds: Each draws a workload, or (Theta) which of its jobs are malleable.
    """

    shares: tuple[int, ...]
    seeds: tuple[int, ...]

    def cells(self, traces: Iterable[Trace]) -> list[Cell]:
        """All simulations, those of the first seed first."""
        names = [trace.name for trace in traces]
        every = [*OTHERS, OWN, *(without(what) for what in WITHOUT)]
        return [
            Cell(name, policy, share, seed)
            for seed in self.seeds
            for name in names
            for share in self.shares
            for policy in every
        ]


PLANS: Final[dict[Scale, Plan]] = {"small": Plan((50,), (1, 2)), "full": Plan((50, 100), tuple(range(1, 11)))}


def without(what: str) -> str:
    """The name of the own policy with an ingredient off."""
    return f"{OWN}: {what}"


def simulated(trace: Trace, cell: Cell) -> Figures:
    """Simulate a cell; walltimes are scaled as the scheduler believes."""
    workload = trace.make(cell.seed, cell.share)
    name, _, what = cell.policy.partition(": ")
    settings = replace(settings_for(name), walltime="scaled", walltime_grace_s=_NEVER_S)
    if name == "sd-policy":
        settings = replace(settings, cores_per_node=_CORES)
    options = ReplayOptions(
        behaviour=Behaviour(cost=parse_cost(trace.cost)), settings=settings, warmup_s=trace.warmup_s(workload)
    )
    done = replay(workload, policies.get(name, **(WITHOUT[what] if what else {})), options=options)
    measures, window = done.measures, done.measures.window
    counted = [
        record for record in done.result.records.values() if window.from_s <= record.spec.submit_s <= window.to_s
    ]
    return {
        "jobs": measures.every.jobs,
        **_means("all", measures.every),
        **_means("rigid", measures.rigid),
        **_means("malleable", measures.malleable),
        **_waits(counted),
        "utilization": 100 * measures.utilization,
        "resizes": (measures.every.grows + measures.every.shrinks) / max(1, measures.every.jobs),
        "fairness": measures.fairness,
    }


def _means(group: str, means: Means) -> dict[str, float | None]:
    values = (means.mean_turnaround_s, means.mean_wait_s, means.mean_bounded_slowdown)
    return {f"{group}_{name}": value for name, value in zip(MEASURES, values, strict=True)}


def _waits(records: Sequence[JobRecord]) -> dict[str, float | None]:
    waits = [record.wait_s for record in records if record.wait_s is not None]
    if not waits:
        return {"wait_p95_s": None, "wait_max_s": None}
    return {"wait_p95_s": float(np.percentile(waits, 95)), "wait_max_s": max(waits)}
