"""Which cores the places of a machine compute on.

Places that have inherited the same cores from their parent share these out, each a part of its own in
proportion to its workers, as long as there is a core for every worker; else each may use all of them, and the system's
scheduler decides. Nothing is ever used that was not inherited, and places with different cores are left as they are.

A place whose job was asked to compute on its part of a node's cores only is bound to these, and shares out no others.
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

import apgas
from glb.errors import GlbError

_SUPPORTED: Final = hasattr(os, "sched_setaffinity")
_SCHEDULED: Final = Path("/proc/thread-self/schedstat")


class Home(msgspec.Struct, frozen=True):
    """Where a place runs.

    Attributes:
        machine: Identifies the machine, whatever its names are.
        pid: Its process; simulated places share one.
        cores: The cores that it has inherited, sorted; empty where that cannot be known.
    """

    machine: str
    pid: int
    cores: tuple[int, ...]


class _Cores:
    """The cores that this place had when it was first asked, those that it is bound to, and those that it uses now."""

    def __init__(self) -> None:
        self.inherited = tuple(sorted(os.sched_getaffinity(0))) if _SUPPORTED else ()
        self.bound: tuple[int, ...] = ()
        self.now = self.inherited


_cores = apgas.PlaceState(_Cores)


def home() -> Home:
    """Return where this place runs."""
    return Home(machine_id(), os.getpid(), _cores.get().inherited)


def cores_here(bound: apgas.CoreIds | None) -> int:
    """Return the number of cores that this place is to be bound to, or has inherited."""
    return len((bound and bound.on(apgas.here().node)) or _cores.get().inherited) or os.cpu_count() or 1


def assigned_cores() -> apgas.CoreIds | None:
    """(place 0) Return the cores that the job was asked to bind itself to; None if it was not asked."""
    core_ids = apgas.core_ids()
    return core_ids if core_ids is not None and core_ids.bind else None


def check(place: apgas.Place, cores: tuple[int, ...], inherited: tuple[int, ...]) -> None:
    """See that a place that has inherited cores can be bound to others.

    Raises:
        GlbError: It cannot.
    """
    if not cores:
        return
    what = f"{place} on {place.node} is to compute on cores {list(cores)} only"
    if not inherited:
        raise GlbError(f"{what}, but this system binds no process to cores")
    if not set(cores) <= set(inherited):
        raise GlbError(f"{what}, but may use {list(inherited)}")


def bind(core_ids: apgas.CoreIds | None) -> None:
    """Let this place compute, from now on, on those cores of its node only; None: on those that it has inherited.

    Raises:
        GlbError: It may not use them.
    """
    here, mine = apgas.here(), _cores.get()
    cores = core_ids.on(here.node) if core_ids is not None else ()
    check(here, cores, mine.inherited)
    if cores != mine.bound:
        mine.bound = cores
        use(())


def release() -> None:
    """Let this process compute on the cores that it has inherited, whatever it is bound to."""
    use(_cores.get().inherited)


def use(cores: tuple[int, ...]) -> None:
    """Let this process compute on ``cores`` only; none: on those that it is bound to, or else has inherited."""
    mine = _cores.get()
    cores = cores or mine.bound or mine.inherited
    if cores != mine.now:
        mine.now = cores
        _set(cores)


def _set(cores: tuple[int, ...]) -> None:
    """Let all threads of this process run on ``cores``."""
    done: set[int] = set()
    # a thread that starts meanwhile has the cores of the one that starts it, which may not have had its turn
    while new := set(_threads()) - done:
        for thread in new:
            # threads come and go, and a cpuset may have shrunk: then the system knows better
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, cores)
        done |= new


def waited_s() -> float:
    """Return for how long this thread was ready to run, and had no core; 0 where the system does not say so."""
    try:
        return int(_SCHEDULED.read_bytes().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def shares(homes: Mapping[int, Home], workers: Mapping[int, int]) -> dict[int, tuple[int, ...]]:
    """Return the cores of each place, by id; none for those that keep what they have inherited."""
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
    """Cut ``cores`` in proportion to the workers; neighbours stay together, and no place gets less than its workers."""
    total = sum(workers[place] for place in places)
    cut, begin, before = {}, 0, 0
    for place in places:
        before += workers[place]
        end = len(cores) * before // total
        cut[place] = cores[begin:end]
        begin = end
    return cut


def machine_id() -> str:
    """Name the machine under this place, however many node names it goes by."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return platform.node()


def _threads() -> list[int]:
    try:
        return [int(entry.name) for entry in Path("/proc/self/task").iterdir()]
    except OSError:
        return [0]
