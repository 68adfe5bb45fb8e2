"""Waits for processes of this machine to end, and ends those that Open MPI would leave running.

For Open MPI ends the world of the process that died, and no other. A place ends when its process manager is gone
(``end_with_parent``), and when place 0 is gone, which it notices by its connection. One that holds on to its
interpreter notices nothing: place 0 ends those on its own node (``Wards``).
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

MOMENT_S: Final = 0.6
"""How long mpiexec takes to end place 0 with the code of the job; the code of a process that ends before may win."""

_SESSION: Final = "PMIX_SERVER_TMPDIR"
_SESSION_NAMES: Final = ("ompi.", "prte.")


class Processes:
    """Processes of this machine by handles of the kernel's: their numbers may be those of others one day."""

    def __init__(self) -> None:
        self._pids: dict[int, int] = {}

    def hold(self, pids: Iterable[int]) -> None:
        """Take a handle of each that runs."""
        for pid in pids:
            with suppress(OSError, AttributeError):  # gone already, or the kernel has no handles
                self._pids[os.pidfd_open(pid)] = pid

    def running(self, timeout_s: float = 0.0) -> list[int]:
        """Wait until all have ended, for so long at most; returns which still run, and forgets the others."""
        until = time.monotonic() + timeout_s
        for handle in list(self._pids):
            if _ended(handle, max(0.0, until - time.monotonic()) * 1000):
                del self._pids[handle]
                os.close(handle)
        return list(self._pids.values())


class Wards(Processes):
    """Those that end with this one, at the latest."""

    _grace_s = 0.0

    def add(self, pids: Iterable[int], grace_s: float) -> None:
        """Take charge of processes, which get so long to end by themselves; forget those that have ended."""
        self.running()
        self._grace_s = grace_s
        self.hold(pids)

    def kill(self) -> None:
        """Kill them all after their time, whether this process lives or not: MPI's abort lets no thread of it run."""
        running = self.running()  # a process that has not ended keeps its number for a moment
        if running and not self._grace_s:
            for pid in running:
                with suppress(ProcessLookupError):  # ended just now
                    os.kill(pid, signal.SIGKILL)
        elif running:
            words = ["sh", "-c", f'sleep {self._grace_s}; kill -s KILL "$@"', "sh", *map(str, running)]
            silent = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in range(3)]
            with suppress(OSError):  # no shell: MPI's abort is all there is
                os.posix_spawn("/bin/sh", words, os.environ, file_actions=silent, setsid=True)


def end_with_parent() -> None:
    """End this process as soon as the one that started it is gone; where the kernel cannot tell, nothing is done."""
    with suppress(OSError, AttributeError):  # no handles of processes here
        parent = os.pidfd_open(os.getppid())
        threading.Thread(target=_wait_and_end, args=(parent,), name="apgas-orphan", daemon=True).start()


def _wait_and_end(parent: int) -> None:
    _ended(parent, None)
    # whoever could read a last word is gone, too
    _remove_session(os.environ.get(_SESSION, ""))
    os._exit(1)


def _ended(handle: int, timeout_ms: float | None) -> bool:
    watch = select.poll()  # select() refuses descriptors above 1023
    watch.register(handle, select.POLLIN)
    return bool(watch.poll(timeout_ms))


def _remove_session(name: str) -> None:
    """Remove the folder that the process manager kept on this node; the other places here do the same."""
    import shutil
    from pathlib import Path

    folder = Path(name)
    if folder.is_absolute() and folder.name.startswith(_SESSION_NAMES):
        shutil.rmtree(folder, ignore_errors=True)
