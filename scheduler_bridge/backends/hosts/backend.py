"""The base of back-ends whose nodes jobs reach through a launcher, and the executor of their jobs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Protocol, TypeAlias

from scheduler_bridge.backends.hosts.watch import Watch, withdraw
from scheduler_bridge.daemon import Daemon
from scheduler_bridge.daemon.jobs.executor import Executor, Setup
from scheduler_bridge.jobrunner.notes import Ending


class Reach(Protocol):
    """What mpiexec reaches nodes with: files in the state folder."""

    def write(self) -> None:
        """Write them."""

    def forget(self) -> None:
        """Remove them."""


class NodesBackend(ABC):
    """What a daemon needs to drive such nodes.

    Args:
        reach: What mpiexec reaches them with.
    """

    def __init__(self, reach: Reach) -> None:
        self._files = reach
        self._written = False
        self._daemon: Daemon | None = None

    def executor(self, setup: Setup) -> Executor:
        """Make what runs the jobs' processes, now that the state folder is the daemon's own."""
        self._written = True
        self._files.write()
        self._introduce()
        return HostsExecutor(setup, self._gone, self._lacks)

    def watch(self, daemon: Daemon) -> Watch:
        """Return what looks at the daemon's nodes."""
        self._daemon = daemon
        return self._watched(daemon)

    def close(self) -> None:
        """Remove what was written."""
        if self._written:
            self._files.forget()

    @abstractmethod
    def _introduce(self) -> None:
        """Tell what mpiexec needs of the nodes; its files are there."""

    @abstractmethod
    def _lacks(self, node: str) -> str:
        """Say why there can be no node of this name; empty if there can."""

    @abstractmethod
    def _watched(self, daemon: Daemon) -> Watch:
        """Return what looks at the daemon's nodes."""

    @abstractmethod
    async def _complaints(self, nodes: Iterable[str]) -> dict[str, str]:
        """Look at ``nodes`` now; return those that are not fit, and why."""

    @abstractmethod
    def _says(self, node: str, complaint: str) -> str:
        """Put what is wrong with a node into words, for the reason of a job's end."""

    async def _gone(self, job_id: int) -> str:
        """Look at the nodes of a job that has failed; those that are not fit get no further jobs."""
        if self._daemon is None:
            return ""
        health = self._daemon.health
        complaints = await self._complaints(health.nodes_of(job_id))
        withdraw(health, complaints)
        return "; ".join(self._says(node, complaint) for node, complaint in complaints.items())


# The executor --------------------------------------------------------------------------------------------------------
#
# When a job fails, its nodes are looked at: if one does not answer, the job was lost and has not failed.

Gone: TypeAlias = Callable[[int], Awaitable[str]]
"""Says which node of a job does not answer, and how; empty if all do."""
Lacks: TypeAlias = Callable[[str], str]
"""Says why there can be no node of a name; empty if there can."""


class HostsExecutor(Executor):
    """The running jobs' processes.

    Args:
        setup: See ``Executor``.
        gone: Asked when a job has failed.
        lacks: Asked when a node is to be added.
    """

    def __init__(self, setup: Setup, gone: Gone, lacks: Lacks) -> None:
        super().__init__(setup)
        self._gone = gone
        self._lacks = lacks

    def lacks(self, node: str) -> str:
        """Return why there can be no node of this name; empty if there can."""
        return self._lacks(node)

    async def judged(self, job_id: int, ending: Ending) -> Ending:
        """Say that a job was lost if it failed and one of its nodes does not answer."""
        if ending.lost or ending.status in (0, None):
            return ending
        complaint = await self._gone(job_id)
        return replace(ending, lost=True, reason=f"{complaint}; {ending.reason}") if complaint else ending
