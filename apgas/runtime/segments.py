"""Removes the names of files that MPICH would leave behind if the job ended abnormally.

MPICH keeps a shared-memory segment per world in /dev/shm, and hydra's proxy of each node a topology file in /tmp. Both
are opened or mapped once, at initialisation; a name that is unlinked after that cannot be left behind by a kill -9.
What a job leaves that is killed within its initialisation, the next one of the same user removes (``sweep``).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from typing import Final

_SEGMENT = "/dev/shm/mpich_shm_"
_TOPOLOGY = "/hydra_hwloc_xmlfile_"
_DELETED = " (deleted)"
_PROXY = "hydra_pmi_proxy"
_ANCESTORS = 4  # a place may be wrapped by a shell or two
_BEGINNINGS = (("/dev/shm", "mpich_shm_"), ("/tmp", "hydra_hwloc_xmlfile_"))
OLD_S: Final = 60.0
"""No initialisation takes so long: a file that is older and not in use is left over."""


def unlink_leftovers() -> list[str]:
    """Unlinks the MPI files of this process that have served their purpose; returns the names that went.

    Call it after MPI_Init and a barrier of this process's MPI.COMM_WORLD, so that every process of the world on this
    node has opened them. Every place may call it; the first one of a node does the work. Never raises.
    """
    gone = []
    for name in sorted(_mapped_segments() | _topology_files()):
        with contextlib.suppress(OSError):  # another place was quicker
            os.unlink(name)
            gone.append(name)
    return gone


def sweep() -> list[str]:
    """Unlinks what killed jobs of this user have left on this node; returns the names that went. Never raises.

    Costs nothing but two listings where there is nothing that looks old; else a look at every process.
    """
    old = set(_old_files())
    if not old:
        return []
    used: set[str] = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        used |= _mapped_segments(pid)
        with contextlib.suppress(OSError):  # gone, or another user's
            used |= _open_files(int(pid))
    gone = []
    for name in sorted(old - used):
        with contextlib.suppress(OSError):  # another job was quicker
            os.unlink(name)
            gone.append(name)
    return gone


def _old_files() -> Iterable[str]:
    now_s = time.time()
    for folder, beginning in _BEGINNINGS:
        names: list[str] = []
        with contextlib.suppress(OSError):  # no such folder here
            names = os.listdir(folder)
        for name in names:
            if not name.startswith(beginning):
                continue
            with contextlib.suppress(OSError):  # gone meanwhile
                found = os.lstat(f"{folder}/{name}")
                if found.st_uid == os.getuid() and now_s - found.st_mtime > OLD_S:
                    yield f"{folder}/{name}"


def _mapped_segments(pid: str = "self") -> set[str]:
    """Names of the MPICH segments that a process has mapped."""
    try:
        lines = _text(f"/proc/{pid}/maps").splitlines()
    except OSError:
        return set()
    names = (line[line.find(_SEGMENT) :] for line in lines if _SEGMENT in line)
    return {name for name in names if not name.endswith(_DELETED)}


def _topology_files() -> set[str]:
    """Names of the topology files that the hydra proxy above this process holds open."""
    found: set[str] = set()
    pid = os.getppid()
    for _ in range(_ANCESTORS):
        if pid <= 1:
            break
        try:
            command, parent = _command_and_parent(pid)
            if command.startswith(_PROXY[:15]):  # the kernel keeps 15 characters
                found |= _open_files(pid)
                break
        except (OSError, ValueError):
            break
        pid = parent
    return found


def _command_and_parent(pid: int) -> tuple[str, int]:
    stat = _text(f"/proc/{pid}/stat")
    command, rest = stat[stat.index("(") + 1 :].rsplit(")", 1)
    return command, int(rest.split()[1])


def _open_files(pid: int) -> set[str]:
    names = set()
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
            if _TOPOLOGY in target and not target.endswith(_DELETED):
                names.add(target)
    return names


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
