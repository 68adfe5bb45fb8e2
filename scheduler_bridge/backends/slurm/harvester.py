"""Has a scheduler use nodes that Slurm lends and takes back: the driver of ``Regrowth``.

===================================  ========================================================================
what happens                         what follows
===================================  ========================================================================
nodes could be used, a look is due   companion jobs take what is idle
Slurm warns of a node                the jobs are ordered to leave it, whatever they are doing; then its companion
                                     job ends
a companion job has ended by itself  the same: what still runs there is lost, and its job says so
a job has lost a node                its companion job ends
no job uses a node for ``UNUSED_S``  it is given back
===================================  ========================================================================
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final

from scheduler_bridge.backends.slurm.allocation import Allocation
from scheduler_bridge.backends.slurm.harvest import Harvest, Regrowth, summary
from scheduler_bridge.backends.slurm.reading import SlurmError
from scheduler_bridge.daemon import Daemon

_logger = logging.getLogger(__name__)

UNUSED_S: Final = 10.0
"""After this time a node that no job uses is given back."""
WAIT_S: Final = 10.0
"""How long Slurm may look for each node that was idle just now."""


class Harvester:
    """Takes idle nodes for a scheduler, and has its jobs leave those that Slurm takes back.

    Args:
        scheduler: Uses the nodes, and says how many more it could use now.
        allocation: Gives and takes them.
        harvest: From where, and how often.
        reap: Takes that many nodes at most, if they are idle, and has them used; returns whether any came. By default
            they are lent to the scheduler.
        settle: Called each time that something has happened while a node is being left.
    """

    def __init__(
        self,
        scheduler: Daemon,
        allocation: Allocation,
        harvest: Harvest,
        reap: Callable[[int], Awaitable[bool]] | None = None,
        settle: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._allocation = allocation
        self._harvest = harvest
        self._reap = reap or self._lend
        self._settle = settle
        self._regrowth = Regrowth(harvest, time.monotonic())
        self._leaving: set[str] = set()
        self._tasks: asyncio.TaskGroup | None = None

    def said(self) -> str:
        """Say what was lent, used and taken back."""
        return f"harvested from {self._harvest}: {summary(self._allocation.loans(), time.time())}"

    async def run(self) -> None:
        """Harvest until this is cancelled."""
        loop = asyncio.get_running_loop()

        def hear(node: str, words: str) -> None:
            with suppress(RuntimeError):  # the loop is closed: all nodes are given back
                loop.call_soon_threadsafe(self._recall, node, words)

        async with asyncio.TaskGroup() as self._tasks:
            self._tasks.create_task(self._return_unused())
            self._allocation.listen(hear)
            while True:
                now_s = time.monotonic()
                if (wanted := self._scheduler.room_for_lent) <= 0:
                    await self._scheduler.changed()
                elif self._regrowth.due_s > now_s:
                    await asyncio.sleep(self._regrowth.due_s - now_s)
                elif await self._reap(wanted):
                    self._regrowth.came(time.monotonic())
                else:
                    self._regrowth.in_vain(time.monotonic())

    async def _lend(self, most: int) -> bool:
        try:
            idle = await asyncio.to_thread(self._allocation.idle)
            if not idle:
                return False
            nodes = await asyncio.to_thread(self._allocation.grow, min(idle, most), WAIT_S, at_least=1)
        except SlurmError as error:
            _logger.warning("no nodes are harvested: %s", error)
            return False
        if kept := await self.kept(nodes):
            _logger.info("Slurm lends %s", ", ".join(kept))
            self._scheduler.lend(kept, f"lent by Slurm from {self._harvest}, until others want it")
        return bool(kept)

    async def kept(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Return those of ``nodes``, which have just come, that may be used; the others are given back."""
        kept = tuple(nodes)
        # one may be taken back at once, also while others are given back, and one that was a node before may not have
        # been forgotten yet
        while early := [node for node in kept if node in self._leaving or node in self._scheduler.nodes]:
            for node in early:
                await asyncio.to_thread(self._allocation.leave, node)
                self._leaving.discard(node)
            kept = tuple(node for node in kept if node not in early)
        return kept

    def lost(self, nodes: tuple[str, ...], reason: str) -> None:
        """A job goes on without ``nodes``, which have died; those that were lent are given back without a look."""
        lent = [node for node in nodes if node in self._allocation.holdings.companions]
        if self._tasks is None or not lent:
            return
        _logger.warning("lost %s: %s", ", ".join(lent), reason)
        self._leaving.difference_update(lent)
        self._regrowth.taken_back(time.monotonic())
        self._tasks.create_task(asyncio.to_thread(self._allocation.lost, lent))

    def _recall(self, node: str, words: str, *, wanted: bool = True) -> None:
        known = node in self._leaving
        if node not in self._allocation.holdings.companions:
            return  # it has been left already
        self._leaving.add(node)
        if node not in self._scheduler.nodes or self._tasks is None:
            return  # it has just come, and is not used
        _logger.info("node %s: %s", node, words)
        if wanted and not known:
            self._regrowth.taken_back(time.monotonic())
        self._scheduler.recall(node, words)
        if not known:
            self._tasks.create_task(self._left(node))

    async def _left(self, node: str) -> None:
        began_s = time.monotonic()
        while node in self._leaving and node in self._scheduler.nodes:
            await self._scheduler.changed()
            if self._settle is not None:
                await self._settle()
        if node in self._leaving:
            await asyncio.to_thread(self._allocation.leave, node)
            self._leaving.discard(node)
            _logger.info("%s left and given back after %.2f s", node, time.monotonic() - began_s)

    async def _return_unused(self) -> None:
        since_s: dict[str, float] = {}
        while True:
            now_s = time.monotonic()
            since_s = {node: since_s.get(node, now_s) for node in self._scheduler.idle_lent}
            for node in [node for node, idle_s in since_s.items() if now_s - idle_s >= UNUSED_S]:
                del since_s[node]  # it may be lent again before the next look
                self._regrowth.in_vain(now_s)
                self._recall(node, "no job uses it", wanted=False)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._scheduler.changed(), UNUSED_S)
