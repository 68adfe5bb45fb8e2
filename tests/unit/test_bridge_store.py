"""The log on disk: what is written is read again, and what cannot be is said clearly."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from support.logged import encode

from scheduler_bridge.core import events
from scheduler_bridge.core import events as ev
from scheduler_bridge.daemon import DaemonConfig, DaemonError, JobRequest, read_run, runs
from scheduler_bridge.daemon.storage import log_entries, restore
from scheduler_bridge.daemon.storage.log_entries import BadEntryError, Entry, Row, decode
from scheduler_bridge.daemon.storage.log_state import VERSION, LogState, spec_of
from scheduler_bridge.daemon.storage.store import DATABASE, Store, StoreError
from scheduler_bridge.jobrunner import processes

REQUEST = JobRequest(name="j", command=("x",), environment={"A": "ü"})
ENTRY = Entry(1.5, (ev.JobSubmitted(spec_of(1, REQUEST, 1.5)), ev.WakeUp()), (log_entries.Requested(1, REQUEST),))
EFFECTS: list[events.Effect] = [events.StartJob(1, ("a",)), events.WakeAt(3601.5)]


@pytest.fixture
def config(tmp_path: Path) -> DaemonConfig:
    return DaemonConfig(("a", "b"), state_dir=tmp_path, policy="easy")


def written(config: DaemonConfig, *entries_: Entry, freeze: Callable[[LogState], bytes] = lambda _: b"") -> LogState:
    """Write a log as a daemon would that is killed then, with what ``freeze`` returns as a snapshot, if anything."""
    store = Store(config.state_dir)
    log_state, _ = restore.restore(store, config, 1)
    rows = [encode(entry, log_state.take(entry)) for entry in entries_]
    if state := freeze(log_state):
        rows[-1] = replace(rows[-1], frozen=(VERSION, state))
    store.append(rows)
    store.close()
    return log_state


def damaged(config: DaemonConfig, statement: str) -> None:
    with sqlite3.connect(config.state_dir / DATABASE) as base:
        base.execute(statement)
    base.close()


def again(config: DaemonConfig) -> restore.Restored:
    store = Store(config.state_dir)
    try:
        return restore.restore(store, config, 1)
    finally:
        store.close()


def test_entries_are_read_as_they_were_written() -> None:
    assert decode(encode(ENTRY, EFFECTS)) == (ENTRY, EFFECTS)
    assert decode(encode(Entry(0.0), [])) == (Entry(0.0), [])
    facts = (
        log_entries.Reported(1, 2, "done", "", 0.5, {"spawn": 0.1}), log_entries.Abandoned(1, 2),
        log_entries.Loss(1, 0), log_entries.Answered(1, 3, -1, "no"), log_entries.Held(1, held=True, by="operator"),
        log_entries.Prioritised(1, 5), log_entries.Noted("n"),
        log_entries.Result(1, {"a": [1]}), log_entries.Policy("easy", {}),
        log_entries.Configured(("a",), "easy", {"b": 1}),
    )  # fmt: skip
    assert decode(encode(Entry(0.0, (), facts), []))[0].facts == facts


@pytest.mark.parametrize("row", [Row(0.0, "x", "[]", "[]"), Row(0.0, '[{"type":"Unknown"}]', "[]", "[]")])
def test_an_entry_that_is_none_is_refused(row: Row) -> None:
    with pytest.raises(BadEntryError):
        decode(row)


def test_a_log_adds_up_to_the_same_state(config: DaemonConfig) -> None:
    before = written(config, ENTRY, Entry(2.0, (ev.JobStarted(1),)))
    log_state, rows = again(config)
    assert rows == 2
    assert log_state.core.snapshot() == before.core.snapshot()
    assert log_state.recorder.record() == before.recorder.record()
    assert log_state.jobs == before.jobs
    (held,) = log_state.held()
    assert (log_state.core.nodes_of(held.spec.job_id), held.attempt, held.request) == (("a",), 1, REQUEST)


def test_a_log_says_whose_a_hold_is(config: DaemonConfig) -> None:
    waits = msgspec.structs.replace(REQUEST, hold=True)
    written(
        config,
        Entry(1.0, (), (log_entries.Requested(1, REQUEST), log_entries.Held(1, held=True, by="operator"))),
        Entry(2.0, (), (log_entries.Requested(2, REQUEST), log_entries.Held(2, held=True, by="user"))),
        Entry(3.0, (), (log_entries.Requested(3, waits),)),
    )
    held_by = {job_id: job.held_by for job_id, job in again(config)[0].jobs.items()}
    assert held_by == {1: "operator", 2: "user", 3: "user"}


def test_a_snapshot_spares_the_rows_before_it(config: DaemonConfig) -> None:
    before = written(config, ENTRY, Entry(2.0, (ev.JobStarted(1),)), freeze=LogState.freeze)
    store = Store(config.state_dir)
    store.append([encode(Entry(3.0), [])])
    store.close()
    damaged(config, "UPDATE entries SET events = 'unreadable' WHERE seq = 2")
    log_state, rows = again(config)
    assert rows == 1
    assert log_state.core.snapshot() == before.core.snapshot()
    damaged(config, "UPDATE snapshots SET version = 'another'")
    with pytest.raises(DaemonError, match=r"row 2 of .* is damaged: it is not what was written"):
        again(config)


@pytest.mark.parametrize("state", [b"N", b"no pickle"])
def test_a_snapshot_that_cannot_be_read_is_not_needed(config: DaemonConfig, state: bytes) -> None:
    before = written(config, ENTRY, Entry(2.0, (ev.JobStarted(1),)), freeze=lambda _: state)
    log_state, rows = again(config)
    assert (rows, log_state.jobs) == (2, before.jobs)


def test_an_era_that_ended_well_is_followed_by_another(config: DaemonConfig) -> None:
    written(config, ENTRY)
    store = Store(config.state_dir)
    store.end_era(8)
    store.close()
    log_state, rows = again(config)
    assert (rows, log_state.next_job_id) == (None, 8)
    assert [(run.run, run.jobs, run.ended) for run in runs(config.state_dir)] == [(1, 1, True), (2, 0, False)]


def test_a_log_that_this_version_decides_otherwise_is_refused(
    config: DaemonConfig, caplog: pytest.LogCaptureFixture
) -> None:
    written(config)
    store = Store(config.state_dir)
    store.append([encode(ENTRY, [])])
    store.close()
    with pytest.raises(DaemonError, match=r"row 2 of .* is decided otherwise by this policy"):
        again(config)
    assert read_run(config.state_dir).jobs  # as it would have been
    assert "run 1 is not shown as it was: this policy, or this version, decides otherwise from row 2 of" in caplog.text


def test_a_newer_log_is_refused(config: DaemonConfig) -> None:
    written(config)
    damaged(config, "PRAGMA user_version = 4")
    with pytest.raises(DaemonError, match="has version 4, this software reads version 3"):
        Store(config.state_dir)


def test_another_database_is_left_alone(config: DaemonConfig) -> None:
    damaged(config, "CREATE TABLE mine (x)")
    with pytest.raises(DaemonError, match="is not a scheduler's log"):
        Store(config.state_dir)


def test_a_damaged_log_is_refused(config: DaemonConfig) -> None:
    written(config, *[ENTRY, *(Entry(2.0 + number) for number in range(2000))])
    path = config.state_dir / DATABASE
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4096] = b"\xff" * 4096
    path.write_bytes(content)
    with pytest.raises(DaemonError, match="is damaged: "):
        again(config)
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(DaemonError, match="is damaged: file is not a database"):
        Store(config.state_dir)


def test_a_log_that_is_damaged_behind_an_era_that_ended_is_refused(config: DaemonConfig) -> None:
    written(config, ENTRY)
    store = Store(config.state_dir)
    store.end_era(2)
    (page,) = store._base.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'entries'").fetchone()
    store.close()
    with (config.state_dir / DATABASE).open("r+b") as file:
        file.seek(4096 * (page - 1))
        file.write(b"\xff" * 4096)
    with pytest.raises(DaemonError, match="is damaged: "):
        again(config)


def test_what_finds_no_room_leaves_nothing_behind(config: DaemonConfig) -> None:
    written(config)
    store = Store(config.state_dir)
    store.append([])  # from now on it is open for writing
    store._base.execute("PRAGMA max_page_count = 1")
    with pytest.raises(StoreError, match="full"):
        store.append([Row(0.0, "x" * 100_000, "[]", "[]")])
    store._base.execute("PRAGMA max_page_count = 1000000")
    assert store.last_seq() == 1
    store.append([Row(0.0, "[]", "[]", "[]")])
    assert store.last_seq() == 2
    store.close()


def test_the_clock_goes_on_over_a_boot_and_never_back(config: DaemonConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    written(config, Entry(50.0, (ev.WakeUp(),)))
    began_s, origins_s = time.time(), list[float]()
    for number, (late_s, least_s) in enumerate(((1000.0, 1000.0), (-9999.0, 50.0), (1000.0, 50.0))):
        monkeypatch.setattr(processes, "boot", lambda number=number: f"boot {min(number, 1)}")
        monkeypatch.setattr(time, "time", lambda late_s=late_s: began_s + late_s)
        origins_s.append(again(config)[0].booted.monotonic_s)
        assert least_s <= time.monotonic() - origins_s[-1] < least_s + 60.0
    assert origins_s[1] == origins_s[2], "it is the same boot"


def test_a_store_that_is_closed_has_its_database_closed(config: DaemonConfig) -> None:
    store = Store(config.state_dir)
    store.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        store._base.execute("SELECT 1")
