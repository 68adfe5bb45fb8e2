"""Where batches are run: on nodes emulated on this machine, or on hosts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from scheduler_bridge.backends.hosts import HostsConfig, on_hosts, read_hosts
from scheduler_bridge.backends.hosts.hostfile import fewest_cores
from scheduler_bridge.live import Daemon, DaemonConfig, DaemonThread
from scheduler_bridge.live.config import numbered_nodes


@dataclass(frozen=True, slots=True)
class Site:
    """Where a scheduler's nodes are.

    Attributes:
        hosts: How they are reached; None: they are emulated here.
        paced: Whether a node computes at a rate that is a small part of a core's, so that one machine can emulate many
            and problems are small; else it computes as fast as it can, with all cores, problems of the paper's size.
    """

    hosts: HostsConfig | None = None
    paced: bool = True

    def size(self) -> int | None:
        """How many hosts there are; None: as many nodes as one likes.

        Raises:
            DaemonError: The file of hosts is wrong.
        """
        return None if self.hosts is None else len(self.hosts.names())

    def cores(self) -> int | None:
        """How many cores each of them has at least; None if that is not known, or is not used.

        Raises:
            DaemonError: The file of hosts is wrong.
        """
        return None if self.hosts is None or self.paced else fewest_cores(read_hosts(self.hosts.file))

    def scratch_parent(self, folder: Path) -> Path | None:
        """Where all nodes see the files of a run in ``folder``; None: where temporary files are."""
        return None if self.hosts is None else folder

    @contextmanager
    def serving(self, nodes: int, config: DaemonConfig) -> Iterator[DaemonThread]:
        """Run a scheduler there; its nodes are named here.

        Args:
            nodes: How many, if they are emulated.
            config: Everything else.

        Raises:
            DaemonError: It cannot start.
        """
        if self.hosts is None:
            with Daemon.start_in_thread(replace(config, nodes=numbered_nodes(nodes))) as daemon:
                yield daemon
            return
        with (
            on_hosts(replace(config, nodes=self.hosts.names()), self.hosts) as (there, backend),
            Daemon.start_in_thread(there, executor=backend.executor, beside=backend.watch) as daemon,
        ):
            yield daemon

    def spoken(self, nodes: int, here_cores: int | None) -> str:
        """For people, after "on"."""
        if self.hosts is None:
            return f"{nodes} nodes emulated on one machine of {here_cores} cores"
        return f"{nodes} hosts{', held to small rates of work' if self.paced else ''}"


HERE = Site()
"""Nodes emulated on this machine."""
