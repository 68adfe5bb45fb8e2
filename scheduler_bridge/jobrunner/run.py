"""Runs one job: its processes, its output files, its temporary folder, and its end without remains."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from scheduler_bridge.jobrunner import processes
from scheduler_bridge.jobrunner.notes import Ending, Notes

_TERM_AGAIN_S = 0.25
_LEFTOVER_S = 0.5
"""Time for processes that outlive their launcher to end by themselves after a TERM."""
_HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)


@dataclass(frozen=True, slots=True)
class Launch:
    """What to run and where its traces go.

    Attributes:
        notes: Folder of the notes.
        key: ``JOB.ATTEMPT``.
        command: Program and arguments.
        cwd: Folder in which it runs.
        environment: All its variables.
        mark: Stands in the environment of every process of the job.
        output: File for standard output.
        errors: File for standard error; may be that of the output.
        scratch: Temporary folder, made and removed.
        launcher: Whether the command is an MPI launcher.
        grace_s: Time between TERM and KILL.
        limit_s: The job is ended after this time even if no scheduler says so.
        until_s: A runner that has not taken the attempt by then (monotonic clock) gives up, for it may be over.
        appends: What the files hold already is of the job, too: it goes on.
        inherited: Numbers of two open files of the runner that are the job's output and errors; none: those named are.
    """

    notes: str
    key: str
    command: tuple[str, ...]
    cwd: str
    environment: dict[str, str]
    mark: str
    output: str
    errors: str
    scratch: str
    launcher: bool
    grace_s: float
    limit_s: float
    until_s: float
    appends: bool = False
    inherited: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """Return it as one line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Launch:
        """Read what ``encode`` wrote.

        Raises:
            ValueError: It is not complete.
        """
        if not line.endswith(b"\n"):
            raise ValueError("the launch is incomplete")
        values = json.loads(line)
        return cls(**{**values, "command": tuple(values["command"]), "inherited": tuple(values["inherited"])})


class JobRun:
    """One execution of a job, in a process that does nothing else.

    Args:
        launch: What to run.
        report: Called with "claimed" and "started".
    """

    def __init__(self, launch: Launch, report: Callable[[str], None]) -> None:
        self._launch = launch
        self._report = report
        self._notes = Notes(Path(launch.notes), launch.key)
        self._segments: set[str] = set()
        self._to_end = False
        self._at_once = False
        self._wake, self._awake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def run(self) -> bool:
        """Run the job unless another runner does; returns whether it was run."""
        for number in _HEARD:
            # Handlers, other than what is ignored or blocked, are not passed on to the job.
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(self._awake, warn_on_full_buffer=False)
        if not self._notes.claim(processes.identity(os.getpid())):
            return False
        # Asked after the claim: an earlier runner may have run the attempt, and its claim may have been removed since.
        if time.monotonic() > self._launch.until_s:
            self._notes.forget()
            return False
        self._report("claimed")
        try:
            ending = self._execute()
        except Exception as error:  # noqa: BLE001 - whatever it was is the reason of the job's end
            ending = Ending(None, f"{type(error).__name__}: {error}")
        self._notes.end(ending)
        return True

    def _execute(self) -> Ending:
        launch = self._launch
        try:
            Path(launch.scratch).mkdir(mode=0o700)
            with contextlib.ExitStack() as files:
                output: BinaryIO | int
                errors: BinaryIO | int
                if launch.inherited:
                    output, errors = launch.inherited
                else:
                    output = files.enter_context(_open(launch.output, appends=launch.appends))
                    same = launch.errors == launch.output
                    errors = output if same else files.enter_context(_open(launch.errors, appends=launch.appends))
                process = subprocess.Popen(
                    launch.command,
                    cwd=launch.cwd or None,
                    env=launch.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    start_new_session=True,
                    # hydra passes the end of its input on to a node whose processes may have ended already, and would
                    # die of SIGPIPE: it keeps this process's way of ignoring it. The job's own get the default again.
                    restore_signals=not launch.launcher,
                )
        except (OSError, ValueError) as error:  # ValueError: words that the system cannot take
            shutil.rmtree(launch.scratch, ignore_errors=True)
            return Ending(None, f"could not be started: {error}")
        try:
            self._notes.start(processes.identity(process.pid) or f"{process.pid}.0.{processes.boot()}")
            self._report("started")
            late = self._wait(process)
        finally:
            self._clean()
        return Ending(process.returncode, late)

    def _wait(self, process: subprocess.Popen[bytes]) -> str:
        """Wait for the end, bringing it about if that is wanted; returns why the runner itself did."""
        late = ""
        limit = time.monotonic() + self._launch.limit_s
        while process.poll() is None and not self._to_end:
            self._sleep(limit)
            if time.monotonic() >= limit:
                late = f"over its time of {self._launch.limit_s:g} s, and no scheduler ended it"
                self._to_end = True
        if process.poll() is None:
            self._note_segments()
            deadline = time.monotonic() + self._launch.grace_s
            while process.poll() is None and time.monotonic() < deadline and not self._at_once:
                # hydra loses a TERM that comes in the first milliseconds of mpiexec, so one is not enough.
                processes.signal_group(process.pid, signal.SIGTERM)
                again = min(time.monotonic() + _TERM_AGAIN_S, deadline)
                while process.poll() is None and time.monotonic() < again and not self._at_once:
                    self._sleep(again)
            if process.poll() is None:
                processes.signal_group(process.pid, signal.SIGKILL)
                process.wait()
        return late

    def _sleep(self, until: float) -> None:
        """Wait for a signal, at most ``until`` (monotonic)."""
        if not select.select([self._wake], [], [], max(0.0, min(until - time.monotonic(), 3600.0)))[0]:
            return
        for number in os.read(self._wake, 4096):
            if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                self._to_end = True
            elif number == signal.SIGUSR2:
                self._to_end = self._at_once = True
            elif number == signal.SIGUSR1:
                self._note_segments()

    def _note_segments(self) -> None:
        """Remember which shared-memory files the job has mapped now, so that they can be removed if it leaks them."""
        self._segments |= processes.shared_segments(self._launch.mark)

    def _clean(self) -> None:
        processes.end_marked(self._launch.mark, _LEFTOVER_S)
        processes.remove_segments(self._segments)
        shutil.rmtree(self._launch.scratch, ignore_errors=True)


def _open(path: str, *, appends: bool) -> BinaryIO:
    """Open a file for output, without waiting: a pipe has perhaps no reader, and what reads it may stop.

    Args:
        path: The file.
        appends: Whether what it holds already is kept.

    Raises:
        OSError: It is neither a regular file nor the null device, or cannot be had.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY, 0o600)
    file = os.fdopen(descriptor, "wb")
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode):
        if appends:
            os.lseek(descriptor, 0, os.SEEK_END)
        else:
            os.ftruncate(descriptor, 0)
    elif not (stat.S_ISCHR(found.st_mode) and found.st_rdev == Path(os.devnull).stat().st_rdev):
        file.close()
        raise OSError(errno.EINVAL, "it is no regular file", path)
    os.set_blocking(descriptor, True)
    return file
