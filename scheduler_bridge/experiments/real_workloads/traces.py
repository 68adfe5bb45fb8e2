"""The workloads of the 2025 paper: 28 real days of Theta, twins of the others, and shorter cuts of both."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from scheduler_bridge.experiments.sweep import Scale
from scheduler_bridge.workloads import TraceError, Workload, load

THETA_FILE: Final = "traces/theta_2023_feb_dec_dras.swf.gz"
NO_THETA: Final = "Theta is left out: its trace is not there (--data DIR, or MALLEABLE_DATA)."
THETA_FROM: Final = dt.datetime(2023, 8, 1, tzinfo=dt.UTC)
WARMUP_S: Final = 12 * 3600.0
"""What the paper leaves out at the beginning [section 2.3]."""
SMALL_WARMUP: Final = 0.1
"""The same of short cuts, as a part of the time of submissions: 12 h are a tenth of five days."""
SMALL_JOBS: Final = {"haswell": 3000, "knl": 3000, "eagle": 4000}
THETA_S: Final = 28 * 86_400.0
_SEED: Final = 1


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
        if self.warmup_s is not None:
            return self.warmup_s
        return SMALL_WARMUP * (workload.jobs[-1].submit_s - workload.jobs[0].submit_s)


def traces(scale: Scale, data: Path | None) -> list[Trace]:
    """The workloads; Theta only where the data are."""
    found = []
    if data is not None and (data / THETA_FILE).exists():
        found.append(Trace("theta", "theta", "Theta, 28 real days", partial(theta, data), WARMUP_S))
        if scale == "full":
            label = "Theta, topped up (partly synthetic)"
            found.append(Trace("theta-topped-up", "theta", label, partial(_topped_up, data), WARMUP_S))
    for name in ("haswell", "knl", "eagle"):
        jobs = SMALL_JOBS[name] if scale == "small" else None
        short = f"-{jobs}" if jobs else ""
        label = f"{name} twin{f', {jobs} jobs' if jobs else ''} (synthetic)"
        label = label.replace("knl", "KNL") if name == "knl" else label.capitalize()
        found.append(Trace(f"{name}-twin{short}", name, label, partial(_twin, name, jobs), _warmup(scale)))
    return found


def _warmup(scale: Scale) -> float | None:
    return WARMUP_S if scale == "full" else None


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
    from scheduler_bridge.workloads.generate.topup import top_up_theta

    return top_up_theta(theta(data), seed=_SEED)


@lru_cache(maxsize=3)
def _twin(name: str, jobs: int | None) -> Workload:
    from scheduler_bridge.workloads.generate.twins import PORTRAITS, twin

    return twin(PORTRAITS[name], seed=_SEED, jobs=jobs)
