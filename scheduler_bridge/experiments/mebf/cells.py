"""One simulation of the experiment, and which ones there are."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from msgspec import structs

from scheduler_bridge import policies
from scheduler_bridge.experiments.sweep import Cell, Figures, Scale, unending
from scheduler_bridge.sim import Behaviour, ReplayOptions, SimRecord, parse_cost, replay
from scheduler_bridge.workloads import TraceJob, Workload, convert, mebf_rule
from scheduler_bridge.workloads.conversion import Rule
from scheduler_bridge.workloads.generate.papers import PORTRAITS, twin

# Utilization over time [figure 11] -----------------------------------------------------------------------------------
#
# In steps of four hours, from the beginning of the workload on.

STEP_H: Final = 4
HOURS: Final = tuple(range(0, 96, STEP_H))
"""At which hours the steps begin. 1,000 jobs arrive within two days [D: what follows is as long]."""
_STEP_S: Final = 3600.0 * STEP_H


def column(hour: int) -> str:
    """The name of the figure of the step that begins at this hour."""
    return f"utilization_from_{hour}_h"


def utilizations(records: Iterable[SimRecord], nodes: int) -> dict[str, float]:
    """The node-seconds on which jobs computed, in percent of those of all ``nodes`` nodes, by step."""
    busy = [0.0] * len(HOURS)
    for record in records:
        for from_s, to_s, held in record.spans():
            first, last = int(from_s // _STEP_S), int(to_s // _STEP_S)
            for step in range(first, min(last + 1, len(busy))):
                inside_s = min(to_s, (step + 1) * _STEP_S) - max(from_s, step * _STEP_S)
                busy[step] += inside_s * held
    return {column(hour): 100 * seconds / (nodes * _STEP_S) for hour, seconds in zip(HOURS, busy, strict=True)}


# The simulations -----------------------------------------------------------------------------------------------------

SEEDS: Final[dict[Scale, tuple[int, ...]]] = {"small": (1,), "full": tuple(range(1, 11))}
"""Each draws a twin and its malleable jobs."""
EBF: Final = "easy"
EXPANDS: Final = ("handoff", "spare", "intensive")
SCALABILITIES: Final = ("low", "medium", "high")
SIZES: Final = ("1k", "5k")
_JOBS: Final = {"1k": 1000, "5k": 5000}
_ARRIVALS: Final = {"normal": 1.0, "intensive": 0.75}
_SCALE_S: Final = {"full": 10.0, "half": 5.0}
_ERROR: Final = 0.1
"""Rho is larger by this than the scheduler believes [section 4.3]."""
GROUPS: Final = ((1, 1), (2, 4), (5, 16), (17, 64), (65, 500))
"""Sizes of jobs for the shares of expands [D]."""
COMMON: Final = ("turnaround_s", "wait_s", "runtime_s", "slowdown", "utilization")
COLUMNS: Final = (
    *COMMON,
    "expands",
    "shrinks",
    "backfills",
    *(f"expands_{low}_to_{high}" for low, high in GROUPS),
    *(column(hour) for hour in HOURS),
)


def variant(size: str, load: str, scalability: str = "low", overhead: str = "full", *, error: bool = False) -> str:
    """The name of a workload, as the paper's are: size, load, scalability of malleable jobs, overhead of resizes."""
    return " ".join((size, load, scalability, overhead, *(["error"] if error else [])))


def cells(seeds: Iterable[int]) -> list[Cell]:
    """All simulations, those of the first seed first."""
    found: list[Cell] = []
    for seed in seeds:
        found += [Cell(f"{size} {load}", EBF, 0, seed) for size in SIZES for load in _ARRIVALS]
        names = [variant(size, "normal", at) for size in SIZES for at in ("low", "medium")]
        names += [variant(size, "intensive", scalability) for size in SIZES for scalability in SCALABILITIES]
        names += [variant("5k", "intensive", "high", "half"), variant("1k", "intensive", "medium", error=True)]
        found += [Cell(name, policy, 100, seed) for name in names for policy in EXPANDS]
        at = variant("1k", "intensive", "medium")
        found += [Cell(at, policy, share, seed) for share in (40, 60, 80) for policy in EXPANDS]
        names = [variant("1k", "intensive", scalability) for scalability in ("low", "high")]
        found += [Cell(name, policy, share, seed) for name in names for share in (60, 80) for policy in EXPANDS]
        plus = [variant(size, "intensive", scalability) for size in SIZES for scalability in SCALABILITIES]
        plus.append(variant("5k", "normal", "medium"))
        found += [Cell(name, policy, 100, seed) for name in plus for policy in ("shrink+", "expand+")]
    return found


def simulated(cell: Cell) -> Figures:
    """Simulate a cell.

    Its trace is a variant; its policy ``easy``, a way of MEBF to expand, or ``shrink+`` or ``expand+`` (with handoff).
    """
    size, load, *more = cell.trace.split()
    workload = _twin(_JOBS[size], _ARRIVALS[load], cell.seed)
    static_s = sum(job.runtime_s for job in workload.jobs) / len(workload)
    behaviour, parameters, name = Behaviour(), {}, EBF
    if cell.policy != EBF:
        scalability, overhead, *error = more
        workload = convert(workload, cell.share / 100, cell.seed, _rule(scalability, error=bool(error)))
        plus = cell.policy.endswith("+")
        behaviour = Behaviour(cost=parse_cost(f"mebf:{_SCALE_S[overhead]}"))
        parameters = {
            "expand": "handoff" if plus else cell.policy,
            "plus": cell.policy.removesuffix("+") if plus else "none",
            "scale_s": _SCALE_S[overhead],
        }
        name = "mebf"
    options = ReplayOptions(behaviour=behaviour, settings=unending(name, scaled=True))
    done = replay(workload, policies.get(name, **parameters), options=options)
    every = done.measures.every
    records = list(done.result.records.values())
    turnaround_s = every.mean_turnaround_s or 0.0
    figures: dict[str, float | None] = {
        "turnaround_s": turnaround_s,
        "wait_s": every.mean_wait_s,
        "runtime_s": every.mean_runtime_s,
        "slowdown": turnaround_s / static_s,
        "utilization": 100 * done.measures.utilization,
        "expands": every.grows,
        "shrinks": every.shrinks,
        "backfills": backfills(records),
    }
    for low, high in GROUPS:
        of = [record.grows for record in records if low <= record.spec.nodes <= high]
        figures[f"expands_{low}_to_{high}"] = sum(of)
    return figures | utilizations(records, workload.nodes)


def backfills(records: Sequence[SimRecord]) -> int:
    """How many jobs started before one that was submitted earlier."""
    count, latest_s = 0, 0.0
    for record in sorted(records, key=lambda record: (record.spec.submit_s, record.spec.job_id)):
        start_s = record.start_s or 0.0
        count += start_s < latest_s
        latest_s = max(latest_s, start_s)
    return count


@lru_cache(maxsize=4)
def _twin(jobs: int, arrivals: float, seed: int) -> Workload:
    return twin(PORTRAITS["kit"], seed=seed, jobs=jobs, arrival_factor=arrivals)


def _rule(scalability: str, *, error: bool) -> Rule:
    usual = mebf_rule(scalability)
    if not error:
        return usual

    def wrong(job: TraceJob, machine_nodes: int, rng: random.Random) -> TraceJob:
        believed = usual(job, machine_nodes, rng)
        return structs.replace(believed, speedup=f"power:{believed.rho + _ERROR!r}")

    return wrong
