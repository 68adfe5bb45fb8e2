"""What the scheduler and its runners leave on the disk: who may read it, and when it is there for good."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler_bridge.daemon.config import DaemonError
from scheduler_bridge.daemon.storage.chain import MARK
from scheduler_bridge.daemon.storage.log_entries import Row
from scheduler_bridge.daemon.storage.state import LOCK, SECRET, StateFolder
from scheduler_bridge.daemon.storage.store import DATABASE, Ended, Era, Store
from scheduler_bridge.jobrunner import processes
from scheduler_bridge.jobrunner.notes import Ending, Notes
from scheduler_bridge.jobrunner.run import Launch

ERA = Era(
    nodes=("a",), policy="easy", parameters={}, first_job=1, started_at="2026-01-01", wall_s=0.0, boot="b",
    monotonic_s=0.0,
)  # fmt: skip


@pytest.fixture
def generous() -> Iterator[None]:
    """A umask that takes nothing away, so that only what a file is created with protects it."""
    before = os.umask(0)
    yield
    os.umask(before)


def for_others(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode) & 0o077


# Who may read it ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("generous")
@pytest.mark.parametrize("there_before", [False, True])
def test_no_other_user_opens_the_lock_the_secret_the_endpoint_or_the_log(tmp_path: Path, there_before: bool) -> None:
    path = tmp_path / "state"
    if there_before:  # it keeps its mode
        path.mkdir(mode=0o755)
    folder = StateFolder(path)
    folder.publish(jobs="127.0.0.1:1")
    store = Store(path)
    store.begin_era(ERA)
    store.append([Row(0.0, "[]", "[]", "[]")])
    store.close()
    assert for_others(path) == (0o055 if there_before else 0)
    names = (LOCK, SECRET, "endpoint.json", DATABASE, MARK, "runs")
    assert {name: for_others(path / name) for name in names} == dict.fromkeys(names, 0)
    folder.close()


@pytest.mark.usefixtures("generous")
def test_no_other_user_reads_the_output_of_a_job(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "state")
    launch = Launch(
        notes=str(state.runs), key="1.1", command=("sh", "-c", "echo out; echo err >&2"), cwd=str(tmp_path),
        environment=dict(os.environ), mark="m" * 32, output=str(tmp_path / "out"), errors=str(tmp_path / "err"),
        scratch=str(tmp_path / "scratch"), launcher=False, grace_s=1.0, limit_s=60.0, until_s=time.monotonic() + 60.0,
    )  # fmt: skip
    runner = [sys.executable, "-m", "scheduler_bridge.jobrunner"]
    subprocess.run(runner, input=launch.encode(), check=True, stdout=subprocess.DEVNULL, timeout=60)
    assert state.notes("1.1").ended == Ending(0)
    assert ((tmp_path / "out").read_text(), (tmp_path / "err").read_text()) == ("out\n", "err\n")
    assert [for_others(tmp_path / name) for name in ("out", "err")] == [0, 0]
    state.notes("1.1").forget()
    state.close()


# When it is there for good --------------------------------------------------------------------------------------------


def test_every_note_outlasts_a_power_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is synchronised when the note is in it, and before the runner goes on."""
    synced: list[set[str]] = []

    def fsync(descriptor: int) -> None:
        assert os.path.samestat(os.fstat(descriptor), tmp_path.stat())
        synced.append({note.suffix for note in tmp_path.iterdir()})

    monkeypatch.setattr(os, "fsync", fsync)
    notes = Notes(tmp_path, "1.1")
    assert notes.claim("me")
    assert synced == [{".claim"}]
    notes.start("it")
    assert synced[1:] == [{".claim", ".start"}]
    notes.end(Ending(0))
    assert synced[2:] == [{".claim", ".start", ".end"}]


def test_an_entry_outlasts_a_power_loss_when_it_has_been_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In WAL mode SQLite synchronises each commit only with ``synchronous`` at FULL (2) or above."""
    connected: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def connect_and_note(*args: Any, **how: Any) -> sqlite3.Connection:
        connected.append(connect(*args, **how))
        return connected[-1]

    monkeypatch.setattr(sqlite3, "connect", connect_and_note)
    store = Store(tmp_path)
    store.begin_era(ERA)
    store.append([Row(0.0, "[]", "[]", "[]")])
    writers = [base for base in connected if base.total_changes]
    assert writers
    for base in writers:
        assert base.execute("PRAGMA synchronous").fetchone()[0] >= 2
    store.close()


# What is there of a daemon, and what it leaves ------------------------------------------------------------------------


def test_a_folder_that_is_served_says_by_whom(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    with pytest.raises(DaemonError, match=rf"a scheduler \(process {os.getpid()}\) serves {tmp_path} already"):
        StateFolder(tmp_path)
    folder.close()
    StateFolder(tmp_path).close()


def test_the_port_of_a_killed_daemon_is_known_until_one_ends_in_good_order(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    assert folder.last_port() == 0
    folder.close()
    (tmp_path / "endpoint.json").write_text('{"jobs": "127.0.0.1:4711"}')
    again = StateFolder(tmp_path)
    assert again.last_port() == 4711
    again.close()
    third = StateFolder(tmp_path)
    assert third.last_port() == 4711, "that one did not get as far as to replace it"
    third.publish(jobs="127.0.0.1:4712")
    assert third.last_port() == 4712
    third.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "7", "[]", "{}", '{"jobs": null}', '{"jobs": "127.0.0.1"}', "\\xff"])
def test_an_endpoint_that_cannot_be_read_names_no_port(tmp_path: Path, text: str) -> None:
    (tmp_path / "endpoint.json").write_text(text)
    folder = StateFolder(tmp_path)
    assert folder.last_port() == 0
    folder.close()


def test_an_attempt_is_claimed_once(tmp_path: Path) -> None:
    notes = Notes(tmp_path, "1.1")
    assert (notes.claim("first"), notes.claim("second")) == (True, False)
    assert notes.claimed == "first"
    assert Notes(tmp_path, "1.2").claim("second")
    notes.retire()
    assert not notes.claim("second"), "a claim outlasts the end of the attempt"


@pytest.mark.parametrize("text", ["x", " ", "-1.1.z", "self.1.z", f"{10**30}.1.z", "1 2 3"])
def test_a_note_that_is_damaged_is_about_no_process(tmp_path: Path, text: str) -> None:
    folder = StateFolder(tmp_path)
    notes = folder.notes("1.1")
    assert notes.claim(text)
    assert processes.open_process(notes.claimed) is None
    assert folder.processes_of("1.1") == []
    folder.end_stranger("1.1")
    folder.close()


@pytest.mark.parametrize(
    ("text", "status"), [("0 ", 0), ("-9 killed", -9), ("- no", None), ("x y", None), ("1.5 ", None)]
)
def test_a_note_of_the_end_has_a_status_or_none(tmp_path: Path, text: str, status: int | None) -> None:
    (tmp_path / "1.1.end").symlink_to(text)
    ended = Notes(tmp_path, "1.1").ended
    assert ended is not None
    assert ended.status == status


def test_an_era_without_any_job_has_ended_too(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.begin_era(ERA)
    store.end_era(1)
    assert [stored.end for stored in store.eras()] == [Ended(1)]
    store.close()
