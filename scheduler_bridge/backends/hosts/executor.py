"""Runs jobs on hosts, and when one fails, sees whether a host of its has gone: then the job is lost, not failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from scheduler_bridge.jobrunner.notes import Ending
from scheduler_bridge.live.executor import Executor

Gone: TypeAlias = Callable[[int], Awaitable[str]]
"""Says which host of a job does not answer, and how; empty if all do."""


class HostsExecutor(Executor):
    """The running jobs' processes; ``gone`` is to be set."""

    gone: Gone

    async def judged(self, job_id: int, ending: Ending) -> Ending:
        """Say that a job was lost if it failed and one of its hosts does not answer."""
        if ending.lost or ending.status in (0, None):
            return ending
        complaint = await self.gone(job_id)
        return replace(ending, lost=True, reason=f"{complaint}; {ending.reason}") if complaint else ending
