"""How much a place computes while others come and go."""

from __future__ import annotations

import bisect
import threading
import time
from typing import Final

import apgas

from ...harness.channel import Answer, Command
from .ours_resize import Resizer

PERIOD_S: Final = 0.001
SHARE: Final = 0.2
CATCH_UP_S: Final = 0.25
"""As with the pacing of the balancer."""
QUIET_S: Final = 0.1
"""Between two resizes: longer than what a resize leaves to be done."""
AFTERMATH_S: Final = QUIET_S / 4
"""Belongs to the resize before."""

_stop = threading.Event()


def lost(resizer: Resizer, other: apgas.Place, command: Command) -> Answer:
    """Grow and shrink by one, ``cycles`` times, while ``other`` computes; return the shares of compute lost.

    What is lost between resizes is the machine's doing: the losses of resizes are those beside it.
    """
    windows: dict[str, list[tuple[float, float]]] = {"grow": [], "shrink": [], "quiet": []}

    def rest() -> None:
        began_s = time.monotonic()
        time.sleep(QUIET_S)
        windows["quiet"].append((began_s + AFTERMATH_S, time.monotonic()))

    with apgas.finish():
        computed = apgas.async_at(other, compute)
        time.sleep(QUIET_S)
        for _ in range(command["cycles"]):
            for kind, resize in (("grow", resizer.grow), ("shrink", resizer.shrink)):
                rest()
                began_s = time.monotonic()
                resize(1)
                windows[kind].append((began_s, time.monotonic() + AFTERMATH_S))
        rest()
        apgas.immediate(other, stop)
    speed = {kind: share_done(computed.result(), spans) for kind, spans in windows.items()}
    return {
        "grow_lost": 1 - speed["grow"] / speed["quiet"],
        "shrink_lost": 1 - speed["shrink"] / speed["quiet"],
        "quiet_lost": 1 - speed["quiet"],
    }


def share_done(done_s: list[float], spans: list[tuple[float, float]]) -> float:
    """Return the share of the units due in ``spans`` that were done in them; if none is lost, a little around 1.

    Args:
        done_s: When each unit was done, ascending.
        spans: Begin and end of the time looked at.
    """
    due = sum(end - begin for begin, end in spans) / PERIOD_S
    done = sum(bisect.bisect(done_s, end) - bisect.bisect(done_s, begin) for begin, end in spans)
    return done / due


def compute() -> list[float]:
    """Do a unit of work every ``PERIOD_S`` until ``stop``, as emulated nodes do: one that is late catches up.

    What it is behind by more than ``CATCH_UP_S`` is lost.

    Returns:
        When each unit was done, in s of the machine's monotonic clock.
    """
    _stop.clear()
    rounds = _rounds_in(SHARE * PERIOD_S)
    done: list[float] = []
    due_s = time.monotonic()
    while not _stop.is_set():
        sum(range(rounds))
        now_s = time.monotonic()
        done.append(now_s)
        due_s = max(due_s + PERIOD_S, now_s - CATCH_UP_S)
        time.sleep(max(0.0, due_s - now_s))
    return done


def stop() -> None:
    """End ``compute`` on this place."""
    _stop.set()


def _rounds_in(seconds: float) -> int:
    """Return for how many rounds a sum takes so long on a quiet core."""
    rounds = 20_000
    best_s = min(_timed(rounds) for _ in range(5))
    return max(1, int(rounds * seconds / best_s))


def _timed(rounds: int) -> float:
    before_s = time.perf_counter()
    sum(range(rounds))
    return time.perf_counter() - before_s
