"""The files that a run writes: whole at any time, and never those of an earlier run."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Mapping


class WholeFile:
    """A text file that is replaced as a whole.

    Args:
        path: The file; None: nowhere.
        option: The option that names it, for errors.
        note: What it holds until the run has ended.
    """

    def __init__(self, path: Path | None, option: str, note: str) -> None:
        self._asked = path
        self._option, self._note = option, note
        # a link keeps pointing where it points; a device or pipe is written to, not replaced
        self._path = None if path is None else Path(os.path.realpath(path))
        self._replaces = self._path is None or not self._path.exists() or self._path.is_file()

    @property
    def name(self) -> str:
        """The file as the user named it."""
        return str(self._asked)

    def reserve(self) -> None:
        """Leave a note that the run has not ended, so that no older result is taken for this one's.

        Raises:
            BadUsage: The file cannot be written.
        """
        if self._path is None:
            return
        culprit = f"{self._option} {self._asked}"
        remedy = "give a file in a folder that exists and can be written"
        if self._path.is_dir():
            raise BadUsage(culprit, "that is a folder", remedy)
        if not self._path.parent.is_dir():
            raise BadUsage(culprit, f"there is no folder {self._path.parent}", remedy)
        try:
            if self._replaces:
                self.write_text(self._note)
            elif not os.access(self._path, os.W_OK):
                raise PermissionError(None, "Permission denied")
        except OSError as error:
            raise BadUsage(culprit, f"cannot write it: {error.strerror}", remedy) from None

    def write_text(self, text: str) -> None:
        """Replace the content, all at once; what was there stays if that fails.

        Raises:
            OSError: The file cannot be written.
        """
        if self._path is None:
            return
        if not self._replaces:
            self._path.write_text(text, encoding="utf-8")
            return
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}.tmp")
        try:
            with beside.open("w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            beside.replace(self._path)
        finally:
            with suppress(FileNotFoundError):  # it has its name
                beside.unlink()


class ResultFile(WholeFile):
    """Where the result goes, as JSON.

    Args:
        path: The file; None: nowhere.
    """

    def __init__(self, path: Path | None) -> None:
        super().__init__(path, "--json", _json({"error": "the run did not end"}))

    def write(self, content: Mapping[str, object]) -> None:
        """Replace the content, all at once; what was there stays if that fails.

        Raises:
            OSError: The file cannot be written.
        """
        self.write_text(_json(content))


def tell_scheduler(content: Mapping[str, object]) -> None:
    """Write the result where the scheduler that started this job looks for it, if one did.

    What cannot be written there is left out: the run is none the worse for it.
    """
    if path := os.environ.get("MALLEABLE_RESULT"):
        with suppress(OSError):
            Path(path).write_text(_json(content), encoding="utf-8")


def _json(content: Mapping[str, object]) -> str:
    return json.dumps(content, indent=2) + "\n"
