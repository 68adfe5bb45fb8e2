"""The runs in a state folder's log, whether or not a scheduler serves it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from scheduler_bridge.live.config import DaemonError
from scheduler_bridge.live.restore import read_record
from scheduler_bridge.live.store import DATABASE, Store, StoredEra
from scheduler_bridge.record import RunRecord


class Run(msgspec.Struct, frozen=True):
    """One run: from a scheduler that began with no jobs to its end in good order, over all crashes in between."""

    run: int
    began: str
    ended: bool
    nodes: int
    policy: str
    jobs: int
    seconds: float


def runs(folder: Path) -> list[Run]:
    """Return the runs in the log of ``folder``, the first first.

    Raises:
        DaemonError: There is no log, or it cannot be read.
    """
    store = _open(folder)
    try:
        return [_run(store, stored) for stored in store.eras()]
    finally:
        store.close()


def read_run(folder: Path, number: int | None = None) -> RunRecord:
    """Return the record of a run, of the last one unless told.

    Raises:
        DaemonError: There is no such run, no log, or it cannot be read.
    """
    store = _open(folder)
    try:
        eras = {stored.number: stored.era for stored in store.eras()}
        if not eras or (number is not None and number not in eras):
            raise DaemonError(f"{store.path} has no run {number or 1}", "malleable history lists the runs")
        chosen = number if number is not None else max(eras)
        return read_record(store, chosen, eras[chosen])
    finally:
        store.close()


def read_runs(folder: Path) -> list[RunRecord]:
    """Return the records of all runs, the first first.

    Raises:
        DaemonError: There is no log, or it cannot be read.
    """
    store = _open(folder)
    try:
        return [read_record(store, stored.number, stored.era) for stored in store.eras()]
    finally:
        store.close()


def _open(folder: Path) -> Store:
    if not (folder / DATABASE).exists():
        raise DaemonError(
            f"no scheduler has served {folder}", f"start one with: malleable serve --nodes 4 --state {folder}"
        )
    return Store(folder, read_only=True)


def _run(store: Store, stored: StoredEra) -> Run:
    jobs, seconds = store.extent(stored.number)
    era = stored.era
    return Run(stored.number, era.started_at, stored.ended, len(era.nodes), era.policy, jobs, seconds)
