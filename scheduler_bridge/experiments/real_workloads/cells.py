"""The workloads of the 2025 paper and one simulation of the experiment: its figures, with quartiles over jobs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import numpy as np

from scheduler_bridge import policies
from scheduler_bridge.experiments.sweep import Cell, Figures, Scale, unending
from scheduler_bridge.sim import ReplayOptions, SimRecord, replay
from scheduler_bridge.sim.measures import Times, Window, counted
from scheduler_bridge.workloads import TraceError, Workload, amdahl_logs_rule, convert, load
from scheduler_bridge.workloads.generate.draw import Floats
from scheduler_bridge.workloads.generate.papers import PORTRAITS, top_up_theta, twin

STRATEGIES: Final = ("keep-pref", "pref", "min", "avg")
RIGID: Final = "easy"
PUBLISHED: Final = "easy-clock-compat"
"""EASY as the authors published it later, which protects no job once the clock is past the first one's walltime."""
OF_RESIZED: Final = {"expands": "expands_of_expanded", "shrinks": "shrinks_of_shrunk"}
"""Means over malleable jobs, and the same over those alone that were expanded, or shrunk, at all."""
PER_JOB: Final = ("turnaround_s", "runtime_s", "wait_s", *OF_RESIZED, *OF_RESIZED.values())
"""Means over jobs, with quartiles."""
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


SHARES: Final[dict[Scale, tuple[int, ...]]] = {"small": (20, 60, 100), "full": (20, 40, 60, 80, 100)}
"""Malleable jobs in percent."""
SEEDS: Final[dict[Scale, tuple[int, ...]]] = {"small": (1,), "full": tuple(range(1, 11))}
"""Each draws which jobs are malleable, and workloads that are no logs."""


def cells_of(shares: Iterable[int], seeds: Sequence[int], traces: Iterable[Trace]) -> list[Cell]:
    """All simulations, those of the first seed first.

    Without malleable jobs a trace has one under either EASY; where all are malleable, one seed is enough.
    """
    names = [trace.name for trace in traces]
    found = [Cell(name, policy, 0, 0) for name in names for policy in (RIGID, PUBLISHED)]
    for seed in seeds:
        drawn = [share for share in shares if share < 100 or seed == seeds[0]]
        for name in names:
            found += [Cell(name, policy, share, seed) for share in drawn for policy in (RIGID, *STRATEGIES)]
    return found


def simulated(traces: Mapping[str, Trace], cell: Cell) -> Figures:
    """Simulate a cell; walltimes are scaled as the scheduler believes, resizes cost nothing.

    No job is killed, for in the paper's figures there are runtimes beyond walltimes.
    """
    trace = traces[cell.trace]
    workload = trace.make()
    warmup_s = trace.warmup_of(workload)
    jobs = convert(workload, cell.share / 100, cell.seed, amdahl_logs_rule) if cell.share else workload
    options = ReplayOptions(settings=unending(cell.policy, scaled=True), warmup_s=warmup_s)
    done = replay(jobs, policies.get(cell.policy), options=options)
    measures = done.measures
    return figures_of(within(done.result.records.values(), measures.window)) | {
        "utilization": 100 * measures.utilization
    }


def within(records: Iterable[SimRecord], window: Window) -> list[SimRecord]:
    """The jobs of the figures: submitted after the warm-up, and ended before the last submission.

    [D] The paper uses only data between these two moments [section 2.3], and does not say what becomes of jobs that run
    beyond. Without them, KNL's rigid turnaround is the printed one under EASY as published: 4,550 s, printed 4,551 s;
    with them it is 5,247 s.
    """
    return [record for record in counted(records, window) if (record.end_s or 0.0) <= window.to_s]


def figures_of(records: Sequence[SimRecord]) -> dict[str, float | None]:
    """Counts, means and quartiles of jobs that ended."""
    malleable = [record for record in records if record.spec.is_malleable]
    groups = {"rigid": [record for record in records if not record.spec.is_malleable], "malleable": malleable}
    times = Times.of(records)
    values: dict[str, Sequence[float]] = {
        "turnaround_s": [wait_s + runtime_s for wait_s, runtime_s in zip(times.wait_s, times.runtime_s, strict=True)],
        "runtime_s": times.runtime_s,
        "wait_s": times.wait_s,
        "expands": [record.grows for record in malleable],
        "shrinks": [record.shrinks for record in malleable],
    }
    values |= {of: [count for count in values[kind] if count] for kind, of in OF_RESIZED.items()}
    found: dict[str, float | None] = {
        "jobs": len(records),
        "malleable_jobs": len(malleable),
        "killed": sum(record.outcome != "completed" for record in records),
    }
    for name, column in values.items():
        found[name] = float(np.mean(column)) if column else None
        low, high = np.percentile(column, (25, 75)).tolist() if column else (None, None)
        found |= {f"{name}_q25": low, f"{name}_q75": high}
    for group, jobs in groups.items():
        times = Times.of(jobs)
        found[f"{group}_wait_s"] = float(np.mean(times.wait_s)) if jobs else None
        found[f"{group}_turnaround_s"] = float(np.mean(np.add(times.wait_s, times.runtime_s))) if jobs else None
    return found


def timeline(trace: Trace, points: int = 400) -> list[tuple[float, float, float]]:
    """Rigid jobs under EASY over time: (seconds, utilization in percent, jobs in the queue)."""
    workload = trace.make()
    records = replay(workload, policies.get(RIGID)).result.records.values()
    spans = [span for record in records for span in record.spans()]
    end_s = max(to_s for _, to_s, _ in spans)
    times = np.linspace(0.0, end_s, points)
    used = _level(times, spans)
    queue = _level(times, [(r.spec.submit_s, r.start_s, 1.0) for r in records if r.start_s is not None])
    return list(zip(times.tolist(), (100 * used / workload.nodes).tolist(), queue.tolist(), strict=True))


def _level(times: Floats, spans: Sequence[tuple[float, float, float]]) -> Floats:
    """How much is there at each of the times."""
    table = np.array(spans, dtype=np.float64).reshape(-1, 3)
    moments = np.concatenate((table[:, 0], table[:, 1]))
    changes = np.concatenate((table[:, 2], -table[:, 2]))
    order = np.argsort(moments, kind="stable")
    totals = np.concatenate(([0.0], np.cumsum(changes[order])))
    return totals[np.searchsorted(moments[order], times, side="right")]


# The workloads of the 2025 paper: real logs of three machines, a twin of the fourth, and shorter cuts of them ---------

THETA_FILE: Final = "traces/theta_2023_feb_dec_dras.swf.gz"
CORI_FILES: Final = {
    "haswell": "traces/cori_haswell_2022-11-07_11.csv.gz",
    "knl": "traces/cori_knl_2022-11-07_11.csv.gz",
}
_LOGS: Final = {"theta": "Theta", "cori-haswell": "Cori Haswell", "cori-knl": "Cori KNL"}
"""How the names of workloads begin that are logs, and what people call these."""
THETA_FROM: Final = dt.datetime(2023, 8, 1, tzinfo=dt.UTC)
WARMUP_S: Final = 12 * 3600.0
"""What the paper leaves out at the beginning [section 2.3]."""
SMALL_JOBS: Final = {"haswell": 5000, "knl": 12_000, "eagle": 4000}
"""About a day of each machine."""
THETA_S: Final = 28 * 86_400.0
_SEED: Final = 1


def small_warmup_s(workload: Workload) -> float:
    """The same of short cuts, a tenth of the time of submissions: 12 h are a tenth of five days."""
    return 0.1 * (workload.jobs[-1].submit_s - workload.jobs[0].submit_s)


@dataclass(frozen=True)
class Trace:
    """A workload of the experiment.

    Attributes:
        name: In tables and files.
        paper: What the paper calls it.
        label: For people; says where jobs are synthetic.
        make: Reads or draws it.
        warmup_s: What is left out; None: a tenth of the time of submissions.
    """

    name: str
    paper: str
    label: str
    make: Callable[[], Workload]
    warmup_s: float | None

    def warmup_of(self, workload: Workload) -> float:
        """Seconds that the figures leave out at the beginning."""
        return small_warmup_s(workload) if self.warmup_s is None else self.warmup_s


def traces(scale: Scale, data: Path | None) -> list[Trace]:
    """The workloads; logs only where the data are."""
    found = []
    if data is not None and (data / THETA_FILE).exists():
        found.append(Trace("theta", "theta", "Theta, 28 real days", partial(theta, data), WARMUP_S))
        if scale == "full":
            label = "Theta, topped up (partly synthetic)"
            found.append(Trace("theta-topped-up", "theta", label, partial(_topped_up, data), WARMUP_S))
    warmup_s = WARMUP_S if scale == "full" else None
    sizes = SMALL_JOBS if scale == "small" else {}
    if data is not None:
        found += [cori_trace(part, data, sizes.get(part), warmup_s) for part in cori_parts(data)]
    jobs = sizes.get("eagle")
    short, cut = (f"-{jobs}", f", {jobs:,} jobs") if jobs else ("", "")
    label = f"Eagle twin{cut} (synthetic)"
    found.append(Trace(f"eagle-twin{short}", "eagle", label, partial(_eagle, jobs), warmup_s))
    return found


def cori_parts(data: Path) -> list[str]:
    """The parts of Cori whose logs are in the folder of the data."""
    return [part for part, file in CORI_FILES.items() if (data / file).exists()]


def cori_trace(part: str, data: Path, jobs: int | None, warmup_s: float | None) -> Trace:
    """The log of a part of Cori, or its first ``jobs`` jobs."""
    name = f"cori-{part}"
    short, cut = (f"-{jobs}", f"first {jobs:,} jobs") if jobs else ("", "5 real days")
    return Trace(f"{name}{short}", part, f"{_LOGS[name]}, {cut}", partial(cori, data, part, jobs), warmup_s)


def left_out(names: Iterable[str]) -> str | None:
    """Say which logs are not among the workloads with these names; None: all are."""
    there = tuple(names)
    missing = [log for name, log in _LOGS.items() if not any(each.startswith(name) for each in there)]
    if not missing:
        return None
    return f"Left out, for the logs are not there (--data DIR, or MALLEABLE_DATA): {', '.join(missing)}."


@lru_cache(maxsize=2)
def theta(data: Path) -> Workload:
    """28 real days of Theta, from the folder of the data.

    Raises:
        TraceError: The trace is not there, or is another one.
    """
    workload = load(data / THETA_FILE)
    if workload.start_unix_s is None:
        raise TraceError(
            f"{data / THETA_FILE}: it does not say when it began", "the public trace does", "fetch it again"
        )
    from_s = THETA_FROM.timestamp() - workload.start_unix_s
    return workload.window(from_s, from_s + THETA_S)


@lru_cache(maxsize=1)
def _topped_up(data: Path) -> Workload:
    return top_up_theta(theta(data), seed=_SEED)


@lru_cache(maxsize=4)
def cori(data: Path, part: str, jobs: int | None = None) -> Workload:
    """Five real days of ``haswell`` or ``knl``, from the folder of the data, cleaned; or the first ``jobs`` jobs.

    Raises:
        TraceError: The log is not there, or cannot be read.
    """
    workload = load(data / CORI_FILES[part])
    return workload if jobs is None else replace(workload, jobs=workload.jobs[:jobs])


@lru_cache(maxsize=1)
def _eagle(jobs: int | None) -> Workload:
    return twin(PORTRAITS["eagle"], seed=_SEED, jobs=jobs or 0)
