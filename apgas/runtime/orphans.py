"""Ends processes that Open MPI would leave running, for it ends the world of the process that died, and no other.

A place ends when its process manager is gone (``end_with_parent``), and when place 0 is gone, which it notices by its
connection. One that holds on to its interpreter notices nothing: place 0 ends those on its own node (``Wards``).
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

MOMENT_S: Final = 0.6
"""How long mpiexec takes to end place 0 with the code of the job; the code of a process that ends before may win."""

_SESSION: Final = "PMIX_SERVER_TMPDIR"
_SESSION_NAMES: Final = ("ompi.", "prte.")


class Wards:
    """Processes of this machine that end with this one, at the latest."""

    def __init__(self) -> None:
        self._pids: dict[int, int] = {}
        self._grace_s = 0.0

    def add(self, pids: Iterable[int], grace_s: float) -> None:
        """Take charge of processes, which get so long to end by themselves; forget those that have ended."""
        self._forget_ended()
        self._grace_s = grace_s
        for pid in pids:
            with suppress(OSError, AttributeError):  # gone already, or the kernel has no handles
                self._pids[os.pidfd_open(pid)] = pid

    def kill(self) -> None:
        """Kill them all after their time, whether this process lives or not: MPI's abort lets no thread of it run."""
        self._forget_ended()
        if self._pids and not self._grace_s:
            for pid in self._pids.values():
                with suppress(ProcessLookupError):  # ended just now
                    os.kill(pid, signal.SIGKILL)
        elif self._pids:
            words = ["sh", "-c", f'sleep {self._grace_s}; kill -s KILL "$@"', "sh", *map(str, self._pids.values())]
            silent = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in range(3)]
            with suppress(OSError):  # no shell: MPI's abort is all there is
                os.posix_spawn("/bin/sh", words, os.environ, file_actions=silent, setsid=True)

    def _forget_ended(self) -> None:
        """A process that has not ended keeps its number, so that killing by number is safe for a moment."""
        for handle in [handle for handle in self._pids if _ended(handle, 0)]:
            del self._pids[handle]
            os.close(handle)


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


def _ended(handle: int, timeout_ms: int | None) -> bool:
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
