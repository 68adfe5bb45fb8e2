"""``malleable serve``, and ``malleable doctor``, which looks at what serving needs."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import shutil
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from scheduler_bridge import policies
from scheduler_bridge.backends.hosts import (
    HostsBackend,
    HostsConfig,
    Rules,
    examine,
    launcher_of,
    on_hosts,
    read_hosts,
)
from scheduler_bridge.backends.slurm import (
    Harvest,
    Slurm,
    SlurmBackend,
    SlurmError,
    allocated_nodes,
    inside,
    this_job,
)
from scheduler_bridge.cli import options
from scheduler_bridge.cli.common import (
    CliError,
    LauncherOption,
    StateOption,
    culprit,
    say,
    slurm_state_folder,
    state_folder,
)
from scheduler_bridge.cli.inputs import CooldownOption, PassIntervalOption, line_of, read_toml
from scheduler_bridge.cli.options import option
from scheduler_bridge.cli.policies import LoadOption, load_policies
from scheduler_bridge.cli.terminal import log_to_stderr
from scheduler_bridge.core import COMPILED
from scheduler_bridge.daemon import Daemon, DaemonConfig, listener
from scheduler_bridge.daemon.config import NodeName, PositiveSeconds, convert_setting, numbered_nodes
from scheduler_bridge.daemon.v1 import AdminConfig, AdminServer
from scheduler_bridge.gc_tuning import rare_searches

if TYPE_CHECKING:
    from scheduler_bridge.web import WebServer

Backend: TypeAlias = Literal["local", "slurm"]


@dataclass(frozen=True, kw_only=True)
class NodeOptions:
    """Which nodes there are."""

    PANEL: ClassVar = "Nodes"

    nodes: int | None = options.count(None, "--nodes", "How many: node1, ...", max=100_000)
    node_names: str | None = option(None, "--node-names", "Names instead.", "A,B,C")
    backend: Backend = option("local", "--backend", "local: emulated nodes; slurm: those of this Slurm allocation.")
    harvest: str = option("", "--harvest", "Slurm: take its idle nodes, until others want them.", "PARTITION")
    harvest_qos: str = option("", "--harvest-qos", "The same, with a quality of service.", "QOS")
    harvest_every_s: float = option(5.0, "--harvest-every", "Seconds between two looks, at least.", "S", min=0.1)
    hosts: Path | None = options.file(None, "--hosts", "The hosts that FILE names, one a line, instead.")
    launcher: LauncherOption = None
    cores_per_node: int | None = options.count(
        None, "--cores", "Cores of a node, for sd-policy.", max=1024, show_default="1"
    )
    bind_cores: bool = option(
        False, "--bind-cores", "Let jobs compute on their cores of a node only, which must exist."
    )


@dataclass(frozen=True, kw_only=True)
class SchedulingOptions:
    """How it is decided, and what jobs may take: settings of the daemon."""

    PANEL: ClassVar = "Scheduling"

    policy: str | None = option(None, "--policy", "See: malleable policies", "NAME", show_default="malleable")
    parameters: list[str] = option([], "--set", "A parameter of the policy.", "NAME=VALUE")
    load: LoadOption = None
    user_nodes: int | None = options.count(None, "--user-nodes", "Nodes of one user's jobs together, at most.")
    pass_interval_s: PassIntervalOption = None
    cooldown_s: CooldownOption = None
    walltime_grace_s: float | None = options.seconds(
        None, "--walltime-grace", "Jobs are ended so long after their walltime.", show_default="0"
    )
    resize_deadline_s: float | None = option(
        None, "--resize-deadline", "Time to carry an order out.", "SECONDS", min=0.1, show_default="60"
    )


@dataclass(frozen=True, kw_only=True)
class AccessOptions:
    """Where others come in."""

    PANEL: ClassVar = "Access"

    doors: list[str] | None = option(None, "--door", "Let the users of this machine in: unix:PATH.", "DOOR")
    web: int | None = option(None, "--web", "Serve a live page and metrics there (0: any).", "PORT", min=0, max=65535)
    web_host: str | None = option(
        None, "--web-host", "Address of the page; all who reach it may read it.", "ADDRESS", show_default="127.0.0.1"
    )
    v1_admin: int | None = option(
        None, "--v1-admin", "Take protocol v1's lines; they prove nothing.", "PORT", min=0, max=65535
    )
    v1_scripts: Path | None = options.folder(None, "--v1-scripts", "Folder of the job scripts that they may name.")


def serve(
    nodes: NodeOptions,
    scheduling: SchedulingOptions,
    access: AccessOptions,
    config: Path | None = options.file(None, "--config", "A configuration (TOML); options go before it."),
    state: StateOption = None,
    mpiexec: Path | None = options.file(None, "--mpiexec", "Starts jobs.", show_default="apgas.launch"),
    salvage: bool = option(
        False, "--salvage", "Start from the last sound row of a damaged log; list what may be lost."
    ),
    end_unknown: bool = option(False, "--end-unknown", "End what runs of jobs that the log does not know of."),
    quiet: bool = option(False, "--quiet -q", "Only the ready line and errors."),
) -> None:
    """Run the scheduler until TERM, INT or shutdown ends it: with emulated nodes, hosts, or those of Slurm.

    Example: malleable serve --nodes 4 --policy malleable --state /tmp/malleable
    """
    file = read_config(config) if config is not None else ServeFile()
    load_policies(scheduling.load)
    placed_on = _hosts(nodes, file)
    harvest = None
    if nodes.harvest or nodes.harvest_qos:
        if nodes.backend != "slurm":
            raise CliError("--harvest without --backend slurm", "Slurm lends the nodes", "give --backend slurm")
        harvest = Harvest(nodes.harvest, nodes.harvest_qos, nodes.harvest_every_s)
    state = Path(file.state) if state is None and file.state is not None else state
    settings = DaemonConfig(
        nodes=_names(nodes, file) if placed_on is None else placed_on.names(),
        state_dir=slurm_state_folder(state, this_job()) if nodes.backend == "slurm" else state_folder(state),
        salvage=salvage,
        end_unknown=end_unknown,
        **_settings(file, {"mpiexec": mpiexec, **asdict(nodes), **asdict(scheduling), **asdict(access)}),
    )
    log_to_stderr("%(asctime)s %(message)s", quiet=quiet)
    page = _page_of(access, file)
    with contextlib.ExitStack() as stack:
        stack.enter_context(rare_searches())  # each holds all up, the longer the more jobs there are
        place: HostsBackend | SlurmBackend | None = None
        if placed_on is not None:
            settings, place = stack.enter_context(on_hosts(settings, placed_on))
        elif nodes.backend == "slurm":
            settings, place = stack.enter_context(inside(settings, file.health.every_s, harvest))
        lines = _v1(access, file)
        if (files := listener.raise_file_limit()) < listener.ENOUGH_FILES:
            logging.getLogger(__name__).warning(
                "only %.0f files may be open, so fewer jobs can connect: ulimit -Hn %d", files, listener.ENOUGH_FILES
            )
        asyncio.run(_serve(settings, page, lines, place))


def _settings(file: ServeFile, given: dict[str, Any]) -> dict[str, Any]:
    """Return what is said of the daemon, by its names for it; options go before the configuration."""
    known = {name: value for name, value in given.items() if name in _SETTINGS.values()}
    asked = {name: value for name, value in known.items() if value is not None and value is not False}
    chosen = {"policy": "malleable", **file.settings, **asked}
    same_policy = given["policy"] in (None, file.settings.get("policy"))
    of_file = file.settings.get("parameters", {}) if same_policy else {}
    chosen["parameters"] = {**of_file, **policies.parse(chosen["policy"], given["parameters"])}
    chosen["doors"] = tuple(chosen.get("doors", ()))
    return chosen


def _hosts(nodes: NodeOptions, file: ServeFile) -> HostsConfig | None:
    """Return which hosts are to be driven, None if none."""
    alone = nodes.backend == "local" and nodes.nodes is None and nodes.node_names is None
    hosts = Path(file.hosts) if nodes.hosts is None and file.hosts is not None and alone else nodes.hosts
    if hosts is None:
        if nodes.launcher is not None:
            raise CliError("--launcher without hosts", "it is how they are reached", "give --hosts FILE")
        return None
    if not alone:
        raise CliError("serve --hosts needs no other nodes", "the file names them", "leave --nodes and --backend out")
    rules = Rules(file.health.every_s, file.health.deadline_s, file.health.failures)
    return HostsConfig(hosts.absolute(), launcher_of(nodes.launcher or file.launcher or "ssh"), rules)


def _names(nodes: NodeOptions, file: ServeFile) -> tuple[str, ...]:
    """Return the names that were asked for; options go before the configuration."""
    given = (nodes.nodes is not None) + (nodes.node_names is not None)
    if nodes.backend == "slurm":
        if given:
            raise CliError("serve --backend slurm needs no nodes", "Slurm names them", "leave --nodes out")
        return allocated_nodes()
    wanted = nodes.nodes if nodes.nodes is not None else file.nodes
    if given > 1 or (nodes.node_names is None and wanted is None):
        raise CliError("serve needs the nodes", "either their number or their names", "give --nodes 4")
    if nodes.node_names is not None or wanted is None:
        return tuple((nodes.node_names or "").split(","))
    return numbered_nodes(wanted) if isinstance(wanted, int) else wanted


def _page_of(access: AccessOptions, file: ServeFile) -> Web | None:
    """Return where the live page is served, None if nowhere."""
    if access.web is None and file.web is None:
        if access.web_host is not None:
            raise CliError("--web-host without --web", "no page is served", "for example: --web 0")
        return None
    found = file.web or Web()
    return Web(found.port if access.web is None else access.web, access.web_host or found.host)


def _v1(access: AccessOptions, file: ServeFile) -> AdminConfig | None:
    """Return where v1's lines are taken, None if nowhere."""
    port, scripts = access.v1_admin, access.v1_scripts
    if file.v1 is not None:
        port = file.v1.port if port is None else port
        scripts = scripts or Path(file.v1.scripts)
    if port is None and scripts is None:
        return None
    if port is None or scripts is None:
        raise CliError(
            "v1's lines need a port and a folder", "job scripts are taken from one folder only",
            "give --v1-admin 8081 --v1-scripts DIR",
        )  # fmt: skip
    return AdminConfig(port=port, scripts=scripts.absolute(), host=file.v1.host if file.v1 else "127.0.0.1")


async def _serve(
    config: DaemonConfig, web: Web | None, lines: AdminConfig | None, place: HostsBackend | SlurmBackend | None
) -> None:
    daemon = Daemon(config, executor=place.executor) if place is not None else Daemon(config)
    if not isinstance(place, SlurmBackend):  # its allocation ends with us, and the jobs with it
        daemon.allow_leaving(lambda: os._exit(0))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, daemon.request_stop)
    async with contextlib.AsyncExitStack() as beside:
        enter = beside.enter_async_context
        # A port that is not to be had ends this start before the daemon takes jobs up: when it ends, so do they.
        page = await enter(_page(daemon, web)) if web is not None else None
        admin = await enter(AdminServer(daemon, lines, serving=False)) if lines is not None else None
        await enter(daemon)
        if place is not None:
            await enter(place.watch(daemon))
        if isinstance(place, SlurmBackend):
            await enter(place.harvesting(daemon))
        ports = "".join(f", door {door}" for door in daemon.doors)
        if page is not None:
            await page.listener.serve()
            ports += f", page {page.url}"
        if lines is not None and admin is not None:
            await admin.listener.serve()
            ports += f", v1 {lines.host}:{admin.port}"
        count = f"{len(config.nodes)} nodes" if len(config.nodes) > 1 else "1 node"
        if config.ailing:
            count += f", {len(config.ailing)} without an answer"
        try:
            say(f"ready: {count}, policy {config.policy}, state {config.state_dir}, jobs {daemon.endpoint}{ports}")
        except OSError as error:  # a full disk, or no reader any more: no reason to end, and jobs with it
            logging.getLogger(__name__).error("ready, which cannot be said on standard output: %s", error.strerror)
        await daemon.stopping()
        await daemon.leave()


def _page(daemon: Daemon, web: Web) -> WebServer:
    """Return what serves the live page, once it is let."""
    try:
        from scheduler_bridge.web import WebConfig, WebServer
    except ImportError as error:
        raise CliError(
            f"the live page needs {error.name}", "it is not installed", 'pip install "malleable-apgas[web]"'
        ) from None
    return WebServer(daemon, WebConfig(port=web.port, host=web.host), serving=False)


# The configuration: TOML, with errors that name the line --------------------------------------------------------------


FilePath: TypeAlias = Annotated[str, Meta(min_length=1)]
"""A path as seen from the file; an empty one would be the file's own folder."""


class Web(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the live page is served."""

    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    host: str = "127.0.0.1"


class V1(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where lines of protocol v1's administrators are taken, and the folder of the job scripts that they may name."""

    scripts: FilePath
    port: Annotated[int, Meta(ge=0, le=65535)] = 8081
    host: str = "127.0.0.1"


class Health(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How hosts are looked at; see ``scheduler_bridge.backends.hosts.Rules``."""

    every_s: PositiveSeconds = 15.0
    deadline_s: PositiveSeconds = 10.0
    failures: Annotated[int, Meta(ge=1)] = 3


_SETTINGS: Final = {
    **{
        name: name
        for name in (
            "policy", "bind_cores", "host", "resize_deadline_s", "grace_s", "mpiexec", "user_jobs", "user_nodes",
            "pass_interval_s", "cooldown_s", "walltime_grace_s", "doors",
        )
    },
    "set": "parameters",
    "cores": "cores_per_node",
}  # fmt: skip
"""Keys of the file that are settings of ``DaemonConfig``, and their names there."""


class ServeFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a configuration may say; what it leaves out is as without it.

    Attributes:
        nodes: How many emulated nodes, or their names.
        hosts: The file of hosts whose nodes they are, instead; as seen from this file.
        launcher: How hosts are reached.
        health: How they are looked at (``[health]``).
        state: The state folder; as seen from the file.
        web: Where the live page is served (``[web]``).
        v1: Protocol v1's lines for administrators (``[v1]``).
        settings: What else it sets, by the names that ``DaemonConfig`` has for it.
    """

    nodes: Annotated[int, Meta(ge=1, le=100_000)] | tuple[NodeName, ...] | None = None
    hosts: FilePath | None = None
    launcher: str | None = None
    health: Health = Health()
    state: FilePath | None = None
    web: Web | None = None
    v1: V1 | None = None
    settings: dict[str, Any] = {}


def read_config(path: Path) -> ServeFile:
    """Read a configuration; the paths in it, which are seen from it, become those seen from here."""
    text, values = read_toml(path, "a configuration", "give a configuration, or --nodes 4")
    known = {*ServeFile.__struct_fields__, *_SETTINGS} - {"settings"}
    for key in values:
        if key not in known:
            raise CliError(
                f"{path}:{line_of(text, key)}: unknown key {key!r}", f"a configuration has {', '.join(sorted(known))}"
            )
    field = ""
    settings = {}
    try:
        for field in _SETTINGS.keys() & values.keys():
            settings[_SETTINGS[field]] = convert_setting(_SETTINGS[field], values[field])
        others = {key: value for key, value in values.items() if key not in _SETTINGS}
        found = msgspec.convert({**others, "settings": settings}, ServeFile)
    except msgspec.ValidationError as error:
        named, what = culprit(error)
        field = named or field
        raise CliError(f"{path}:{line_of(text, field)}: {field}: {what}", hint="see: malleable serve --help") from None

    folder, v1 = path.parent, found.v1
    return msgspec.structs.replace(
        found,
        hosts=None if found.hosts is None else str(folder / found.hosts),
        state=None if found.state is None else str(folder / found.state),
        v1=None if v1 is None else msgspec.structs.replace(v1, scripts=str(folder / v1.scripts)),
    )


# ``malleable doctor`` -------------------------------------------------------------------------------------------------


def doctor(
    hosts: Path | None = options.file(None, "--hosts", "Look at the hosts that FILE names, instead."),
    launcher: LauncherOption = None,
) -> None:
    """Check what works here (MPI, spawning, hosts, numba, Slurm) and say how to mend what does not.

    Example: malleable doctor
    """
    checks = importlib.import_module("apgas.doctor")
    if hosts is not None:
        findings = examine(read_hosts(hosts), launcher_of(launcher or "ssh"), Path.cwd())
        for found in findings:
            sys.stdout.write(checks.as_text(checks.Check(*found)) + "\n")
        failed = sum(not found.ok for found in findings)
        if failed:
            raise CliError(f"{failed} of {len(findings)} hosts cannot run jobs", "see the list above", code=1)
        return
    further = [_form_of_core, _open_files, *([_limits_of_slurm] if shutil.which("scontrol") else [])]
    if checks.main(lambda found=found: checks.Check(*found()) for found in further):
        raise CliError("not everything works here", "see the list above", code=1)


def _form_of_core() -> tuple[str, bool | None, str, str, str]:
    """Whether the scheduler's core and the simulator are machine code."""
    if COMPILED:
        return ("scheduler's core", True, "import", "machine code", "")
    came = "Python; simulations are twice as fast compiled (python3 launch/setup_venv.py compiled)"
    return ("scheduler's core", None, "import", came, "")


def _open_files() -> tuple[str, bool, str, str, str]:
    """Whether a scheduler may open as many files as its jobs' connections need."""
    soft, hard = listener.file_limits()
    came = f"{soft:.0f} may be open; malleable serve raises that to {hard:.0f}"
    mend = f"as root: ulimit -Hn {listener.ENOUGH_FILES}"
    return ("daemon's files", hard >= listener.ENOUGH_FILES, "getrlimit", came, mend)


def _limits_of_slurm() -> tuple[str, bool, str, str, str]:
    """What the installed Slurm lets malleable jobs do, as a line of the checklist."""
    tried = "scontrol --version, scontrol show config"
    try:
        return ("Slurm's limits", True, tried, "; ".join(Slurm().limits().sentences()), "")
    except SlurmError as error:
        return ("Slurm's limits", False, tried, str(error), "ask the operator: scontrol ping")
