"""The JSON file: it is whole at any time, and never the one of an earlier run."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Mapping


class ResultFile:
    """Where the result goes.

    Args:
        path: The file; None: nowhere.
    """

    def __init__(self, path: Path | None) -> None:
        self._asked = path
        # a link keeps pointing where it points; a device or pipe is written to, not replaced
        self._path = None if path is None else Path(os.path.realpath(path))
        self._replaces = self._path is None or not self._path.exists() or self._path.is_file()

    def reserve(self) -> None:
        """Leave a note that the run has not ended, so that no older result is taken for this one's.

        Raises:
            BadUsage: The file cannot be written.
        """
        if self._path is None:
            return
        culprit = f"--json {self._asked}"
        remedy = "give a file in a folder that exists and can be written"
        if self._path.is_dir():
            raise BadUsage(culprit, "that is a folder", remedy)
        if not self._path.parent.is_dir():
            raise BadUsage(culprit, f"there is no folder {self._path.parent}", remedy)
        try:
            if self._replaces:
                self.write({"error": "the run did not end"})
            elif not os.access(self._path, os.W_OK):
                raise PermissionError(None, "Permission denied")
        except OSError as error:
            raise BadUsage(culprit, f"cannot write it: {error.strerror}", remedy) from None

    def write(self, content: Mapping[str, object]) -> None:
        """Replace the content, all at once; what was there stays if that fails.

        Raises:
            OSError: The file cannot be written.
        """
        if self._path is None:
            return
        text = json.dumps(content, indent=2) + "\n"
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
            with suppress(FileNotFoundError):
                beside.unlink()
