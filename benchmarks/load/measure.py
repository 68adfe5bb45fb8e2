"""The course of a measurement: fill the queue, have the jobs connect, let them speak, and ask what it took."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from scheduler_bridge.core import Snapshot
from scheduler_bridge.core import events as ev
from scheduler_bridge.daemon.config import DaemonError
from scheduler_bridge.daemon.control.client import ControlClient
from scheduler_bridge.daemon.listener import raise_file_limit
from scheduler_bridge.daemon.requests import JobRequest
from scheduler_bridge.daemon.storage.log_entries import Requested, decode
from scheduler_bridge.daemon.storage.store import Store

from ..harness.errors import BadUsage
from .daemon import Figures, Spread, spread
from .stage import FakeJob, Stage, open_stage

_WALLTIME_S: Final = 7200.0
"""Of jobs that are there from the beginning; those that follow them ask for half of it, and so may overtake."""
_OWN_FILES: Final = 200
"""What a process opens beside the connections."""
_TICK_S: Final = 0.01
_PATIENCE_S: Final = 300.0
_KEPT: Final = 0.95
"""While fewer of the jobs run, because others have not started for those that ended, none is ended."""


@dataclass(frozen=True, slots=True)
class Load:
    """A load.

    Attributes:
        queued: Jobs that wait all the time, each for more nodes than can come free.
        connected: Malleable jobs (1 to 4 nodes; two per job are there) that run and are connected.
        rate: Events a second: each message of a job, but the one that it connects with, and each submission, start and
            end of a job. Those that follow from others count, too: outcomes of orders, and all that a new job brings.
        requests: The share of them that asks for a node more, or offers one back: the scheduler decides about each.
        ends: The share of them by which a job ends; another one is submitted then, starts and says that it is ready.
            What is left of the rate are reports of progress, which are only remembered.
    """

    queued: Annotated[int, typer.Option(min=0, help="Jobs that wait.")] = 10_000
    connected: Annotated[int, typer.Option(min=1, help="Malleable jobs that run and are connected.")] = 1_000
    rate: Annotated[float, typer.Option(help="Events a second.")] = 5_000.0
    requests: Annotated[
        float, typer.Option(min=0, max=1, help="Share of them that asks for nodes, or offers some.")
    ] = 0.25
    ends: Annotated[float, typer.Option(min=0, max=1, help="Share of them by which a job ends; one comes for it.")] = (
        0.02
    )
    seconds: Annotated[float, typer.Option(help="How long.")] = 10.0
    policy: Annotated[str, typer.Option(help="What decides.")] = "malleable"

    def __post_init__(self) -> None:
        why = ""
        if self.queued < 0 or self.connected < 1 or self.rate <= 0 or self.seconds <= 0:
            why = "a load needs at least one connected job, a rate, and seconds above 0"
        elif not (0 <= self.requests <= 1 and 0 <= self.ends <= 1):
            why = "shares lie between 0 and 1"
        if why:
            raise BadUsage("the load", why, f"see python -m {__package__} --help")

    @property
    def nodes(self) -> int:
        """Nodes of the cluster."""
        return 2 * self.connected


def measure(load: Load, report: Callable[[str], None] = lambda _: None) -> Measurement:
    """Put a daemon under a load; ``report`` is called with what is being done.

    Raises:
        DaemonError: The daemon cannot be started, or it may not open enough connections.
        RuntimeError: It ended, or refused something that was right.
        TimeoutError: It did not get done with the beginning, or with the last jobs that came.
    """
    if raise_file_limit() < load.connected + _OWN_FILES:  # the daemon inherits the limit
        raise DaemonError(f"{load.connected} connections are more than a process may have", "raise it: ulimit -Hn")
    with tempfile.TemporaryDirectory(prefix="malleable-load-") as folder:
        return asyncio.run(_measure(load, Path(folder) / "state", report))


async def _measure(load: Load, folder: Path, report: Callable[[str], None]) -> Measurement:
    busy = os.getloadavg()[0]
    async with open_stage(folder, load.nodes, load.policy) as stage:
        async with asyncio.timeout(_PATIENCE_S):
            report(f"connecting {load.connected} jobs")
            await stage.submit([_running(index) for index in range(load.connected)])
            await stage.connected(load.connected)
            report(f"queueing {load.queued} jobs")
            began_s = time.perf_counter()
            await stage.submit([_waiting(load, index) for index in range(load.queued)])
            submits_per_s = load.queued / (time.perf_counter() - began_s)
        snapshot = await _settled(load, stage, folder)
        report(f"{load.rate:.0f} events a second for {load.seconds:g} s")
        before = last_row(folder)
        queue_s = await _play(load, stage, folder)
        daemon = await stage.figures()
        events = kinds(folder, before, daemon.message.count)
        return Measurement(
            queued=sum(job.state == "waiting" for job in snapshot.jobs),
            connected=_connected(snapshot),
            nodes=load.nodes, policy=load.policy, offered_per_s=load.rate,
            events=events, decisions_per_s=daemon.decision.count / daemon.wall_s,
            submits_per_s=submits_per_s,
            resizes_per_s=stage.heard.resizes / daemon.wall_s,
            daemon=daemon, answer=spread(stage.heard.answer_s), queue=spread(queue_s),
            cores=os.cpu_count() or 1, busy_before=busy,
        )  # fmt: skip


def _running(index: int, walltime_s: float = _WALLTIME_S) -> JobRequest:
    return JobRequest(
        name=f"connected-{index}", command=("true",), job_class="malleable", min_nodes=1, max_nodes=4,
        walltime_s=walltime_s,
    )  # fmt: skip


def _waiting(load: Load, index: int) -> JobRequest:
    """A job that waits: for it to start, half of the running ones would have to be over, and the others shrink."""
    half = load.connected // 2
    nodes = load.nodes - half + index % max(1, half)
    return JobRequest(name=f"waiting-{index}", command=("true",), nodes=nodes, walltime_s=_WALLTIME_S)


async def _settled(load: Load, stage: Stage, folder: Path) -> Snapshot:
    """Return the cluster when the daemon has taken in what all jobs said when they connected."""
    client = ControlClient(folder, _PATIENCE_S)
    async with asyncio.timeout(_PATIENCE_S):
        while _connected(snapshot := await asyncio.to_thread(client.snapshot)) < load.connected:
            stage.check()
            await asyncio.sleep(_TICK_S)
    return snapshot


def _connected(snapshot: Snapshot) -> int:
    return sum(job.state == "running" and job.ready for job in snapshot.jobs)


async def _play(load: Load, stage: Stage, folder: Path) -> list[float]:
    """Let the jobs speak; return the seconds that the queue took each time it was asked for."""
    loop = asyncio.get_running_loop()
    stage.heard.clear()
    queue_s: list[float] = []
    asking = loop.create_task(_ask_for_queue(folder, queue_s))
    replacing: set[asyncio.Task[None]] = set()
    stage.say({"begin": True})
    began_s, requested, ended = loop.time(), 0, 0
    turn = _speakers(stage.jobs)
    heard = stage.heard
    try:
        while (elapsed_s := loop.time() - began_s) < load.seconds:
            stage.check()
            while heard.events < load.rate * elapsed_s:
                if (job := next(turn)) is None:
                    break  # All have just ended: what they owe is said by their successors.
                due = heard.events + 1
                if ended < load.ends * due and len(stage.jobs) >= _KEPT * load.connected:
                    ended += 1
                    stage.end(job.job_id)
                    replacing.add(loop.create_task(stage.submit([_running(ended, _WALLTIME_S / 2)])))
                elif requested < load.requests * due:
                    requested += 1
                    job.request()
                else:
                    job.progress()
            await asyncio.sleep(_TICK_S)
        async with asyncio.timeout(_PATIENCE_S):
            await asyncio.gather(*replacing)
    finally:
        for task in (asking, *replacing):
            task.cancel()
        await asyncio.gather(asking, *replacing, return_exceptions=True)
    return queue_s


def _speakers(jobs: Mapping[int, FakeJob]) -> Iterator[FakeJob | None]:
    """The connected jobs in turn, without end; None whenever there is none."""
    while True:
        found = False
        for job_id in tuple(jobs):
            job = jobs.get(job_id)
            if job is not None and job.ready.is_set():
                found = True
                yield job
        if not found:
            yield None


async def _ask_for_queue(folder: Path, seconds: list[float]) -> None:
    client = ControlClient(folder, _PATIENCE_S)
    while True:
        began_s = time.perf_counter()
        await asyncio.to_thread(client.snapshot)
        seconds.append(time.perf_counter() - began_s)
        await asyncio.sleep(1.0)


# What was measured, beside the goals ---------------------------------------------------------------------------------

QUEUED, CONNECTED, EVENTS_PER_S, DECISION_P99_S = 10_000, 1_000, 5_000.0, 0.050
_ENOUGH: Final = 0.99
"""The rate is a mean over a time that ends in the middle of an event."""


class Goal(msgspec.Struct, frozen=True):
    """One goal and what was reached."""

    what: str
    goal: str
    reached: str
    met: bool


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one measurement.

    Attributes:
        queued: Jobs that waited at its beginning; none of them can start meanwhile.
        connected: Malleable jobs that were connected and ready then.
        offered_per_s: Events a second that there were to be.
        events: Those that the daemon took in, by kind.
        decisions_per_s: Decisions a second, each one row of the log.
        submits_per_s: Jobs a second that the daemon took while the queue was filled.
        resizes_per_s: Answered orders a second.
        answer: Seconds between a job's request for nodes and the answer, which waits for the log.
        queue: Seconds of one ``malleable queue`` without its printing, asked for once a second.
        busy_before: Mean number of processes that ran or waited for a core in the minute before (all of the machine).
    """

    queued: int
    connected: int
    nodes: int
    policy: str
    offered_per_s: float
    events: list[Kind]
    decisions_per_s: float
    submits_per_s: float
    resizes_per_s: float
    daemon: Figures
    answer: Spread
    queue: Spread
    cores: int
    busy_before: float

    def per_s(self, *, handled: bool = False) -> float:
        """Events a second: all of them, or those that the core handled."""
        return sum(kind.count for kind in self.events if kind.handled or not handled) / self.daemon.wall_s

    def goals(self) -> list[Goal]:
        """Return the goals that there are for a scheduler of this kind."""
        p99_s = self.daemon.decision.p99_s
        return [
            Goal("queued jobs", f"{QUEUED:,}", f"{self.queued:,}", self.queued >= QUEUED),
            Goal("connected malleable jobs", f"{CONNECTED:,}", f"{self.connected:,}", self.connected >= CONNECTED),
            Goal(
                "events a second", f"{EVENTS_PER_S:,.0f}", f"{self.per_s():,.0f}",
                self.per_s() >= _ENOUGH * EVENTS_PER_S,
            ),
            Goal(
                "99 % of decisions take", f"< {DECISION_P99_S * 1e3:.0f} ms", f"{p99_s * 1e3:.2f} ms",
                p99_s < DECISION_P99_S,
            ),
        ]  # fmt: skip


# What the daemon took in, kind by kind: what its core handled, as its log has it, and what it only noted -------------

_BY_MESSAGE: Final = {
    ev.EvolvingRequest: "a job asks for a node, or offers one",
    ev.GrowCompleted: "a job has grown",
    ev.ShrinkCompleted: "a job has shrunk",
    ev.ResizeFailed: "a job has not resized",
    ev.MalleableReady: "a job is ready for orders",
}
_OTHERS: Final = {
    ev.JobSubmitted: "a job is submitted",
    ev.JobStarted: "a job has started",
    ev.JobEnded: "a job has ended",
}
PROGRESS: Final = "a job reports progress"


class Kind(msgspec.Struct, frozen=True):
    """Events of one kind: how many there were, and whether the core handles them or they are only noted."""

    what: str
    count: int
    handled: bool


def last_row(folder: Path) -> int:
    """Return the number of the last row of the log in ``folder``."""
    with contextlib.closing(Store(folder, read_only=True)) as store:
        return store.last_seq()


def kinds(folder: Path, after: int, messages: int) -> list[Kind]:
    """Return what a daemon took in after a row of its log, by kind; ``messages``: how many there were of jobs.

    Times that it was woken at are not among it, because no job sent them.
    """
    counts = _logged(folder, after)
    by_message = sum(counts[kind] for kind in _BY_MESSAGE)
    found = [Kind(what, counts[kind], handled=True) for kind, what in (_BY_MESSAGE | _OTHERS).items()]
    return [*found, Kind(PROGRESS, max(0, messages - by_message), handled=False)]


def _logged(folder: Path, after: int) -> Counter[type]:
    counts: Counter[type] = Counter()
    with contextlib.closing(Store(folder, read_only=True)) as store:
        era = store.last_era()
        for _, row in store.rows(era, after) if era is not None else ():
            entry, _ = decode(row)
            counts.update(map(type, entry.events))
            counts[ev.JobSubmitted] += sum(fact.admitted for fact in entry.facts if isinstance(fact, Requested))
    return counts
