"""Runs jobs on nodes that somebody looks at: when a job fails, its nodes are, and then it may be lost, not failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from scheduler_bridge.jobrunner.notes import Ending
from scheduler_bridge.live.executor import Executor, Setup

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
