"""The files that a command is to write, looked at before it works for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from scheduler_bridge.cli.errors import CliError

PICTURES: Final = (".png",)
WORKLOADS: Final = (".swf", ".swf.gz")


def expect_file(option: str, path: Path | None, endings: tuple[str, ...] = ()) -> None:
    """See that a file of this name can be written, as far as that can be said beforehand.

    Args:
        option: By which it was given.
        path: None: it was not.
        endings: Of which its name has one, as what is written is only read, or shown, by such a name; none: any.

    Raises:
        CliError: It cannot.
    """
    if path is None:
        return
    folder = path.parent
    if path.is_dir():
        raise CliError(f"{option} {path}: this is a folder", "a file is to be written", "name one in it")
    if not folder.is_dir():
        raise CliError(f"{option} {path}: there is no folder {folder}", hint="make it, or write elsewhere", code=1)
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise CliError(f"{option} {path}: Permission denied", hint="write elsewhere", code=1)
    if endings and not path.name.lower().endswith(endings) and not path.is_char_device():
        raise CliError(
            f"{option} {path}: another ending than {' or '.join(endings)}",
            "by its ending a file is told to be what is written there",
            f"for example: {option} {path.with_suffix(endings[0])}",
        )
