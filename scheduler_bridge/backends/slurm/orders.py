"""Gives one program one order at a time, and waits for what becomes of it."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Callable
from typing import Literal

from apgas.malleability import orders as wire
from scheduler_bridge.live.config import Limits
from scheduler_bridge.live.job_server import JobServer
from scheduler_bridge.live.session import Heard, JobLink, OpenOrder, Trespassed


class Orders:
    """The program's side of a session.

    Args:
        job: Its number.
        deadline_s: How long it may take to carry an order out.
        withdraw_s: How long to answer when it is taken back.
        said: Called with everything else that it says.
        trespassed: Called with the story if it runs where it must not.
    """

    def __init__(
        self,
        job: int,
        deadline_s: float,
        withdraw_s: float,
        said: Callable[[wire.ToScheduler], None],
        trespassed: Callable[[str], None],
    ) -> None:
        self._job = job
        self._deadline_s = deadline_s
        self._withdraw_s = withdraw_s
        self._said = said
        self._trespassed = trespassed
        self._numbers = itertools.count(1)
        self._awaited: asyncio.Future[wire.Outcome] | None = None
        self.server = JobServer(self._heard, Limits())

    def expect(self, nodes: tuple[str, ...]) -> str:
        """The program is about to start on ``nodes``: return its token."""
        token = secrets.token_hex(32)
        self.server.admit(JobLink(self._job, token, frozenset(nodes)))
        return token

    @property
    def ready(self) -> bool:
        """Whether it takes orders."""
        link = self.server.link(self._job)
        return link is not None and link.phase == "ready"

    def next_number(self) -> int:
        """Return the number of the next order."""
        return next(self._numbers)

    async def give(
        self, number: int, kind: Literal["grow", "shrink"], count: int, nodes: tuple[str, ...]
    ) -> wire.Outcome | None:
        """Give an order; return its outcome, or None if there is none: the program takes no orders any more."""
        self._awaited = asyncio.get_running_loop().create_future()
        self.server.order(self._job, OpenOrder(number, kind, count, nodes))
        try:
            for wait_s in (self._deadline_s, self._withdraw_s):
                done, _ = await asyncio.wait({self._awaited}, timeout=wait_s)
                if done:
                    return self._awaited.result()
                self.server.withdraw(self._job)
        finally:
            self._awaited.cancel()
            self._awaited = None
        if self.server.abandon(self._job):
            self._trespassed("it grew on nodes that it was not given")
        return None

    def answer(self, request: int, granted: int, reason: str = "") -> None:
        """Answer a request of the program's for nodes."""
        self.server.tell(self._job, wire.Answer(request=request, granted=granted, reason=reason[:4000]))

    def _heard(self, heard: Heard | Trespassed) -> None:
        if isinstance(heard, Trespassed):
            self._trespassed(heard.reason)
            return
        message = heard.message
        link = self.server.link(self._job)
        if isinstance(message, wire.Lost) and link is not None:
            link.held -= set(message.nodes)
        if not isinstance(message, wire.Outcome):
            self._said(message)
            return
        if message.outcome == "done" and link is not None:
            nodes = set(message.nodes)
            link.held = link.held | nodes if message.kind == "grow" else link.held - nodes
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(message)
