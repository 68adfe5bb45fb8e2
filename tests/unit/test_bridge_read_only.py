"""The log of a folder into which nothing may be written: an archive, or another user's that may be read."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.logged import encode

from scheduler_bridge.daemon import DaemonConfig, read_run, runs
from scheduler_bridge.daemon.storage import log_entries, restore
from scheduler_bridge.daemon.storage.log_entries import Entry
from scheduler_bridge.daemon.storage.state import StateFolder
from scheduler_bridge.daemon.storage.store import DATABASE, Store

_NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as made:  # pytest's own is closed to others
        yield Path(made)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let nothing be written into ``folder``, also not by root."""
    for path in (folder.parent, folder, *folder.iterdir()):
        if os.geteuid() == 0:
            os.chown(path, _NOBODY, _NOBODY)
    for path in folder.iterdir():
        path.chmod(0o400)
    folder.chmod(0o500)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o700)


@pytest.mark.parametrize("missing", ["-wal -shm", "-shm", ""])
def test_runs_are_read_where_nothing_may_be_written(
    folder: Path, tmp_path: Path, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    restore.restore(store, DaemonConfig(("a",), state_dir=tmp_path, policy="easy"), 1)
    store.append([encode(Entry(1.0, (), (log_entries.Noted("kept"),)), [])])
    archive = folder / "archive"
    if "-wal" in missing:
        store.close()
        shutil.copytree(tmp_path, archive)
    else:  # of a scheduler that was killed
        shutil.copytree(tmp_path, archive)
        store.close()
    if missing == "-shm":
        (archive / f"{DATABASE}-shm").unlink()
    scratch = folder / "scratch"
    scratch.mkdir(mode=0o777)
    scratch.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    read_run(tmp_path)  # what is imported late
    with read_only(archive):
        before = sorted(entry.name for entry in archive.iterdir())
        assert read_run(archive).notes == ["kept"]
        assert [run.run for run in runs(archive)] == [1]
        assert sorted(entry.name for entry in archive.iterdir()) == before
    assert not list(scratch.iterdir())


def test_ids_lie_above_those_of_all_that_is_in_the_folder(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    try:
        assert folder.next_job_id() == 1
        (tmp_path / "job-7.out").touch()
        assert folder.next_job_id() == 8
        folder.notes("11.2").claim("1.1.boot")
        assert folder.next_job_id() == 12
        for _ in range(2):  # the log knows of no job: neither a new run nor one that goes on gives them again
            store = Store(tmp_path)
            log_state, _ = restore.restore(store, DaemonConfig(("a",), state_dir=tmp_path), folder.next_job_id())
            assert log_state.next_job_id == 12
            store.close()
    finally:
        folder.close()
