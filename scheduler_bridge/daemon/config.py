"""How a daemon is set up; every number has its unit in its name and a default that suits one machine."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from apgas.malleability.core_ids import listed
from scheduler_bridge.model.job import LARGEST

EMULATED: Final = "fork"
"""How the launcher reaches nodes that are this machine."""
NODE_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,255}")
NodeName = Annotated[str, Meta(min_length=1, max_length=255)]
Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0, le=LARGEST)]
PositiveSeconds = Annotated[float, Meta(gt=0, le=LARGEST)]


class HintedError(Exception):
    """Base of errors that say what to do about them: ``hint``, or nothing if it is empty."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


class DaemonError(HintedError):
    """The daemon cannot be set up so; the text says why, ``hint`` what to do."""


class Limits(msgspec.Struct, frozen=True):
    """What a connection may cost before the daemon closes it."""

    hello_s: float = 5.0
    """Time for the first message of a job's connection."""
    drain_s: float = 5.0
    """Time for a peer to read what it was sent."""
    connections: int = 1024
    strangers: int = 64
    """Connections that have not said a valid hello yet."""
    burst_messages: int = 500
    messages_per_s: float = 100.0
    strikes: int = 20
    """Messages of one connection that may be refused before it is closed."""
    burst_requests: int = 2000
    """Of one connection of an operator, and of all connections of another user, like the following."""
    requests_per_s: float = 1000.0
    burst_bytes: int = 64 * 1024 * 1024
    bytes_per_s: float = 4e6
    user_connections: int = 64
    """Of one user who is no operator."""
    user_share: float = 0.25
    """Of the daemon's time, for the requests of one user who is no operator; further ones wait."""
    open_jobs: int = 100_000
    """Jobs that wait or run; further ones are not taken."""
    user_bytes: int = 64 * 1024 * 1024
    """What one user's requests take whose jobs wait or run; further ones are not taken."""


class Scheduling(msgspec.Struct, frozen=True):
    """What of a configuration decisions depend on. The log keeps it, so that a restart knows what has changed.

    Attributes:
        nodes: Names of the nodes, in the order in which pictures show them.
        policy: Name of a registered policy.
        parameters: Parameters of the policy.
        user_nodes: The jobs of one user hold at most this many nodes together; further ones wait. None: any number.
        pass_interval_s: Decide at least this often, besides at events; 0: at events only. None: as the policy is meant.
        cooldown_s: A job takes no order for this long after a resize. None: as the policy is meant.
        walltime_grace_s: A job is ended this long after its walltime.
    """

    nodes: tuple[NodeName, ...]
    policy: str = "malleable"
    parameters: dict[str, Any] = {}
    user_nodes: Count | None = None
    pass_interval_s: Seconds | None = None
    cooldown_s: Seconds | None = None
    walltime_grace_s: Seconds = 0.0


class DaemonConfig(Scheduling, frozen=True, kw_only=True):
    """Settings of one daemon. A configuration file gives them under the same names, but for a few shorter ones.

    Attributes:
        cores_per_node: Cores of each node, for policies that let jobs share nodes; it holds until no job is left.
        bind_cores: Whether jobs are ordered to compute on their cores only: those must exist.
        state_dir: Folder of the control socket, the jobs' output and the history; made if needed, closed to others.
        host: Address at which jobs reach the daemon.
        resize_deadline_s: Time for a job to carry an order out; then the order is withdrawn.
        withdraw_s: Time for a job to answer a withdrawal; then the resize counts as failed.
        grace_s: Time between TERM and KILL when a job is ended.
        mpiexec: Starts the jobs. None: ``apgas.launch`` does, and the mpiexec beside the running Python those jobs that
            want mpiexec.
        reach: The program that launchers call like ssh to reach nodes; by default they are names on this machine.
        ailing: Nodes that do not answer when the daemon begins, and what they failed with: they get no jobs yet.
        user_jobs: How many jobs of one user wait and run at most; further ones are kept back. None: any number.
        doors: Where users come in who are not the daemon's own: ``unix:PATH``; see ``access.Door``.
        limits: What a connection may cost.
        salvage: Start from the last sound row of a log that is damaged, and list what may be lost.
        end_unknown: End what runs of jobs that the log does not know, instead of naming it only.

    Raises:
        DaemonError: A value is wrong, alone or beside another one.
    """

    state_dir: Path
    cores_per_node: Annotated[int, Meta(ge=1, le=1024)] = 1
    bind_cores: bool = False
    host: str = "127.0.0.1"
    resize_deadline_s: PositiveSeconds = 60.0
    withdraw_s: Seconds = 5.0
    grace_s: Seconds = 2.0
    mpiexec: Path | None = None
    reach: str = EMULATED
    ailing: dict[str, str] = {}
    user_jobs: Count | None = None
    doors: tuple[str, ...] = ()
    limits: Limits = Limits()
    salvage: bool = False
    end_unknown: bool = False

    def __post_init__(self) -> None:
        if not self.nodes:
            raise DaemonError("a cluster needs at least one node", "give --nodes 4 or --node-names a,b,c")
        for name in self.nodes:
            if not NODE_NAME.fullmatch(name):
                raise DaemonError(f"{name!r} is not a node name", "use letters, digits, '.', '_' and '-'")
        if twice := [name for name, count in Counter(self.nodes).items() if count > 1]:
            raise DaemonError(f"node {twice[0]} is named twice", "give every node a name of its own")
        for name in self.__struct_fields__:
            value = getattr(self, name)
            try:
                convert_setting(name, value)
            except msgspec.ValidationError as error:
                raise DaemonError(f"{name} is {value!r}: {error}") from None
        if self.bind_cores:
            self._check_binding()

    def _check_binding(self) -> None:
        """See that jobs can be bound to the cores of their nodes.

        Only the cores of this machine can be looked at: on other hosts each place refuses cores that are not there.
        """
        if not hasattr(os, "sched_getaffinity"):
            raise DaemonError("this system binds no process to cores", "leave --bind-cores out")
        if self.reach != EMULATED:
            return
        if len(self.nodes) > 1:
            raise DaemonError(
                f"{len(self.nodes)} nodes that one machine emulates have the same cores",
                "serve one node, or hosts, or leave --bind-cores out",
            )
        here, wanted = os.sched_getaffinity(0), range(self.cores_per_node)
        if missing := set(wanted) - here:
            raise DaemonError(
                f"a node has the cores {listed(wanted)}, but here there are only {listed(sorted(here))}",
                f"give --cores {min(missing)}" if min(missing) else "leave --bind-cores out",
            )


def numbered_nodes(count: int) -> tuple[str, ...]:
    """Names of ``count`` emulated nodes: node1, node2, ..."""
    return tuple(f"node{index}" for index in range(1, count + 1))


_TYPES: Final = {field.name: field.type for field in msgspec.structs.fields(DaemonConfig)}


def convert_setting(name: str, value: object) -> Any:
    """Return ``value`` in the type of the setting ``name`` of ``DaemonConfig``.

    Raises:
        msgspec.ValidationError: It cannot have this value.
    """
    return msgspec.convert(value, _TYPES[name], dec_hook=lambda kind, given: kind(given))
