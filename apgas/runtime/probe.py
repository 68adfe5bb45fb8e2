"""Probes: programs that are run, to their end or a deadline, to see whether something works."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

_READ_S: Final = 0.2
"""Its outcome is read from one that has ended in time, also if others were waited for beyond that."""


class Done(NamedTuple):
    """What a probe printed, and the reason why it did not end well, empty if it did."""

    words: str
    reason: str


class Probe:
    """A probe that has been started, in a session of its own; ``done`` is to be called once."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str] | None = None) -> None:
        self._began_s = time.monotonic()
        self._process: subprocess.Popen[str] | None = None
        self._reason = ""
        try:
            self._process = subprocess.Popen(
                command,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            self._reason = f"{command[0]}: {error.strerror}"

    def done(self, deadline_s: float) -> Done:
        """Wait for its end; so long after its start everything that it has started is killed."""
        if self._process is None:
            return Done("", self._reason)
        left_s = self._began_s + deadline_s - time.monotonic()
        with self._process as process:
            try:
                out, err = process.communicate(timeout=max(_READ_S, left_s))
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):  # ended just now
                    os.killpg(process.pid, signal.SIGKILL)
                return Done("", f"no answer within {deadline_s:g} s")
        code = process.returncode
        return Done(out.strip(), (_last_line(err) or _last_line(out) or f"exit code {code}") if code else "")


def one_line(text: str) -> str:
    """One line, single spaces."""
    return " ".join(text.split())


def _last_line(text: str) -> str:
    lines = [one_line(line) for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
