"""Write first, act later: what was decided is carried out when the log has it on disk.

Entries that come while a write is under way go into the next one together (group commit), so a slow disk costs delay,
not throughput. A disk that takes nothing stops no job: effects are then carried out although the log lacks them, which
is said once, and what is missing is written, in its order, as soon as there is room. Until then no jobs are taken.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Final, Literal, TypeAlias

from scheduler_bridge.daemon.storage.log_entries import Row
from scheduler_bridge.daemon.storage.store import Store, StoreError

# Steps of a daemon that may be timed ---------------------------------------------------------------------------------

Step: TypeAlias = Literal["message", "decision", "commit", "picture"]
"""A message of a job taken in, what it led to included; events decided about (state and record brought up to date); a
write to the log, from its begin to its being on disk; a picture of all nodes and jobs. All but ``commit`` keep the
event loop from doing anything else."""
Timed: TypeAlias = Callable[[Step, float], None]
"""Called with a step and the seconds it took."""


def untimed(_step: Step, _seconds: float) -> None:
    """Take no notice."""


_logger = logging.getLogger(__name__)

_RETRY_S: Final = 2.0
_SETTLE_S: Final = 1.0
"""The mark is on the disk so long after a write: with each write it would double the time of that. A power loss within
it must come with damage to the end of the log for the damage to stay unnoticed."""


@dataclass(slots=True)
class _Waiting:
    """An entry that is not on disk yet; ``actions`` are due once it was tried, ``after`` once it is there."""

    row: Row
    actions: Sequence[Callable[[], None]]
    after: Callable[[], None] | None
    acted: bool = False
    written: bool = False


class Journal:
    """The writing end of one era's log.

    Args:
        store: Where to.
        broke: Called with the error if an action fails.
        timed: Called with how long writes took.
    """

    def __init__(self, store: Store, broke: Callable[[Exception], None], timed: Timed = untimed) -> None:
        self.timed = timed
        self._store = store
        self._broke = broke
        self._waiting: list[_Waiting] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="malleable-log")
        self._writing: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._settling: asyncio.TimerHandle | None = None
        self.next_job = 1
        """Least id that no job was given yet."""
        self.behind = ""
        """Why the log lacks something that could not be written; empty: it lacks nothing that it could have."""

    @property
    def complete(self) -> bool:
        """Whether the log has everything."""
        return not self._waiting

    def add(
        self,
        row: Row,
        actions: Sequence[Callable[[], None]] = (),
        after: Callable[[], None] | None = None,
    ) -> None:
        """Write ``row``, then do ``actions``; ``after`` is left out if it cannot be written."""
        self._waiting.append(_Waiting(row, actions, after))
        self._begin()

    async def settled(self) -> str:
        """Wait until all entries so far are on disk, or known to find no room, and their effects are carried out.

        Not for those that come meanwhile: under load there are always some.

        Returns:
            Why they are not on disk; empty if they are.
        """
        last = self._waiting[-1] if self._waiting else None
        while last is not None and not last.acted and self._writing is not None:
            await self._end_of(self._writing)
        return "" if last is None or last.written else self.behind or "the scheduler is ending"

    async def _quiet(self) -> None:
        """Wait until nothing is being written."""
        while self._writing is not None:
            await self._end_of(self._writing)

    @staticmethod
    async def _end_of(writing: asyncio.Task[None]) -> None:
        await asyncio.wait({writing})  # `_written` reports what went wrong, not those who wait.
        await asyncio.sleep(0)  # The task may be done while its callback, which begins the next one, is not.

    async def close(self) -> None:
        """Write what is left to write."""
        await self._quiet()
        if self._waiting:
            self._begin()
            await self._quiet()
        for timer in (self._retry, self._settling):
            if timer is not None:
                timer.cancel()
        self._thread.shutdown()

    def _begin(self) -> None:
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())
            self._writing.add_done_callback(self._written)

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writing = None
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            self._broke(error if isinstance(error, Exception) else RuntimeError(str(error)))
        elif any(not waiting.acted for waiting in self._waiting):
            self._begin()

    async def _write(self) -> None:
        batch = list(self._waiting)
        rows = [waiting.row for waiting in batch]
        loop = asyncio.get_running_loop()
        began_s = perf_counter()
        try:
            await loop.run_in_executor(self._thread, self._store.append, rows, self.next_job)
        except StoreError as error:
            # The batch stays in `_waiting`, and is written again under the same numbers, so the log gets no gap. A
            # snapshot that was to go with it is dropped: it only spares a restart some rows, and the next one will.
            for waiting in batch:
                waiting.row = replace(waiting.row, frozen=None)
            self._lag(error)
        else:
            self.timed("commit", perf_counter() - began_s)
            if self.behind:
                _logger.warning("%s is complete again", self._store.path)
                self.behind = ""
            del self._waiting[: len(batch)]
            if self._settling is None:
                self._settling = loop.call_later(_SETTLE_S, self._settle)
            for waiting in batch:
                waiting.written = True
                if waiting.after is not None:
                    waiting.after()
        # Also after a failure: jobs are to start and end although the disk is full. What is lost then, if the daemon is
        # killed before there is room, are decisions; the runners' notes still say what ran, and a restart ends what
        # the log does not have. `acted` keeps an entry that is written again later from being carried out twice.
        for waiting in batch:
            if not waiting.acted:
                waiting.acted = True
                for action in waiting.actions:
                    action()

    def _settle(self) -> None:
        self._settling = None
        self._thread.submit(self._store.settle)

    def _lag(self, error: StoreError) -> None:
        if not self.behind:
            _logger.error("%s is incomplete from now on: %s", self._store.path, error.strerror)
        self.behind = error.strerror or "it cannot be written"
        if self._retry is not None:
            self._retry.cancel()
        self._retry = asyncio.get_running_loop().call_later(_RETRY_S, self._begin)
