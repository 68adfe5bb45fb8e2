"""How busy the machine was, and with whom."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler_bridge.live.trial import children_cpu_s
from scheduler_bridge.record import RunRecord, makespan_s

_BUSY = slice(1, 4)
"""Of the fields of /proc/stat: user, nice, system; idle and waiting for disks follow, then interrupts and steal."""
_STOLEN = slice(6, 9)


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds so far.

    Attributes:
        at_s: When that was, monotonic.
        jobs_s: Of processes that were started from here and have ended.
        own_s: Of this process.
        machine_s: Of everybody on all cores of this machine; None: it does not tell.
    """

    at_s: float
    jobs_s: float
    own_s: float
    machine_s: float | None

    @classmethod
    def now(cls) -> Usage:
        """Look."""
        return cls(time.monotonic(), children_cpu_s(), time.process_time(), _machine_s())


def used(before: Usage, record: RunRecord) -> dict[str, Any]:
    """What the emulation used of the machine since ``before``, others as well, and how far places fell behind.

    Returns:
        ``cores`` that this process may use; CPU ``seconds`` of the jobs and their ``share`` of the cores during the
        batch; ``scheduler_s``; ``others_share``: what processes of others used of the whole machine, from 0 to 1, None
        where that is not known; ``worst_lag_s`` of all places; ``given_up_s``: place-seconds that were never caught up.
    """
    after = Usage.now()
    cores = len(os.sched_getaffinity(0))
    seconds = after.jobs_s - before.jobs_s
    scheduler_s = after.own_s - before.own_s
    places = [place for job in record.jobs for place in (job.result or {}).get("places", [])]
    makespan = makespan_s(record)
    others: float | None = None
    if before.machine_s is not None and after.machine_s is not None and after.at_s > before.at_s:
        capacity_s = (os.cpu_count() or cores) * (after.at_s - before.at_s)
        others = max(0.0, after.machine_s - before.machine_s - seconds - scheduler_s) / capacity_s
    return {
        "cores": cores,
        "seconds": seconds,
        "share": seconds / (cores * makespan) if makespan else 0.0,
        "scheduler_s": scheduler_s,
        "others_share": others,
        "worst_lag_s": max((place["worst_lag_s"] for place in places), default=0.0),
        "given_up_s": sum(place.get("given_up_s", 0.0) for place in places),
    }


def _machine_s() -> float | None:
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
        return sum(int(ticks) for ticks in (*fields[_BUSY], *fields[_STOLEN])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
