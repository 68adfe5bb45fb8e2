"""Which cores the places of a machine compute on.

Places that have inherited the same cores from whoever started them share these out, each a part of its own in
proportion to its workers, as long as there is a core for every worker; else each may use all of them, and the system's
scheduler decides. Nothing is ever used that was not inherited, and places with different cores are left as they are.
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import apgas

_SUPPORTED: Final = hasattr(os, "sched_setaffinity")


@dataclass(frozen=True, slots=True)
class Home:
    """Where a place runs.

    Attributes:
        machine: Tells machines apart, by whatever name they go.
        pid: Its process; simulated places share one.
        cores: The cores that it has inherited, sorted; empty where that cannot be known.
    """

    machine: str
    pid: int
    cores: tuple[int, ...]


class _Inherited:
    """The cores that this place had when it was first asked."""

    def __init__(self) -> None:
        self.cores = tuple(sorted(os.sched_getaffinity(0))) if _SUPPORTED else ()
        self.narrowed = False


_inherited = apgas.PlaceState(_Inherited)


def home() -> Home:
    """Tell where this place runs."""
    return Home(_machine(), os.getpid(), _inherited.get().cores)


def cores_here() -> int:
    """Return the number of cores that this place has inherited."""
    return len(_inherited.get().cores) or os.cpu_count() or 1


def use(cores: tuple[int, ...]) -> None:
    """Let this process compute on ``cores`` only, all of its threads; none: on those that it has inherited."""
    inherited = _inherited.get()
    if not _SUPPORTED or not (cores or inherited.narrowed):
        return
    inherited.narrowed = bool(cores)
    done: set[int] = set()
    # a thread that starts meanwhile has the cores of the one that starts it, which may not have had its turn
    while new := set(_threads()) - done:
        for thread in new:
            # threads come and go, and a cpuset may have shrunk: then the system knows better
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, cores or inherited.cores)
        done |= new


def shares(homes: Mapping[int, Home], workers: Mapping[int, int]) -> dict[int, tuple[int, ...]]:
    """Return the cores of each place; none for those that keep what they have inherited.

    Args:
        homes: Where each place runs, by id.
        workers: The workers of each place.
    """
    together: dict[tuple[str, tuple[int, ...]], list[int]] = defaultdict(list)
    for place, its in sorted(homes.items()):
        together[its.machine, its.cores].append(place)
    found: dict[int, tuple[int, ...]] = {}
    for (_, cores), places in together.items():
        alone = len({homes[place].pid for place in places}) == len(places)
        wanted = sum(workers[place] for place in places)
        fits = alone and len(places) > 1 and wanted <= len(cores)
        found |= _cut(cores, places, workers) if fits else dict.fromkeys(places, ())
    return found


def _cut(cores: tuple[int, ...], places: list[int], workers: Mapping[int, int]) -> dict[int, tuple[int, ...]]:
    """Cut ``cores`` in proportion to the workers; neighbours stay together, and nobody gets less than its workers."""
    total = sum(workers[place] for place in places)
    cut, begin, before = {}, 0, 0
    for place in places:
        before += workers[place]
        end = len(cores) * before // total
        cut[place] = cores[begin:end]
        begin = end
    return cut


def _machine() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return platform.node()


def _threads() -> list[int]:
    try:
        return [int(entry.name) for entry in Path("/proc/self/task").iterdir()]
    except OSError:
        return [0]
