"""What a runner leaves for schedulers to find: who runs the job, that it started, how it ended.

A note is a symbolic link whose target is the text. It comes into being in one step, with its content, at most once, and
needs no room on a full disk as long as it is short; the folder is synchronised, so that it outlasts a power loss.

======================  ===================================================================================
note                    text
======================  ===================================================================================
``JOB.ATTEMPT.claim``   identity of the runner; the one that makes it runs the job, any other gives up
``JOB.ATTEMPT.start``   identity of the job's first process
``JOB.ATTEMPT.end``     exit status (negative: a signal; ``-`` if it could not be started), a space, the reason
======================  ===================================================================================
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scheduler_bridge.atomic_write import synchronise

_TEXT_BYTES: Final = 1000
"""A link's target may have 4095 bytes."""
_KINDS: Final = ("claim", "start", "end")


@dataclass(frozen=True, slots=True)
class Ending:
    """How the processes ended.

    Attributes:
        status: The exit status (negative: a signal), None if none could be started.
        reason: The story.
        lost: No runner saw the end: not the job's doing.
        again: The job can go on where it was if it is started again; no runner knows.
    """

    status: int | None
    reason: str = ""
    lost: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class Notes:
    """The notes about one attempt to run a job; ``key`` is ``JOB.ATTEMPT``."""

    folder: Path
    key: str

    def claim(self, who: str) -> bool:
        """Take the attempt; False if another runner has it."""
        return self._write("claim", who)

    def start(self, who: str) -> None:
        """The job's first process runs."""
        self._write("start", who)

    def end(self, ending: Ending) -> None:
        """Nothing of the job is left."""
        self._write("end", f"{'-' if ending.status is None else ending.status} {ending.reason}")

    @property
    def claimed(self) -> str:
        """The runner's identity; empty if no runner has taken the attempt."""
        return self._read("claim")

    @property
    def started(self) -> str:
        """The identity of the job's first process; empty if it does not run yet."""
        return self._read("start")

    @property
    def ended(self) -> Ending | None:
        """How it ended, if it has."""
        status, _, reason = self._read("end").partition(" ")
        if not status:
            return None
        return Ending(int(status) if status.removeprefix("-").isdecimal() else None, reason)

    def retire(self) -> None:
        """Remove all but the claim, which keeps late runners off; to be forgotten when there can be none any more."""
        for kind in ("end", "start"):
            with contextlib.suppress(OSError):  # stays behind and does no harm
                self._path(kind).unlink(missing_ok=True)

    def forget(self) -> None:
        """Remove all notes."""
        self.retire()
        with contextlib.suppress(OSError):  # likewise
            self._path("claim").unlink(missing_ok=True)

    def _path(self, kind: str) -> Path:
        return self.folder / f"{self.key}.{kind}"

    def _read(self, kind: str) -> str:
        try:
            return str(self._path(kind).readlink())
        except OSError:
            return ""

    def _write(self, kind: str, text: str) -> bool:
        short = text.replace("\0", " ").encode(errors="surrogateescape")[:_TEXT_BYTES].decode(errors="replace")
        try:
            os.symlink(short, self._path(kind))  # noqa: PTH211 - the text is no path
        except FileExistsError:
            return False
        synchronise(self.folder)
        return True


def keys(folder: Path) -> set[str]:
    """Return the keys of all attempts that have notes in ``folder``."""
    return {name for name, _, kind in (entry.name.rpartition(".") for entry in folder.iterdir()) if kind in _KINDS}
