"""Files that are whole at any time."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from scheduler_bridge.atomic_write import write_whole


def test_a_full_disk_leaves_the_old_file_and_the_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.png"
    write_whole(path, b"old")
    whole = Path.write_bytes

    def full(self: Path, content: bytes) -> int:
        whole(self, content[:2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_whole(path, b"new one")
    assert caught.value.filename == str(path)
    assert (path.read_bytes(), [each.name for each in tmp_path.iterdir()]) == (b"old", ["a.png"])


def test_a_link_stays_one(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_whole(link, b"new")
    assert (link.is_symlink(), target.read_bytes()) == (True, b"new")


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, b"through")
        assert (os.read(reader, 100), pipe.is_fifo()) == (b"through", True)
    finally:
        os.close(reader)
