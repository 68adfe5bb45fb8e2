"""What a keeper does when the process that has started it is gone."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from apgas.runtime import keeper


def ended(*words: int | str) -> None:
    """Write some words to a keeper, and wait until it has ended."""
    pid, descriptor = keeper.start()
    for word in words:
        keeper.tell(descriptor, word)
    os.close(descriptor)
    os.waitpid(pid, 0)


def test_it_kills_what_is_left_with_all_that_this_has_started() -> None:
    sleepers = [subprocess.Popen(["sh", "-c", "sleep 600 & wait"], start_new_session=True) for _ in range(2)]
    lives, is_let_go = sleepers
    # the number of a process that has ended may be given anew
    ended(lives.pid, -lives.pid, lives.pid, is_let_go.pid, -is_let_go.pid)
    assert lives.wait() == -signal.SIGKILL
    assert is_let_go.poll() is None
    os.killpg(is_let_go.pid, signal.SIGKILL)
    is_let_go.wait()


def test_it_removes_folders_and_what_fits_a_pattern(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    for name in ("a folder/file", "segment_1_0", "segment_1_1", "segment_2_0"):
        (tmp_path / name).touch()
    ended(str(folder), f"{tmp_path}/segment_1_*", f"{tmp_path}/nothing_*")
    assert [path.name for path in tmp_path.iterdir()] == ["segment_2_0"]
