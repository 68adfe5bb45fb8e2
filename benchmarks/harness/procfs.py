"""What Linux tells about processes: who belongs to a contender, what they used."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

MARK: Final = "MALLEABLE_OVERHEADS"
"""Environment variable by which all processes of a contender are found, whoever their parent is by now."""


def marked(mark: str) -> list[int]:
    """Return the living processes (zombies are not) that carry a mark that begins with ``mark``."""
    wanted = f"\0{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            if wanted in b"\0" + (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue  # gone meanwhile, or somebody else's
    return found


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


def age_s() -> float | None:
    """Return how long ago this process was made, to some 10 ms; None where the system does not tell."""
    try:
        # the name, in brackets, may hold anything; what follows are fields 3 and on of proc(5)
        fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError, AttributeError):
        return None


def memory() -> dict[str, float]:
    """Return the memory of this process: ``rss_bytes`` and ``pss_bytes`` (shared pages divided by their users)."""
    found = {}
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name in ("Rss", "Pss"):
            found[f"{name.lower()}_bytes"] = 1024.0 * int(rest.split()[0])
    return found


def mpi_segments(pids: Iterable[int]) -> set[Path]:
    """Return the shared-memory files of MPI that these processes use; those of a killed process stay behind."""
    found = set()
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue  # it has ended
        found |= {Path(line.split(None, 5)[5]) for line in lines if "/dev/shm/mpich_shm_" in line}
    return {path for path in found if path.exists()}
