"""What a job may put where it should write what it found out, and what the scheduler makes of it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support import PATIENCE_S

from scheduler_bridge.daemon.jobs.template import result_of
from scheduler_bridge.daemon.storage.state import StateFolder
from scheduler_bridge.jobrunner import processes
from scheduler_bridge.jobrunner.notes import Ending


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    secret = path.with_name("secret")
    secret.write_text('{"result": "of somebody else"}')
    path.symlink_to(secret)


def folder_with_a_file(path: Path) -> None:
    path.mkdir()
    (path / "file").touch()


def text(words: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(words)


@pytest.mark.parametrize(
    ("put", "found", "said"),
    [
        (text('{"result": 5, "verified": true, "more": 1}'), {"result": 5, "verified": True}, ""),
        (text('{"result": 5, "verified": null}'), {"result": 5, "verified": None}, ""),
        (text('{"result": 5, "verified": "yes"}'), {"result": 5}, "its verified is none of true, false and null"),
        (text(f'{{"result": "{"x" * 5000}", "verified": false}}'), {"verified": False}, "it has 5030 bytes, 4096 are"),
        (
            text(f'{{"result": "{"x" * 5000}", "verified": [1]}}'),
            {},
            "its verified is none of true, false and null; it has 5013 bytes, 4096 are kept: all but",
        ),
        (
            text(f'{{"result": 5, "verified": "{"x" * 5000}"}}'),
            {"result": 5},
            "its verified is none of true, false and null",
        ),
        (text(f'{{"more": "{"x" * 2_000_000}"}}'), None, "the file has more than"),
        (text("{"), None, "it is no JSON: "),
        (text('{"result": NaN}'), None, "it is no JSON: "),
        (text("[" * 100_000), None, "it is nested too deeply"),
        (text("7"), None, "it is no JSON object"),
        (fifo, None, "it is no regular file"),
        (link, None, "it cannot be read: "),
        (folder_with_a_file, None, "it cannot be read: Is a directory"),
        (lambda _: None, None, ""),
    ],
    ids=["result", "unknown", "yes", "too large", "too large, wrong", "wrong alone is too large", "huge", "half", "NaN",
         "deep", "number", "pipe", "link", "folder", "nothing"],
)  # fmt: skip
def test_a_file_of_a_job_is_read_with_care(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, put: Callable[[Path], object], found: object, said: str
) -> None:
    folder = StateFolder(tmp_path)
    try:
        put(folder.result("1.1"))
        assert result_of("1.1", folder) == found
        lines = [record.getMessage() for record in caplog.records]
        assert len(lines) == (said != "")
        assert all(f"the result of job 1 (attempt 1) is not taken as it is: {said}" in line for line in lines)
        folder.drop_result("1.1")
        assert not folder.result("1.1").exists()
    finally:
        folder.close()


def no_end(_: str) -> bool:
    return False


def test_an_attempt_that_the_log_lacks_leaves_no_result_to_the_next_one_of_its_name(tmp_path: Path) -> None:
    """A scheduler that is killed may lose its last entries; jobs that the log has keep what they wrote."""
    folder = StateFolder(tmp_path)
    try:
        for key in ("1.1", "2.1"):
            folder.notes(key).end(Ending(0))
            folder.result(key).write_text('{"result": 5, "verified": true}')
        assert folder.settle_strangers(["2.1"], no_end, end=False) == ({"1.1"}, {})
        assert result_of("1.1", folder) is None
        assert result_of("2.1", folder) == {"result": 5, "verified": True}
    finally:
        folder.close()


def test_an_attempt_whose_end_the_log_has_is_not_named_for_its_claim(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A scheduler that is killed soon after the end leaves the claim, which keeps late runners off."""
    folder = StateFolder(tmp_path)
    try:
        for key in ("1.1", "2.1"):
            folder.notes(key).claim("1.1.another-boot")
        assert folder.settle_strangers([], lambda key: key == "2.1", end=False) == ({"1.1", "2.1"}, {})
        assert [record.getMessage() for record in caplog.records] == [
            "attempt 1.1, of which the log does not know, is over"
        ]
    finally:
        folder.close()


def test_the_runner_of_an_attempt_that_the_log_lacks_is_ended_although_it_has_no_mark(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    runner = subprocess.Popen(["/bin/sleep", "1000"])
    try:
        folder.notes("1.1").claim(processes.identity(runner.pid))
        assert folder.settle_strangers([], no_end, end=False) == (set(), {"1.1": set()})
        assert folder.processes_of("1.1") == [runner.pid]
        assert folder.settle_strangers([], no_end, end=True) == ({"1.1"}, {})
        assert runner.wait(PATIENCE_S) == -signal.SIGKILL
    finally:
        runner.kill()
        runner.wait()
        folder.close()
