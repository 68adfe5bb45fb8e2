"""Server-sent events: one picture of the cluster per interval for all who watch, as long as there are any."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from scheduler_bridge.core import Explanation
from scheduler_bridge.daemon import Snapshot
from scheduler_bridge.record import ResizeRecord, RunRecord
from scheduler_bridge.web.http import WebConfig
from scheduler_bridge.web.state import Document, change, document

_logger = logging.getLogger(__name__)

EVENT_STREAM: Final = "text/event-stream; charset=utf-8"

_RETRY_MS = 1000
_BEHIND = 16
"""Events that a slow reader may be behind; then it is cut off, and gets the whole picture when it comes back."""
_MOST_REASONS = 10_000
_SAME_S = 1e-6


class Watched(Protocol):
    """What the page needs of a daemon."""

    def snapshot(self) -> Snapshot:
        """Return nodes and jobs at this moment."""

    def recent(self, since_s: float) -> RunRecord:
        """Return what has reached beyond ``since_s``."""

    def explain(self, job_id: int) -> Explanation:
        """Say how a job came to where it is."""

    async def changed(self) -> None:
        """Wait for the next event of the scheduler."""


class Feed:
    """Tells watchers what changes.

    Args:
        daemon: What is watched.
        config: Intervals and limits.
        version: Of the page; a page of another version loads itself anew.
    """

    def __init__(self, daemon: Watched, config: WebConfig, version: str) -> None:
        self._daemon = daemon
        self._config = config
        self._version = version
        self._watchers: set[asyncio.Queue[bytes | None]] = set()
        self._document: Document = {}
        self._paced = Paced(self._made)
        self._reasons: dict[tuple[int, int], str] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def watchers(self) -> int:
        """How many follow the events now."""
        return len(self._watchers)

    def document(self) -> Document:
        """Return the cluster at this moment, or a little before."""
        return self._paced.get()

    def _made(self) -> Document:
        snapshot = self._daemon.snapshot()
        record = self._daemon.recent(snapshot.now_s - self._config.window_s)
        return {"version": self._version, **document(snapshot, record, self._config.window_s, self._why)}

    def _why(self, job_id: int, resize: ResizeRecord) -> str:
        """Return the policy's reason for an order, which stands in the job's history."""
        known = self._reasons.get((job_id, resize.order))
        if known is not None:
            return known
        if len(self._reasons) >= _MOST_REASONS:
            self._reasons.clear()
        told = f"told to {resize.kind} "
        reason = ""
        for moment in self._daemon.explain(job_id).moments:
            if moment.text.startswith(told) and abs(moment.time_s - resize.ordered_s) < _SAME_S:
                reason = moment.text.partition(": ")[2]
        self._reasons[job_id, resize.order] = reason
        return reason

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Yield a full picture, then changes, in the form of server-sent events, until the server stops."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_BEHIND)
        self._renew()  # A picture may be some seconds old, and the newcomer sets its clock by it.
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._publish())
        first = f"retry: {_RETRY_MS}\n".encode() + _event("full", self._document)
        self._watchers.add(queue)
        try:
            yield first
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._watchers.discard(queue)

    async def stop(self) -> None:
        """Send everybody home. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for queue in tuple(self._watchers):
            _cut_off(queue)

    async def _publish(self) -> None:
        """Make pictures as long as somebody watches."""
        try:
            pause_s = self._config.interval_s
            while self._watchers:
                pause_s = await self._publish_next(pause_s)
        except Exception:
            _logger.exception("the live page cannot be kept up to date")
            for queue in tuple(self._watchers):
                _cut_off(queue)

    async def _publish_next(self, pause_s: float) -> float:
        """Make one picture, ``pause_s`` or more after the last one; return the next pause."""
        loop = asyncio.get_running_loop()
        changed = loop.create_task(self._daemon.changed())  # From now on: what happens in the pause counts.
        try:
            await asyncio.sleep(pause_s)
            # Progress is no event, the clock goes on, and watchers are to know that they are connected.
            await asyncio.wait({changed}, timeout=self._config.heartbeat_s)
        finally:
            changed.cancel()
        begun_s = loop.time()
        self._renew()
        return max(self._config.interval_s, (loop.time() - begun_s) / LARGEST_SHARE)

    def _renew(self) -> None:
        before, self._document = self._document, self.document()
        if self._watchers and self._document is not before:
            self._tell(_event("change", change(before, self._document)))

    def _tell(self, event: bytes) -> None:
        for queue in tuple(self._watchers):
            try:
                queue.put_nowait(event)
            except asyncio.QueueFull:
                self._watchers.discard(queue)
                _cut_off(queue)


def _cut_off(queue: asyncio.Queue[bytes | None]) -> None:
    while not queue.empty():
        queue.get_nowait()
    queue.put_nowait(None)


def _event(kind: str, data: Document) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


# What readers may cost the daemon ------------------------------------------------------------------------------------

LARGEST_SHARE: Final = 0.05
"""Of the daemon's time that goes into one thing, in the long run."""
_BURST_S: Final = 1.0
"""Time that may go into it at once."""

_T = TypeVar("_T")


class Paced(Generic[_T]):
    """Something that is made when asked for; the last one again, where making it has taken too much time lately.

    Args:
        make: Makes it.
        clock: Seconds.
    """

    def __init__(self, make: Callable[[], _T], clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._clock = clock
        self._last: list[_T] = []
        self._spent_s = 0.0
        self._at_s = clock()

    def get(self) -> _T:
        """Return it, as it is or recently was."""
        begun_s = self._clock()
        self._spent_s = max(0.0, self._spent_s - LARGEST_SHARE * (begun_s - self._at_s))
        self._at_s = begun_s
        if not self._last or self._spent_s < _BURST_S:
            self._last = [self._make()]
            self._spent_s += self._clock() - begun_s
        return self._last[0]
