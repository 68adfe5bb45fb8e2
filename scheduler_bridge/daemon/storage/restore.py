"""Restores the state from the log: of a new era, of one that a killed daemon left, or of a run that is over."""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import msgspec

from scheduler_bridge import policies
from scheduler_bridge.daemon.config import DaemonConfig, DaemonError
from scheduler_bridge.daemon.storage import log_entries
from scheduler_bridge.daemon.storage.chain import MARK, DamagedError
from scheduler_bridge.daemon.storage.log_entries import BadEntryError, Entry, decode, draft
from scheduler_bridge.daemon.storage.log_state import VERSION, LogState
from scheduler_bridge.daemon.storage.store import DATABASE, Ended, Era, Store, StoredEra, StoreError
from scheduler_bridge.jobrunner import processes
from scheduler_bridge.record import RunRecord

_logger = logging.getLogger(__name__)


Restored: TypeAlias = tuple[LogState, int | None]
"""What a daemon begins with: the state of the last era, and how many rows were read; None for a new era."""


def restore(store: Store, config: DaemonConfig, first_job: int) -> Restored:
    """Take up the last era, or begin one if that ended in good order.

    Args:
        store: The log.
        config: Settings of a new era.
        first_job: Least id of a new era's first job.

    Raises:
        DaemonError: The log is damaged or cannot be written, or this software does not come to the same effects.
        UnknownPolicyError: There is no such policy.
    """
    last = store.last_era()
    store.check_end()
    if store.mark is not None:
        first_job = max(first_job, store.mark.next_job)
    try:
        if last is None or last.end is not None:
            return _begin(store, config, first_job, last.end if last is not None else None)
        policies.get(config.policy, **config.parameters)
        store.check()
        try:
            log_state, rows = _go_on(store, last)
        except (policies.PolicyError, policies.UnknownPolicyError) as error:
            raise DaemonError(
                f"{store.path} has what a policy decided that is not to be had here: {error}",
                "start it as before, with that policy registered; `malleable shutdown` ends the log that needs it",
            ) from None
        log_state.next_job_id = max(log_state.next_job_id, first_job)
        return log_state, rows
    except StoreError as error:
        raise DaemonError(f"cannot write {store.path}: {error.strerror}", "make room, or choose --state") from None


def _begin(store: Store, config: DaemonConfig, first_job: int, last: Ended | None = None) -> Restored:
    era = Era(
        nodes=config.nodes,
        policy=config.policy,
        parameters=dict(config.parameters),
        cores_per_node=config.cores_per_node,
        first_job=max(first_job, last.next_job if last is not None else 1),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        wall_s=time.time(),
        boot=processes.boot(),
        monotonic_s=time.monotonic(),
        past_use=last.past_use if last is not None else {},
    )
    store.begin_era(era)
    return LogState(era), None


def _go_on(store: Store, stored: StoredEra) -> tuple[LogState, int]:
    log_state, after, chain = _thawed(store, stored)
    rows = 0
    for seq, differs in _replayed(store, log_state, stored, after, chain):
        if differs:
            raise DaemonError(
                f"row {seq} of {store.path} is decided otherwise by this policy, or by this version: {differs}",
                "with both as they were, end the scheduler that goes on (malleable serve, then malleable shutdown)",
            )
        rows += 1
    if rows or log_state.jobs:
        _logger.info("%s: %d rows read, %d jobs wait or run", store.path, rows, len(log_state.jobs))
    if (boot := processes.boot()) != log_state.booted.boot:
        # the scheduler's clock goes on: by the monotonic clock, or over a boot by the date, never backwards
        now_s = max(log_state.at_s, time.time() - stored.era.wall_s)
        booted = Entry(log_state.at_s, facts=(log_entries.Booted(boot, time.monotonic() - now_s),))
        store.append([draft(booted).with_effects(log_state.take(booted))])
    return log_state, rows


def _replayed(
    store: Store, log_state: LogState, stored: StoredEra, after: int = 0, chain: bytes = b""
) -> Iterator[tuple[int, str]]:
    """Take the rows of an era in; yield the number of each, and if it leads to other effects than it did, which."""
    for seq, row in store.rows(stored, after, chain):
        try:
            entry, logged = decode(row)
            effects = log_state.take(entry)
        except BadEntryError as error:
            raise DaemonError(
                f"row {seq} of {store.path} cannot be read: {error}", "it was changed, or the disk is damaged"
            ) from None
        same = effects == logged
        yield seq, "" if same else f"at {entry.at_s} s, {entry.events} led to {logged}, now it leads to {effects}"


def _thawed(store: Store, stored: StoredEra) -> tuple[LogState, int, bytes]:
    # A snapshot only spares time: the log alone has the state, so one that is damaged or of another version is left
    # unused rather than refused. The log is different: a row that leads elsewhere than it did ends the start, because
    # jobs run by the old decision.
    frozen = store.snapshot(stored)
    if frozen is not None and frozen.version == VERSION:
        try:
            return LogState.thaw(stored.era, frozen.state), frozen.seq, frozen.chain
        except (
            pickle.UnpicklingError,
            AttributeError,
            TypeError,
            ValueError,
            KeyError,
            EOFError,
            ImportError,
        ) as error:
            _logger.warning("a snapshot of the state cannot be used, the whole log is read: %s", error)
    return LogState(stored.era), 0, b""


def read_record(store: Store, stored: StoredEra) -> RunRecord:
    """Build the record of an era out of its log.

    Raises:
        DaemonError: The log is damaged.
    """
    log_state = LogState(stored.era)
    if others := [seq for seq, differs in _replayed(store, log_state, stored) if differs]:
        _logger.warning(
            "run %d is not shown as it was: this policy, or this version, decides otherwise from row %d of %s on",
            stored.era.run, others[0], store.path,
        )  # fmt: skip
    return log_state.record()


# Runs in the log of a state folder, whether or not a scheduler serves it ---------------------------------------------


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
    with _log(folder) as store:
        return [_described(store, stored) for stored in store.eras()]


def read_run(folder: Path, number: int | None = None) -> RunRecord:
    """Return the record of a run, by default of the last one.

    Raises:
        DaemonError: There is no such run, no log, or it cannot be read.
    """
    with _log(folder) as store:
        eras = {stored.era.run: stored for stored in store.eras()}
        if not eras or (number is not None and number not in eras):
            raise DaemonError(f"{store.path} has no run {number or 1}", "malleable history lists the runs")
        return read_record(store, eras[number if number is not None else max(eras)])


def read_runs(folder: Path) -> list[RunRecord]:
    """Return the records of all runs, the first first.

    Raises:
        DaemonError: There is no log, or it cannot be read.
    """
    with _log(folder) as store:
        return [read_record(store, stored) for stored in store.eras()]


@contextmanager
def _log(folder: Path) -> Iterator[Store]:
    if not (folder / DATABASE).exists():
        if (folder / MARK).exists():
            raise DamagedError(f"{folder / DATABASE} is missing")
        raise DaemonError(
            f"no scheduler has served {folder}", f"start one with: malleable serve --nodes 4 --state {folder}"
        )
    with closing(Store(folder, read_only=True)) as store:
        if store.mark is not None:  # a database may be looked at alone
            store.check_end()
        yield store


def _described(store: Store, stored: StoredEra) -> Run:
    jobs, seconds = store.extent(stored)
    era = stored.era
    return Run(era.run, era.started_at, stored.end is not None, len(era.nodes), era.policy, jobs, seconds)
