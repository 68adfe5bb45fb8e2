"""One simulation of the experiment: its figures, with the quartiles over jobs that the paper draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from scheduler_bridge import policies
from scheduler_bridge.core import settings_for
from scheduler_bridge.experiments.real_workloads.traces import Trace
from scheduler_bridge.experiments.sweep import Cell, Figures, Scale
from scheduler_bridge.sim import JobRecord, ReplayOptions, replay
from scheduler_bridge.workloads import amdahl_logs_rule, convert

STRATEGIES: Final = ("keep-pref", "pref", "min", "avg")
RIGID: Final = "easy"
_NEVER_S: Final = 1e9
"""No job is killed: walltimes are for reservations only, as runtimes beyond them are in the paper's figures."""
PER_JOB: Final = ("turnaround_s", "runtime_s", "wait_s", "expands", "shrinks")
"""Means over jobs, with quartiles; the last two over malleable jobs."""
COLUMNS: Final = (
    "jobs",
    "malleable_jobs",
    "killed",
    *(f"{name}{suffix}" for name in PER_JOB for suffix in ("", "_q25", "_q75")),
    "utilization",
    "rigid_wait_s",
    "rigid_turnaround_s",
    "malleable_wait_s",
    "malleable_turnaround_s",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is simulated.

    Attributes:
        shares: Malleable jobs in percent, beside 0.
        seeds: Each draws which jobs are malleable.
    """

    shares: tuple[int, ...]
    seeds: tuple[int, ...]

    def cells(self, traces: Iterable[Trace]) -> list[Cell]:
        """All simulations, those of the first seed first; without malleable jobs one is enough for each trace."""
        names = [trace.name for trace in traces]
        found = [Cell(name, RIGID, 0, 0) for name in names]
        for seed in self.seeds:
            for name in names:
                found += [Cell(name, policy, share, seed) for share in self.shares for policy in (RIGID, *STRATEGIES)]
        return found


PLANS: Final[dict[Scale, Plan]] = {
    "small": Plan((20, 60, 100), (1,)),
    "full": Plan((20, 40, 60, 80, 100), tuple(range(1, 11))),
}


def simulated(trace: Trace, cell: Cell) -> Figures:
    """Simulate a cell; walltimes are scaled as the scheduler believes, resizes cost nothing."""
    workload = trace.make()
    warmup_s = trace.warmup_of(workload)
    jobs = convert(workload, cell.share / 100, cell.seed, amdahl_logs_rule) if cell.share else workload
    done = replay(
        jobs,
        policies.get(cell.policy),
        options=ReplayOptions(
            settings=replace(settings_for(cell.policy), walltime="scaled", walltime_grace_s=_NEVER_S), warmup_s=warmup_s
        ),
    )
    measures = done.measures
    window = measures.window
    counted = [
        record
        for record in done.result.records.values()
        if record.end_s is not None and window.from_s <= record.spec.submit_s <= window.to_s
    ]
    return figures_of(counted) | {
        "utilization": 100 * measures.utilization,
        "rigid_wait_s": measures.rigid.mean_wait_s,
        "rigid_turnaround_s": measures.rigid.mean_turnaround_s,
        "malleable_wait_s": measures.malleable.mean_wait_s,
        "malleable_turnaround_s": measures.malleable.mean_turnaround_s,
    }


def figures_of(records: Sequence[JobRecord]) -> dict[str, float | None]:
    """Counts, means and quartiles of jobs that ended."""
    malleable = [record for record in records if record.spec.is_malleable]
    waits = [record.wait_s or 0.0 for record in records]
    runtimes = [record.runtime_s or 0.0 for record in records]
    values = {
        "turnaround_s": [wait + runtime for wait, runtime in zip(waits, runtimes, strict=True)],
        "runtime_s": runtimes,
        "wait_s": waits,
        "expands": [float(record.grows) for record in malleable],
        "shrinks": [float(record.shrinks) for record in malleable],
    }
    found: dict[str, float | None] = {
        "jobs": len(records),
        "malleable_jobs": len(malleable),
        "killed": sum(record.outcome != "completed" for record in records),
    }
    for name, column in values.items():
        found[name] = float(np.mean(column)) if column else None
        low, high = (float(value) for value in np.percentile(column, (25, 75))) if column else (None, None)
        found |= {f"{name}_q25": low, f"{name}_q75": high}
    return found


def timeline(trace: Trace, points: int = 400) -> list[tuple[float, float, float]]:
    """Rigid jobs under EASY over time: (seconds, utilization in percent, jobs in the queue)."""
    workload = trace.make()
    records = replay(workload, policies.get(RIGID)).result.records.values()
    spans = [span for record in records for span in record.spans()]
    end_s = max(to_s for _, to_s, _ in spans)
    times = np.linspace(0.0, end_s, points)
    used = _level(times, [(from_s, to_s, nodes) for from_s, to_s, nodes in spans])
    queue = _level(times, [(r.spec.submit_s, r.start_s, 1.0) for r in records if r.start_s is not None])
    return list(zip(times.tolist(), (100 * used / workload.nodes).tolist(), queue.tolist(), strict=True))


def _level(
    times: np.ndarray[tuple[int, ...], np.dtype[np.float64]], spans: Sequence[tuple[float, float, float]]
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """How much is there at each of the times."""
    table = np.array(spans, dtype=np.float64).reshape(-1, 3)
    moments = np.concatenate((table[:, 0], table[:, 1]))
    changes = np.concatenate((table[:, 2], -table[:, 2]))
    order = np.argsort(moments, kind="stable")
    totals = np.concatenate(([0.0], np.cumsum(changes[order])))
    level: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = totals[
        np.searchsorted(moments[order], times, side="right")
    ]
    return level
