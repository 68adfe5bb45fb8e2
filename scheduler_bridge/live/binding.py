"""Whether jobs can be bound to cores: those of the nodes have to be there."""

from __future__ import annotations

import os

from apgas.malleability.core_ids import listed
from scheduler_bridge.live.config import EMULATED, DaemonConfig, DaemonError


def check_binding(config: DaemonConfig, cores: int) -> None:
    """See that jobs can be bound to cores if that is asked for; nodes have ``cores``.

    Only the cores of this machine can be looked at: on other hosts each place refuses cores that are not there.

    Raises:
        DaemonError: They cannot.
    """
    if not config.bind_cores:
        return
    if not hasattr(os, "sched_getaffinity"):
        raise DaemonError("this system binds no process to cores", "leave --bind-cores out")
    if config.reach != EMULATED:
        return
    if len(config.nodes) > 1:
        raise DaemonError(
            f"{len(config.nodes)} nodes that one machine emulates have the same cores",
            "serve one node, or hosts, or leave --bind-cores out",
        )
    here = os.sched_getaffinity(0)
    if missing := set(range(cores)) - here:
        raise DaemonError(
            f"a node has the cores {listed(range(cores))}, but here there are only {listed(sorted(here))}",
            f"give --cores {min(missing)}" if min(missing) else "leave --bind-cores out",
        )
