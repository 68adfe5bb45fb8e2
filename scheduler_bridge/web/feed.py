"""Server-sent events: one document about the cluster per interval for all who watch, as long as there are any."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from scheduler_bridge.daemon import Daemon, JobStatus, Snapshot
from scheduler_bridge.model import wording
from scheduler_bridge.record import JobRecord, ResizeRecord, RunRecord, Segment
from scheduler_bridge.report import words
from scheduler_bridge.report.looks import Lane, lanes, runs_of
from scheduler_bridge.web.http import WebConfig

_logger = logging.getLogger(__name__)

EVENT_STREAM: Final = "text/event-stream; charset=utf-8"

_RETRY_MS = 1000
_MOST_REASONS = 10_000
_SAME_S = 1e-6


class Feed:
    """Sends to watchers what changes.

    Args:
        daemon: What is watched.
        config: Intervals and limits.
        version: Of the page; a page of another version loads itself anew.

    Attributes:
        watchers: How many follow the events now.
    """

    def __init__(self, daemon: Daemon, config: WebConfig, version: str) -> None:
        self._daemon = daemon
        self._config = config
        self._version = version
        self.watchers = 0
        self._document: Document = {}
        self._step: tuple[Document, bytes] = {}, b""
        self._renewed = asyncio.Event()
        self._paced = Paced(self._made)
        self._reasons: dict[tuple[int, int], str] = {}
        self._task: asyncio.Task[None] | None = None

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
        begins = wording.ORDERED.partition(" by ")[0].format(resize.kind)
        reason = ""
        for moment in self._daemon.explain(job_id).moments:
            if moment.text.startswith(begins) and abs(moment.time_s - resize.ordered_s) < _SAME_S:
                reason = moment.text.partition(": ")[2]
        self._reasons[job_id, resize.order] = reason
        return reason

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Yield a full picture, then changes, in the form of server-sent events, until the server stops.

        A slow reader gets fewer events, with all that has changed since its last one.
        """
        self._renew()  # A picture may be some seconds old, and the newcomer sets its clock by it.
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._publish())
        seen, task = self._document, self._task
        self.watchers += 1
        try:
            yield f"retry: {_RETRY_MS}\n".encode() + _event("full", seen)
            while not task.done():
                if self._document is seen:
                    await self._renewed.wait()
                    continue
                (before, event), old, seen = self._step, seen, self._document
                yield event if old is before else _event("change", change(old, seen))
        finally:
            self.watchers -= 1

    async def stop(self) -> None:
        """End all streams of events. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._wake()  # it does not do so itself if it had not begun

    async def _publish(self) -> None:
        """Make pictures as long as somebody watches."""
        try:
            while self.watchers:
                changed = asyncio.create_task(self._daemon.changed())  # From now on: what happens in the pause counts.
                try:
                    await asyncio.sleep(self._config.interval_s)
                    # Progress is no event, the clock goes on, and watchers are to know that they are connected.
                    await asyncio.wait({changed}, timeout=self._config.heartbeat_s)
                finally:
                    changed.cancel()
                self._renew()
        except Exception:
            _logger.exception("the live page cannot be kept up to date")
        finally:
            self._wake()  # for no further picture comes

    def _renew(self) -> None:
        before, self._document = self._document, self.document()
        if self.watchers and self._document is not before:
            self._step = before, _event("change", change(before, self._document))  # which nearly all are to be sent
            self._wake()

    def _wake(self) -> None:
        self._renewed.set()
        self._renewed = asyncio.Event()


def _event(kind: str, data: Document) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


# What readers may cost the daemon ------------------------------------------------------------------------------------

LARGEST_SHARE: Final = 0.05
"""Of the daemon's time that goes into one thing, in the long run."""
_BURST_S: Final = 1.0
"""Time that may go into it at once."""

_T = TypeVar("_T")


class Paced(Generic[_T]):
    """Something that is made when asked for; the last one again, where making it has taken too much time lately."""

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


# The document: the cluster as it is, and what has changed from one to the next ---------------------------------------
#
# Nodes are numbered in the order of their names in the document, and a job's nodes are ranges of such numbers, so that
# a job on many nodes takes few bytes. Times are seconds on the daemon's clock.

Document: TypeAlias = dict[str, Any]

_KEPT_RESIZES = 20
_MOST_WAITING = 1000
"""Waiting jobs in the document; of those behind them it has only the numbers."""
_GRAIN_S = 10.0
_SHORT = 500
"""Characters of a text that came from a job or user; the queue command has all of it."""
_AS_THEY_ARE: Final = (
    "name", "user", "state", "walltime_s", "start_s", "end_s", "expected_start_s", "expected_end_s", "ready",
    "resizing", "grows", "shrinks", "progress", "progress_total", "progress_unit",
)  # fmt: skip
"""What the document says of a job in the words of its ``JobStatus``."""


def document(
    snapshot: Snapshot, record: RunRecord, window_s: float, why: Callable[[int, ResizeRecord], str] = lambda *_: ""
) -> Document:
    """Describe the cluster now, its open jobs, and the jobs that held nodes or waited within the window.

    Args:
        snapshot: The cluster at this moment.
        record: What happened in the window.
        window_s: How far back the picture reaches.
        why: Says for what reason a job was given an order.
    """
    since_s = max(0.0, snapshot.now_s - window_s)
    numbers = {name: number for number, name in enumerate(record.nodes)}
    for node in snapshot.nodes:
        numbers.setdefault(node.name, len(numbers))
    records = {job.job_id: job for job in record.jobs}
    shared = lanes(record.jobs)
    shown = [job for job in snapshot.jobs if job.end_s is None or (job.job in records and job.end_s > since_s)]
    shown, unlisted = _first(shown)
    behind = snapshot.log_behind[:_SHORT]
    trouble = f"The log cannot be written: {behind}. No jobs are taken." if behind else ""
    states = {node.name: node.state for node in snapshot.nodes}
    return {
        "now_s": round(snapshot.now_s, 2),
        "policy": snapshot.policy,
        "started_at": record.started_at,
        "notes": [*filter(None, (trouble, snapshot.loans)), *record.notes],
        "window_s": window_s,
        "totals": _totals(snapshot),
        "nodes": [[name, states.get(name, "down")] for name in numbers],
        "reserved": [
            [numbers[taken.node], round(taken.from_s, 2), _until(taken.to_s), taken.job_id]
            for taken in record.reserved
            if taken.node in numbers
        ],
        "advance": [
            {
                "name": kept.name,
                "from_s": round(kept.start_s, 2),
                "to_s": round(kept.end_s, 2),
                "users": kept.users,
                "jobs": len(kept.jobs),
                "started": kept.started,
                "nodes": runs_of(numbers[node] for node in kept.nodes),
            }
            for kept in snapshot.reservations
        ],
        "kept": [
            [kept.name, round(kept.from_s, 2), round(kept.to_s, 2), runs_of(numbers[node] for node in kept.nodes)]
            for kept in record.advance
            if kept.from_s < min(snapshot.now_s, kept.to_s)
        ],
        "unlisted": unlisted,
        "jobs": {str(job.job): _job(job, records.get(job.job), numbers, shared, why) for job in shown},
    }


def _first(jobs: list[JobStatus]) -> tuple[list[JobStatus], list[list[float]]]:
    """Return the jobs of the document, and how many others were submitted when (roughly)."""
    waiting = [job for job in jobs if job.state in ("waiting", "held")]
    if len(waiting) <= _MOST_WAITING:
        return jobs, []
    others = {job.job: job.submit_s for job in waiting[_MOST_WAITING:]}
    grains = Counter(math.floor(submit_s / _GRAIN_S) * _GRAIN_S for submit_s in others.values())
    return [job for job in jobs if job.job not in others], [[at_s, count] for at_s, count in sorted(grains.items())]


def change(before: Document, after: Document) -> Document:
    """Return what differs: the keys that do, and of the jobs those that do, with None for those that are gone."""
    differs = {key: value for key, value in after.items() if key != "jobs" and before.get(key) != value}
    old, new = before["jobs"], after["jobs"]
    jobs: dict[str, Any] = {number: job for number, job in new.items() if old.get(number) != job}
    jobs.update((number, None) for number in old if number not in new)
    if jobs:
        differs["jobs"] = jobs
    return differs


def _totals(snapshot: Snapshot) -> dict[str, Any]:
    nodes = Counter(node.state for node in snapshot.nodes)
    jobs = Counter(job.state for job in snapshot.jobs)
    busy = nodes["busy"] + nodes["draining"]
    usable = busy + nodes["idle"]
    return {
        "busy": busy,
        "idle": nodes["idle"],
        "down": nodes["down"],
        "running": jobs["running"] + jobs["starting"] + jobs["ending"],
        "waiting": jobs["waiting"] + jobs["held"],
        "ended": sum(1 for job in snapshot.jobs if job.end_s is not None),
        "utilization_now": round(busy / usable, 4) if usable else 0.0,
        "utilization": round(snapshot.utilization, 3),
    }


def _job(
    job: JobStatus,
    record: JobRecord | None,
    numbers: Mapping[str, int],
    shared: Mapping[tuple[int, int], list[Lane]],
    why: Callable[[int, ResizeRecord], str],
) -> dict[str, Any]:
    described: dict[str, Any] = {
        **{name: getattr(job, name) for name in _AS_THEY_ARE},
        "class": job.job_class,
        "held": len(job.nodes),
        "wanted": job.wanted_nodes,
        "min": job.min_nodes,
        "max": job.max_nodes,
        "submit_s": round(job.submit_s, 2),
        "reason": job.reason[:_SHORT],
    }
    if record is not None:
        described["segments"] = [
            piece
            for number, part in enumerate(record.segments)
            for piece in _segment(part, shared.get((job.job, number)), numbers)
        ]
        described["resizes"] = [
            {**_resize(resize), "why": why(job.job, resize)[:_SHORT]} for resize in record.resizes[-_KEPT_RESIZES:]
        ]
    return described


def _segment(part: Segment, shared: list[Lane] | None, numbers: Mapping[str, int]) -> list[list[Any]]:
    """Return when and on what nodes, and, where jobs share them, what part of their rows it fills, from where on."""
    if shared is None:
        return [[round(part.from_s, 2), _until(part.to_s), runs_of(numbers[node] for node in part.nodes)]]
    alike: dict[tuple[Any, ...], list[int]] = {}
    for lane in shared:
        key = (round(lane.from_s, 2), _until(lane.to_s), round(lane.share, 3), round(lane.top, 3))
        alike.setdefault(key, []).append(numbers[lane.node])
    return [
        [from_s, to_s, runs_of(nodes), *((share, top) if share < 1 else ())]
        for (from_s, to_s, share, top), nodes in alike.items()
    ]


def _until(to_s: float) -> float | None:
    """When something ended; None if it goes on."""
    return None if to_s == math.inf else round(to_s, 2)


def _resize(resize: ResizeRecord) -> dict[str, Any]:
    took_s, phases = words.resize_times(resize)
    return {
        "order": resize.order,
        "kind": resize.kind,
        "count": resize.count,
        "ordered_s": round(resize.ordered_s, 2),
        "done_s": None if resize.done_s is None else round(resize.done_s, 2),
        "outcome": resize.outcome,
        "reason": resize.reason[:_SHORT],
        "seconds": resize.seconds,
        "took_s": took_s,
        "phases": phases,
    }
