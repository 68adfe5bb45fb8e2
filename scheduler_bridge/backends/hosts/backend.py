"""The base of back-ends whose nodes jobs reach through a launcher, and the back-end of the hosts of a file."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from scheduler_bridge.backends.hosts.hosts import Host, Launcher, Reach, fewest_cores, is_here, read_hosts
from scheduler_bridge.backends.hosts.watch import Looker, Rules, Watch
from scheduler_bridge.backends.standin import StandIn, address
from scheduler_bridge.daemon import Daemon, DaemonConfig, DaemonError
from scheduler_bridge.daemon.jobs.executor import Executor, Setup
from scheduler_bridge.daemon.storage.state import ENDPOINT
from scheduler_bridge.jobrunner.notes import Ending


class NodesBackend(ABC):
    """What a daemon needs to drive such nodes; ``reach`` is what launchers reach them with."""

    _complained = "host {} does not answer: {}"
    """Says of a node, in the reason of a job's end, what is wrong with it."""

    def __init__(self, reach: StandIn) -> None:
        self._files = reach
        self._watch: Watch | None = None

    def executor(self, setup: Setup) -> Executor:
        """Make what runs the jobs' processes, now that the state folder is the daemon's own."""
        self._files.write()
        return _Executor(setup, self)

    def close(self) -> None:
        """Remove what was written."""
        self._files.forget()

    @abstractmethod
    def lacks(self, node: str) -> str:
        """Return why there can be no node of this name; empty if there can."""

    def watch(self, daemon: Daemon) -> Watch:
        """Return what looks at the daemon's nodes."""
        self._watch = self._watching(daemon)
        return self._watch

    @abstractmethod
    def _watching(self, daemon: Daemon) -> Watch:
        """Make it."""

    async def gone(self, job_id: int) -> str:
        """Look at the nodes of a job that has failed; those that are not fit get no further jobs."""
        complaints = await self._watch.complaints(job_id) if self._watch is not None else {}
        return "; ".join(self._complained.format(node, complaint) for node, complaint in complaints.items())


class _Executor(Executor):
    """Runs jobs on the nodes of a back-end."""

    def __init__(self, setup: Setup, backend: NodesBackend) -> None:
        super().__init__(setup)
        self._backend = backend

    def lacks(self, node: str) -> str:
        return self._backend.lacks(node)

    async def judged(self, job_id: int, ending: Ending) -> Ending:
        """A job that failed has not failed but was lost, if one of its nodes, which are looked at, does not answer."""
        if ending.lost or ending.status in (0, None):
            return ending
        complaint = await self._backend.gone(job_id)
        return replace(ending, lost=True, reason=f"{complaint}; {ending.reason}") if complaint else ending


# The scheduler on the hosts of a file --------------------------------------------------------------------------------
#
# Jobs reach them through a launcher, and they are looked at again and again.

_logger = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class HostsConfig:
    """Which hosts, and how they are reached.

    Attributes:
        file: Names them.
        launcher: Starts commands there.
        rules: How they are looked at.
    """

    file: Path
    launcher: Launcher
    rules: Rules

    def names(self) -> tuple[str, ...]:
        """Return the names of the hosts.

        Raises:
            DaemonError: The file is wrong.
        """
        return tuple(host.name for host in read_hosts(self.file))


class HostsBackend(NodesBackend):
    """What a daemon needs to drive hosts; made by ``on_hosts``.

    Args:
        hosts: Which ones.
        settings: How they are reached.
        reach: What launchers reach them with.
        ailing: Those that do not answer.
    """

    def __init__(self, hosts: Sequence[Host], settings: HostsConfig, reach: Reach, ailing: Iterable[str]) -> None:
        super().__init__(reach)
        self._hosts = {host.name: host for host in hosts}
        self._settings = settings
        self._reach = reach
        reach.know_hosts(hosts)
        self._ailing = ailing

    def lacks(self, node: str) -> str:
        """Return why there can be no node of this name; empty if there can."""
        try:
            names = self._settings.names()
        except DaemonError as error:
            return str(error)
        return "" if node in names else f"{self._settings.file} does not name it"

    def _watching(self, daemon: Daemon) -> Watch:
        rules = self._settings.rules
        looker = Looker(self._settings.launcher, rules.deadline_s, rules.at_once, self._reach.programs)
        return Watch(daemon, self._known, looker, rules, self._ailing, self._forget)

    def _forget(self, node: str) -> None:
        """A node has left: if it comes back, what the file says then counts."""
        self._hosts.pop(node, None)

    def _known(self, node: str) -> Host:
        """Return the host that a node is; one that was added since is looked for in the file."""
        if node not in self._hosts:
            found = {}
            try:
                found = {host.name: host for host in read_hosts(self._settings.file)}
            except DaemonError as error:
                _logger.warning("%s", error)
            self._hosts[node] = found.get(node, Host(node, node))
            self._reach.know_hosts(self._hosts.values())
        return self._hosts[node]


@contextmanager
def on_hosts(config: DaemonConfig, settings: HostsConfig) -> Iterator[tuple[DaemonConfig, HostsBackend]]:
    """Let a scheduler drive the hosts of a file; yields its configuration, and what the daemon is to be made with.

    Args:
        config: Its nodes are the hosts; address and cores are those that they have, unless it names others.
        settings: Which hosts.

    Raises:
        DaemonError: The file is wrong, or no host answers.
    """
    hosts = read_hosts(settings.file)
    reach = Reach(config.state_dir.absolute(), settings.launcher)
    looker = Looker(settings.launcher, settings.rules.deadline_s, settings.rules.at_once)
    ailing = asyncio.run(looker.complaints(hosts))
    for name, complaint in ailing.items():
        _logger.warning("host %s gets no jobs: %s", name, complaint)
    if len(ailing) == len(hosts) and not (config.state_dir / ENDPOINT).exists():  # Else jobs may run already.
        raise DaemonError(
            f"no host of {settings.file} answers, {hosts[0].name} for one: {ailing[hosts[0].name]}",
            f"malleable doctor --hosts {settings.file} says more",
        )
    cores = fewest_cores(hosts) if config.cores_per_node == 1 else None
    backend = HostsBackend(hosts, settings, reach, ailing)
    try:
        yield msgspec.structs.replace(
            config, nodes=tuple(host.name for host in hosts), host=_address(config, hosts), reach=str(reach.program),
            ailing=ailing, cores_per_node=cores or config.cores_per_node,
        ), backend  # fmt: skip
    finally:
        backend.close()


def _address(config: DaemonConfig, hosts: Sequence[Host]) -> str:
    others = [host.address.rpartition("@")[2] for host in hosts if not is_here(host.name)]
    if config.host != LOOPBACK or not others:
        return config.host
    try:
        return address(others)
    except OSError as error:
        raise DaemonError(
            f"no address of this machine is known at which {others[0]} could reach it: {error.strerror}",
            'name it in the configuration: host = "10.0.0.1"',
        ) from None
