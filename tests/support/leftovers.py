"""What a job may leave behind: processes, shared-memory segments, temporary files.

Other jobs may run on this machine at the same time, so processes are found by a mark in their environment. A file
counts as left over only if no living process has it mapped, open, or named in its environment, as the folder of a
launcher's books is, and if it was there when the job had ended: what comes later is another job's. What a test has made
old, for the next job to sweep it, is that test's to look at.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from apgas.runtime.environment import OLD_S

MARK: Final = "MALLEABLE_TEST_MARK"
"""Environment variable that all processes of one job carry, with a value of its own."""
PATIENCE_S: Final = 1.0
"""The promise: so long after any end nothing of ours is there."""
Found = TypeVar("Found", dict[int, str], set[str])
_PATTERNS: Final = (
    ("/dev/shm", "mpich_shm_*"),
    ("/dev/shm", "ucx_shm_*"),
    ("/dev/shm", "[0-9]*:[0-9]*:[0-9]*"),
    ("/dev/shm", "sm_segment.*"),
    ("/tmp", "hydra_hwloc_xmlfile_*"),
    ("/tmp", "ompi.*"),
    ("/tmp", "prte.*"),
    ("/tmp", "apgas-*"),
)


def living(mark: str) -> dict[int, str]:
    """Returns the living processes (zombies are not) that carry the mark, with their command lines."""
    wanted = f"{MARK}={mark}\0".encode()
    found = {}
    for folder in _processes():
        try:
            if wanted in (folder / "environ").read_bytes() + b"\0":
                found[int(folder.name)] = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
        except OSError:
            continue  # gone meanwhile
    return found


def kill(mark: str) -> None:
    """Kills every process that carries the mark."""
    while alive := living(mark):
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # ended just now
        time.sleep(0.01)


class Leftovers:
    """Remembers the files there are now; `check` fails if a job left others, or a process."""

    def __init__(self) -> None:
        self._before = _files()

    def files(self) -> set[str]:
        """Returns the new files that no process uses any more."""
        new = _files() - self._before
        if not new:
            return new
        return {name for name in new - _in_use(new) if _is_young(name)}

    def check(self, *marks: str) -> None:
        """Asserts that a second later no process with one of the marks is there, and no orphaned file."""
        alive = patiently(lambda: {pid: line for mark in marks for pid, line in living(mark).items()})
        assert not alive, f"processes still alive after {PATIENCE_S} s: {alive}"
        known = _files()
        files = patiently(lambda: self.files() & known)
        assert not files, f"files left behind: {sorted(files)}"


class Patience:
    """A time limit that a busy machine does not shorten.

    Each look at `over` counts the time since the last one, divided by the number of runnable threads per core. So a
    limit of one second is one second on an idle machine, and six on a machine of two cores with a load of twelve.
    Where this process itself was held up, no more than a quarter of a second counts.

    Args:
        seconds: how long, on an idle machine.
    """

    def __init__(self, seconds: float) -> None:
        self._left_s = seconds
        self._looked_s = time.monotonic()
        self._cores = len(os.sched_getaffinity(0))

    def over(self) -> bool:
        """Returns whether the time has passed; to be asked several times a second."""
        now_s = time.monotonic()
        self._left_s -= min(now_s - self._looked_s, 0.25) / max(1.0, _runnable() / self._cores)
        self._looked_s = now_s
        return self._left_s <= 0


def patiently(look: Callable[[], Found]) -> Found:
    """Looks until nothing is found, or for a second at most (see `Patience`); returns what is found then."""
    patience = Patience(PATIENCE_S)
    while (found := look()) and not patience.over():
        time.sleep(0.02)
    return found


def _runnable() -> int:
    """Returns how many threads of this machine compute, or would if a core were free."""
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])


def _files() -> set[str]:
    return {str(path) for folder, pattern in _PATTERNS for path in Path(folder).glob(pattern)}


def _is_young(name: str) -> bool:
    try:
        return Path(name).stat().st_mtime > time.time() - OLD_S
    except OSError:
        return False  # gone meanwhile


def _in_use(names: set[str]) -> set[str]:
    used = set()
    for folder in _processes():
        try:
            maps = (folder / "maps").read_text(errors="replace")
            environment = (folder / "environ").read_text(errors="replace")
            used |= {name for name in names if name in maps or name in environment}
            used |= names & {os.readlink(link) for link in (folder / "fd").iterdir()}  # noqa: PTH115 - text is compared
        except OSError:
            continue  # gone meanwhile, or another user's
    return used


def _processes() -> list[Path]:
    return [folder for folder in Path("/proc").iterdir() if folder.name.isdigit() and int(folder.name) != os.getpid()]
