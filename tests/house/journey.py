"""Two places, and which files of the project one `async_at` within a `finish` runs through on both.

Started by `measure.py` as `mpiexec -n 2 python journey.py`; prints one JSON object. A profiler notes every call of the
project's functions with its time. The places are processes of one machine and share its monotonic clock, so the times
of begin and end of a `finish` on place 0 select the calls of place 1, too.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

import apgas
from apgas import Place, async_at, at, finish, places

ROOT = str(Path(__file__).resolve().parents[2])
PACKAGES = tuple(f"{ROOT}/{package}/" for package in ("apgas", "glb", "benchmarks", "scheduler_bridge"))
REPEATS = 30
WARM_UP = 10  # the first calls open connections, pickle the function and learn that it is short

calls: list[tuple[int, str]] = []


def note(frame: FrameType, event: str, argument: Any) -> None:
    if event == "call" and frame.f_code.co_filename.startswith(PACKAGES):
        calls.append((time.monotonic_ns(), frame.f_code.co_filename[len(ROOT) + 1 :]))


def nothing() -> None:
    pass


def calls_here() -> list[tuple[int, str]]:
    return list(calls)


def one_finish(place: Place) -> tuple[int, int]:
    """When it began and when it had ended."""
    began = time.monotonic_ns()
    with finish():
        async_at(place, nothing)
    return began, time.monotonic_ns()


def main() -> None:
    other = places()[1]
    spans = [one_finish(other) for _ in range(WARM_UP + REPEATS)][WARM_UP:]
    both = calls_here() + at(other, calls_here)
    journeys = [[name for when, name in both if began <= when <= ended] for began, ended in spans]
    # Timers and what is left of the call before may fall into a journey: the one through the fewest files has none.
    shortest = min(journeys, key=lambda names: (len(set(names)), len(names)))
    print(json.dumps({"files": sorted(set(shortest)), "calls": len(shortest)}))


if __name__ == "__main__":
    threading.setprofile(note)  # of threads that start from now on: the runtime's
    sys.setprofile(note)
    apgas.run(main)
