"""The place where batches are run: its nodes, and a folder with one experiment at a time, nothing of a killed one."""

from __future__ import annotations

import fcntl
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler_bridge.backends.hosts import HostsConfig, on_hosts, read_hosts
from scheduler_bridge.backends.hosts.hostfile import fewest_cores
from scheduler_bridge.daemon import Daemon, DaemonConfig, DaemonError, DaemonThread
from scheduler_bridge.daemon.config import numbered_nodes

# Sites: nodes emulated on this machine, or hosts ---------------------------------------------------------------------


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
            with Daemon.start_in_thread(msgspec.structs.replace(config, nodes=numbered_nodes(nodes))) as daemon:
                yield daemon
            return
        with (
            on_hosts(msgspec.structs.replace(config, nodes=self.hosts.names()), self.hosts) as (there, backend),
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


_LOCK: Final = "lock"
_RUNNING: Final = "running.json"
"""Where a run that is going on has its scratch folder, so that what is left of it is found if it is killed."""


@contextmanager
def alone_in(folder: Path, site: Site = HERE) -> Iterator[None]:
    """Keep other experiments out of ``folder``; end first what a killed one has left running, and remove its files.

    Raises:
        DaemonError: Another one runs there.
        OSError: The folder cannot be written.
    """
    with (folder / _LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "wait for its end, or give another --out"
            raise DaemonError(f"another experiment runs in {folder}", hint) from None
        _end_remains(folder, site)
        yield


@contextmanager
def scratch_in(folder: Path, nodes: int, site: Site = HERE) -> Iterator[Path]:
    """Make a folder for the run of a batch on so many nodes; it is removed afterwards."""
    note = folder / _RUNNING
    with tempfile.TemporaryDirectory(prefix="malleable-runs-", dir=site.scratch_parent(folder)) as name:
        note.write_text(json.dumps({"scratch": name, "nodes": nodes}), encoding="utf-8")
        try:
            yield Path(name)
        finally:
            note.unlink(missing_ok=True)


def state_of(scratch: Path) -> Path:
    """The state folder of a run's scheduler."""
    return scratch / "state"


def _end_remains(folder: Path, site: Site) -> None:
    note = folder / _RUNNING
    try:
        left: dict[str, Any] = json.loads(note.read_bytes())
        scratch, nodes = Path(left["scratch"]), int(left["nodes"])
    except (OSError, ValueError, KeyError, TypeError):
        note.unlink(missing_ok=True)
        return
    if state_of(scratch).is_dir():
        # A scheduler that takes the killed one's state up finds its jobs, and ends them when it is stopped.
        with (
            suppress(DaemonError),  # as far as one can start there
            site.serving(nodes, DaemonConfig(numbered_nodes(nodes), state_dir=state_of(scratch))),
        ):
            pass
    shutil.rmtree(scratch, ignore_errors=True)
    note.unlink(missing_ok=True)
