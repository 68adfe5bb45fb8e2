"""The workloads of the experiment, and one simulation on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import numpy as np

from scheduler_bridge import policies
from scheduler_bridge.experiments.real_workloads import cells
from scheduler_bridge.experiments.sweep import Cell, Figures, Scale, unending
from scheduler_bridge.sim import Behaviour, Means, ReplayOptions, parse_cost, replay
from scheduler_bridge.sim.measures import Times, counted
from scheduler_bridge.workloads import Workload, convert, mebf_rule
from scheduler_bridge.workloads.conversion import Rule, amdahl_rule
from scheduler_bridge.workloads.generate.models import cirne, lublin
from scheduler_bridge.workloads.generate.papers import PORTRAITS, batch, twin

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


SHARES: Final[dict[Scale, tuple[int, ...]]] = {"small": (50,), "full": (50, 100)}
"""Malleable jobs in percent."""
SEEDS: Final[dict[Scale, tuple[int, ...]]] = {"small": (1, 2), "full": tuple(range(1, 11))}


def cells_of(shares: Iterable[int], seeds: Iterable[int], traces: Iterable[Trace]) -> list[Cell]:
    """All simulations, those of the first seed first."""
    names = [trace.name for trace in traces]
    every = [*OTHERS, OWN, *(without(what) for what in WITHOUT)]
    return [Cell(name, policy, share, seed) for seed in seeds for name in names for share in shares for policy in every]


def without(what: str) -> str:
    """The name of the own policy with an ingredient off."""
    return f"{OWN}: {what}"


def simulated(traces: Mapping[str, Trace], cell: Cell) -> Figures:
    """Simulate a cell; walltimes are scaled as the scheduler believes."""
    trace = traces[cell.trace]
    workload = trace.make(cell.seed, cell.share)
    name, _, what = cell.policy.partition(": ")
    settings = unending(name, scaled=True)
    if name == "sd-policy":
        settings = replace(settings, cores_per_node=_CORES)
    warmup_s = None if trace.whole else cells.small_warmup_s(workload)
    options = ReplayOptions(behaviour=Behaviour(cost=parse_cost(trace.cost)), settings=settings, warmup_s=warmup_s)
    done = replay(workload, policies.get(name, **(WITHOUT[what] if what else {})), options=options)
    measures = done.measures
    waits_s = Times.of(counted(done.result.records.values(), measures.window)).wait_s
    return {
        "jobs": measures.every.jobs,
        **_means("all", measures.every),
        **_means("rigid", measures.rigid),
        **_means("malleable", measures.malleable),
        "wait_p95_s": float(np.percentile(waits_s, 95)) if waits_s else None,
        "wait_max_s": max(waits_s, default=None),
        "utilization": 100 * measures.utilization,
        "resizes": (measures.every.grows + measures.every.shrinks) / max(1, measures.every.jobs),
        "fairness": measures.fairness,
    }


def _means(group: str, means: Means) -> dict[str, float | None]:
    values = (means.mean_turnaround_s, means.mean_wait_s, means.mean_bounded_slowdown)
    return {f"{group}_{name}": value for name, value in zip(MEASURES, values, strict=True)}


# The workloads: logs where they are at hand, twins of other machines, and generators ----------------------------------

_MEBF_RULE: Final = mebf_rule("medium", overheads=None)
_FIRST_BATCH: Final = 41
"""The paper's batches have the seeds from 42 on."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A workload of the experiment.

    Attributes:
        name: In tables and files.
        label: For people; says where jobs are synthetic.
        make: Reads or draws it, from a seed and the percentage of malleable jobs.
        cost: What resizes cost, as for ``parse_cost``.
        whole: Whether all of it counts; else a warm-up is left out at the beginning.
        tuned: The own policy's parameters were chosen on other seeds of it.
    """

    name: str
    label: str
    make: Callable[[int, int], Workload]
    cost: str = "none"
    whole: bool = False
    tuned: bool = False


SIZES: Final[dict[Scale, dict[str, int]]] = {
    "small": {"haswell": 400, "knl": 400, "eagle": 400, "ricc": 300, "kit": 250, "lublin": 250, "cirne": 200},
    "full": {"eagle": 3000, "ricc": 1500, "kit": 1000, "lublin": 1500, "cirne": 1000},
}
"""How many jobs are drawn, or are taken of a log; else it is taken as it is."""


def traces(scale: Scale, data: Path | None) -> list[Trace]:
    """The workloads; logs only where the data are."""
    jobs = SIZES[scale]
    found = [_real(trace) for trace in cells.traces(scale, data) if trace.paper == "theta"]
    if data is not None:
        found += [_real(cells.cori_trace(part, data, jobs.get(part), None)) for part in cells.cori_parts(data)]
    for name, what in (("eagle", "Eagle"), ("ricc", "RICC")):
        make = partial(_converted, partial(_twin, name, jobs[name]))
        found.append(Trace(f"{name}-twin", f"{what} twin (synthetic)", make))
    make = partial(_converted, partial(_twin, "kit", jobs["kit"], 0.75), rule=_MEBF_RULE)
    found.append(Trace("kit-twin", "KIT twin, intensive, resizes cost (synthetic)", make, "mebf:10", tuned=True))
    make = partial(_converted, partial(lublin, jobs["lublin"], 100, load=0.9))
    found.append(Trace("lublin", "Lublin-Feitelson, 100 nodes, load 0.9 (synthetic)", make, tuned=True))
    make = partial(_converted, partial(cirne, jobs["cirne"], 256, load=1.5), rule=_MEBF_RULE)
    found.append(Trace("cirne", "Cirne-Berman form, 256 nodes, load 1.5 (synthetic)", make, tuned=True))
    found.append(Trace("batch", "25 jobs for 32 nodes (synthetic)", _batch, "measured", whole=True))
    return found


def _real(trace: cells.Trace) -> Trace:
    return Trace(trace.name, trace.label, partial(_converted, trace.make, drawn=False), tuned=trace.paper != "knl")


def _converted(
    make: Callable[..., Workload], seed: int, share: int, *, rule: Rule = amdahl_rule, drawn: bool = True
) -> Workload:
    """What ``make`` reads, or draws from the seed, with this percentage of malleable jobs."""
    workload = make(seed=seed) if drawn else make()
    return convert(workload, share / 100, seed, rule) if share else workload


@lru_cache(maxsize=2)
def _twin(name: str, jobs: int, arrivals: float = 1.0, *, seed: int) -> Workload:
    return twin(PORTRAITS[name], seed=seed, jobs=jobs, arrival_factor=arrivals)


def _batch(seed: int, share: int) -> Workload:
    return batch(seed=_FIRST_BATCH + seed, malleable=share / 100)
