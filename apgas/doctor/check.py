"""What a check is, how it is shown, and how a probe is run in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

DEADLINE_S = 20.0


@dataclass(frozen=True)
class Check:
    """One line of the checklist.

    Attributes:
        name: what is checked.
        ok: True: works; False: does not; None: absent, and not needed.
        tried: what was done.
        came_back: what was seen.
        mend: the command or step that mends it; empty if there is nothing to mend.
    """

    name: str
    ok: bool | None
    tried: str
    came_back: str
    mend: str = ""


def as_text(check: Check) -> str:
    """Returns a check as plain text: one line, or three where there is something to mend."""
    sign = {True: "ok  ", False: "FAIL", None: "-   "}[check.ok]
    lines = [f"{sign}  {check.name:<16}  {check.came_back}"]
    if check.ok is False:
        lines += [f"{'':6}{'tried':<18}{check.tried}", f"{'':6}{'mend':<18}{check.mend}"]
    return "\n".join(lines)


@dataclass(frozen=True)
class Done:
    """How a probe ended.

    Attributes:
        words: what it printed.
        reason: why it did not end well; empty if it did.
    """

    words: str
    reason: str

    @property
    def failed(self) -> bool:
        """Whether it did not end well."""
        return bool(self.reason)


def run(command: list[str], deadline_s: float = DEADLINE_S) -> Done:
    """Runs a probe to its end or its deadline; at the deadline everything it started is killed."""
    source = str(Path(__file__).parents[2])  # a checkout that is not installed can be examined too
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))}
    try:
        process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return Done("", f"{command[0]}: {error.strerror}")
    with process:
        try:
            out, err = process.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):  # ended just now
                os.killpg(process.pid, signal.SIGKILL)
            return Done("", f"no answer within {deadline_s:.0f} s")
    if process.returncode:
        return Done(out.strip(), _last_line(err) or _last_line(out) or f"exit code {process.returncode}")
    return Done(out.strip(), "")


def version_of(distribution: str) -> str:
    """Returns the version of an installed distribution, in words if it is not."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "of unknown version"


def _last_line(text: str) -> str:
    lines = [flat(line) for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def flat(text: str) -> str:
    """One line, single spaces."""
    return " ".join(text.split())
