"""The configuration of a scheduler: TOML, with errors that name the line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from scheduler_bridge.cli.errors import CliError, culprit
from scheduler_bridge.cli.toml_file import line_of, read_toml

NodeName = Annotated[str, Meta(min_length=1, max_length=255)]


class Web(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the live page is served."""

    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    host: str = "127.0.0.1"


class V1(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where lines of protocol v1's administrators are taken, and the folder of the job scripts that they may name."""

    scripts: str
    port: Annotated[int, Meta(ge=0, le=65535)] = 8081
    host: str = "127.0.0.1"


class Health(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How hosts are looked at; see ``scheduler_bridge.backends.hosts.Rules``."""

    every_s: Annotated[float, Meta(gt=0)] = 15.0
    deadline_s: Annotated[float, Meta(gt=0)] = 10.0
    failures: Annotated[int, Meta(ge=1)] = 3


class ServeFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"parameters": "set"}):
    """What a configuration may say; what it leaves out is as without it.

    Attributes:
        nodes: How many emulated nodes, or their names.
        hosts: The file of hosts whose nodes they are, instead; as seen from this file.
        launcher: How hosts are reached.
        health: How they are looked at (``[health]``).
        policy: Name of the policy.
        parameters: Its parameters (``[set]``).
        cores: Cores of each node, for policies that let jobs share nodes.
        bind_cores: Whether jobs compute on their cores of a node only.
        state: The state folder; as seen from the file.
        host: Address at which jobs reach the scheduler.
        resize_deadline_s: Seconds for a job to carry an order out.
        grace_s: Seconds between TERM and KILL when a job is ended.
        mpiexec: The MPI launcher.
        user_jobs: How many jobs of one user wait and run at most; further ones are kept back.
        user_nodes: How many nodes the jobs of one user hold together at most; further jobs wait.
        pass_interval_s: Decide at least this often, besides at events; 0: at events only.
        cooldown_s: A job takes no order for this long after a resize.
        walltime_grace_s: A job is ended this long after its walltime.
        doors: Where users come in who are not the scheduler's own: unix:PATH.
        web: Where the live page is served (``[web]``).
        v1: Protocol v1's lines for administrators (``[v1]``).
    """

    nodes: Annotated[int, Meta(ge=1, le=100_000)] | tuple[NodeName, ...] | None = None
    hosts: str | None = None
    launcher: str | None = None
    health: Health = Health()
    policy: str | None = None
    parameters: dict[str, Any] = {}
    cores: Annotated[int, Meta(ge=1, le=1024)] | None = None
    bind_cores: bool = False
    state: str | None = None
    host: str | None = None
    resize_deadline_s: Annotated[float, Meta(gt=0)] | None = None
    grace_s: Annotated[float, Meta(ge=0)] | None = None
    mpiexec: str | None = None
    user_jobs: Annotated[int, Meta(ge=1)] | None = None
    user_nodes: Annotated[int, Meta(ge=1)] | None = None
    pass_interval_s: Annotated[float, Meta(ge=0)] | None = None
    cooldown_s: Annotated[float, Meta(ge=0)] | None = None
    walltime_grace_s: Annotated[float, Meta(ge=0)] | None = None
    doors: tuple[str, ...] = ()
    web: Web | None = None
    v1: V1 | None = None


def read_config(path: Path) -> ServeFile:
    """Read a configuration.

    Raises:
        CliError: It cannot be read, or says something that it may not; the text names the line.
    """
    text, values = read_toml(path, "a configuration", "give a configuration, or --nodes 4")
    known = {field.encode_name for field in msgspec.structs.fields(ServeFile)}
    for key in values:
        if key not in known:
            raise CliError(
                f"{path}:{line_of(text, key)}: unknown key {key!r}", f"a configuration has {', '.join(sorted(known))}"
            )
    try:
        return msgspec.convert(values, ServeFile)
    except msgspec.ValidationError as error:
        field, what = culprit(error)
        raise CliError(f"{path}:{line_of(text, field)}: {field}: {what}", hint="see: malleable serve --help") from None
