"""A contender as the command sees it: a process that is asked, with a deadline, and ended whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scheduler_bridge.jobrunner import processes

END_S: Final = 15.0
"""How long a contender that is not needed any more may take to end in good order."""
TERM_S: Final = 2.0
LOOK_S: Final = 0.01


class ContenderFailed(Exception):
    """A contender did not answer, or answered that it cannot."""


class Child:
    """One running contender, in a session of its own, so that Ctrl-C reaches the parent alone.

    All of its processes carry ``mark`` in their environment. What is asked of it raises ``ContenderFailed`` if it has
    ended, does not answer in time, or answers with an error.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str], mark: str) -> None:
        self.mark = mark
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.began_s = time.monotonic()
        self._process = subprocess.Popen(
            command,
            env={**env, MARK: mark},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, command: Mapping[str, object]) -> None:
        """Send a command, to be answered."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise ContenderFailed(f"it has ended{self._last_words()}") from None

    def answer(self, limit_s: float) -> dict[str, Any]:
        """Return the next answer; lines that are none are passed over."""
        until_s = time.monotonic() + limit_s
        while True:
            line = self.line(until_s - time.monotonic())
            if line.startswith("{"):
                break
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ContenderFailed(str(answer["error"]))
        return answer

    def line(self, limit_s: float) -> str:
        """Return the next line that it prints."""
        try:
            line = self._lines.get(timeout=max(0.0, limit_s))
        except queue.Empty:
            raise ContenderFailed(f"no answer in time{self._last_words()}") from None
        if line is None:
            self._lines.put(None)
            raise ContenderFailed(f"it has ended{self._last_words()}")
        return line

    def processes(self) -> list[int]:
        """Return all of its living processes."""
        return processes.marked_processes(self.mark, MARK)

    def finish(self) -> None:
        """Signal the end of the commands; does not wait."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended
            self._process.stdin.close()

    def end(self, patience_s: float = END_S) -> None:
        """End it and all that belongs to it: in good order within ``patience_s``, else by force."""
        self.finish()
        with contextlib.suppress(subprocess.TimeoutExpired):  # then by force
            self._process.wait(patience_s)
        if self._process.poll() is None:
            self.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):  # then it is killed
                self._process.wait(TERM_S)
        # an mpiexec that a contender started ends a little later than it, and leaves a file if it is killed
        until_s = time.monotonic() + TERM_S
        while self._process.poll() is not None and self.processes() and time.monotonic() < until_s:
            time.sleep(LOOK_S)
        kill_marked(self.mark)
        self._process.wait()
        self._errors.close()

    def terminate(self) -> None:
        """Ask it to end at once; does not wait."""
        self._process.terminate()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self._lines.put(line)
        self._lines.put(None)

    def _last_words(self) -> str:
        """Return the last line of its standard error, for a message."""
        size = os.fstat(self._errors.fileno()).st_size
        text = os.pread(self._errors.fileno(), 4096, max(0, size - 4096)).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return f": {lines[-1][:200]}" if lines else ""


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of contenders: this tree and its interpreter; temporary files go to ``folder``."""
    paths = [str(Path(__file__).parents[2]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "TMPDIR": str(folder),
    }


def kill_marked(mark: str) -> None:
    """Kill all processes that carry ``mark``, and remove the shared memory that MPI leaves behind when killed."""
    for _ in range(2):  # one that is being started has no environment yet
        processes.end_marked(mark, 0.0, MARK)
        time.sleep(LOOK_S)


# Processes as Linux shows them: which belong to a contender, what they used ------------------------------------------

MARK: Final = "MALLEABLE_OVERHEADS"
"""Environment variable by which all processes of a contender are found, even if their parent has ended."""


def cpu_s(pids: Iterable[int]) -> float:
    """Return the CPU time in s that living processes have used so far, exact to the ns, all threads."""
    total = 0.0
    for pid in pids:
        try:
            # what clock_getcpuclockid(3) makes of a process id; /proc/PID/stat counts ticks of 10 ms only
            total += time.clock_gettime((~pid << 3) | 2)
        except OSError:
            continue  # it has ended
    return total
