"""What a job may put where it should write what it found out, and what the scheduler makes of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler_bridge.live.outputs import drop_result, result_of
from scheduler_bridge.live.state import StateFolder


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    secret = path.with_name("secret")
    secret.write_text('{"result": "of somebody else"}')
    path.symlink_to(secret)


def text(words: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(words)


@pytest.mark.parametrize(
    ("put", "found"),
    [
        (text('{"result": 5, "verified": true, "more": 1}'), {"result": 5, "verified": True}),
        (text(f'{{"result": "{"x" * 5000}", "verified": false}}'), {"verified": False}),
        (text("{"), None),
        (text("[" * 100_000), None),
        (text("7"), None),
        (fifo, None),
        (link, None),
        (Path.mkdir, None),
        (lambda _: None, None),
    ],
    ids=["result", "too large", "half", "deep", "number", "pipe", "link", "folder", "nothing"],
)
def test_a_file_of_a_job_is_read_with_care(tmp_path: Path, put: Callable[[Path], object], found: object) -> None:
    folder = StateFolder(tmp_path)
    try:
        put(folder.result("1.1"))
        assert result_of("1.1", folder) == found
        drop_result("1.1", folder)
        assert folder.result("1.1").is_dir() or not folder.result("1.1").exists()
    finally:
        folder.close()
