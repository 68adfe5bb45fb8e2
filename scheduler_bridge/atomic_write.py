"""Files that are whole at any time: written beside their place, then put there."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path | str, content: bytes, mode: int = 0o666) -> None:
    """Write a file; every reader finds the old content or all of the new one, also when the disk is full.

    A link stays one, what it leads to is written; what is no file (a terminal, a pipe) is written to. It has
    the permissions ``mode``, less those that the umask takes away, from its creation on.

    Raises:
        OSError: It cannot be written; ``filename`` is the name that was given.
    """
    try:
        given = Path(path)  # of a pipe in /dev/fd the real path does not exist
        if given.exists() and not (given.is_file() or given.is_dir()):
            given.write_bytes(content)
            return
        target = Path(os.path.realpath(path))
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            partial.touch(mode)
            partial.write_bytes(content)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def synchronise(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
