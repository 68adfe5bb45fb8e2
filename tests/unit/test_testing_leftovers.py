"""What counts as left behind by a job, and what does not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support import leftovers
from support.leftovers import Leftovers, Patience


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(leftovers, "_PATTERNS", ((str(tmp_path), "apgas-*"),))
    monkeypatch.setattr(leftovers, "PATIENCE_S", 0.2)
    return tmp_path


def test_a_file_of_the_job_is_found(folder: Path) -> None:
    (folder / "apgas-before").touch()
    watch = Leftovers()
    (folder / "apgas-job").touch()
    with pytest.raises(AssertionError, match=r"files left behind: \['[^']*apgas-job'\]"):
        watch.check()


def test_one_that_is_in_use_for_a_moment_is_found_nevertheless(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def in_use(names: set[str]) -> set[str]:
        nonlocal looks
        looks += 1
        return names if looks == 1 else set()

    watch = Leftovers()
    (folder / "apgas-job").touch()
    monkeypatch.setattr(leftovers, "_in_use", in_use)
    monkeypatch.setattr(leftovers, "patiently", lambda look: look() or look())
    with pytest.raises(AssertionError, match="apgas-job"):
        watch.check()


def test_a_folder_that_a_living_process_has_in_its_environment_is_not_left_behind(folder: Path) -> None:
    watch = Leftovers()
    (folder / "apgas-books-1").mkdir()
    with subprocess.Popen(["/bin/sleep", "100"], env={"APGAS_BOOKS": str(folder / "apgas-books-1")}) as process:
        try:
            watch.check()
        finally:
            process.kill()
    with pytest.raises(AssertionError, match="apgas-books-1"):
        watch.check()


def test_files_of_jobs_that_come_later_are_not_ours(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Leftovers()
    files = Leftovers.files
    (folder / "apgas-other-0").touch()
    looks = 0

    def busy(self: Leftovers) -> set[str]:
        nonlocal looks
        (folder / f"apgas-other-{looks}").unlink()
        looks += 1
        (folder / f"apgas-other-{looks}").touch()
        return files(self)

    monkeypatch.setattr(Leftovers, "files", busy)
    watch.check()
    assert looks


@pytest.mark.parametrize(("runnable", "looks"), [(1, 10), (2, 10), (13, 65)])
def test_a_time_limit_is_longer_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch, runnable: int, looks: int) -> None:
    now_s = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(leftovers, "_runnable", lambda: runnable)
    patience = Patience(1.0)
    looked = 0
    while not patience.over():
        now_s += 0.1
        looked += 1
    assert looked in (looks, looks + 1)


def test_time_in_which_the_process_was_held_up_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    monkeypatch.setattr(leftovers, "_runnable", lambda: 1)
    patience = Patience(1.0)
    now_s = 1000.0
    assert not patience.over()
    now_s += 0.25
    assert not patience.over()
    for _ in range(2):
        now_s += 0.25
        patience.over()
    assert patience.over()
