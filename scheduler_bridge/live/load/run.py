"""The course of a measurement: fill the queue, have the jobs connect, let them speak, and ask what it took."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from scheduler_bridge.live.client import ControlClient
from scheduler_bridge.live.config import DaemonError
from scheduler_bridge.live.load.events import kinds, last_row
from scheduler_bridge.live.load.figures import allow_files, spread
from scheduler_bridge.live.load.jobs import FakeJob, Fleet
from scheduler_bridge.live.load.plan import WALLTIME_S, Plan
from scheduler_bridge.live.load.report import Report
from scheduler_bridge.live.load.stage import Stage, open_stage
from scheduler_bridge.live.requests import JobRequest, Snapshot

_TICK_S: Final = 0.01
_PATIENCE_S: Final = 300.0
_KEPT: Final = 0.95
"""While fewer of the jobs run, because others have not started for those that ended, none is ended."""


def measure(plan: Plan, tell: Callable[[str], None] = lambda _: None) -> Report:
    """Put a daemon under a load; ``tell`` is called with what is being done.

    Raises:
        DaemonError: The daemon cannot be started, or so many connections are not allowed.
        RuntimeError: It ended, or refused something that was right.
        TimeoutError: It did not get done with the beginning, or with the last jobs that came.
        SystemExit: This process was told to end (TERM); nothing is left behind.
    """
    if not allow_files(plan.connected):
        raise DaemonError(f"{plan.connected} connections are more than a process may have", "raise it: ulimit -Hn")
    try:
        return asyncio.run(_until_told_to_end(plan, tell))
    except asyncio.CancelledError:
        raise SystemExit(128 + signal.SIGTERM) from None


async def _until_told_to_end(plan: Plan, tell: Callable[[str], None]) -> Report:
    """Measure; a TERM ends that as an error would, so that the scheduler and its folder go, too."""
    task = asyncio.current_task()
    assert task is not None
    with contextlib.suppress(ValueError, RuntimeError):  # Only the main thread hears signals.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with tempfile.TemporaryDirectory(prefix="malleable-load-") as folder:
        return await _measure(plan, Path(folder) / "state", tell)


async def _measure(plan: Plan, folder: Path, tell: Callable[[str], None]) -> Report:
    busy = os.getloadavg()[0]
    async with open_stage(plan, folder) as stage:
        async with asyncio.timeout(_PATIENCE_S):
            tell(f"connecting {plan.connected} jobs")
            await stage.submit([_running(index) for index in range(plan.connected)])
            await stage.fleet.connected(plan.connected)
            tell(f"queueing {plan.queued} jobs")
            began_s = time.perf_counter()
            await stage.submit([_waiting(plan, index) for index in range(plan.queued)])
            submits_per_s = plan.queued / (time.perf_counter() - began_s)
        snapshot = await _settled(plan, stage, folder)
        tell(f"{plan.rate:.0f} events a second for {plan.seconds:g} s")
        before = last_row(folder)
        queue_s = await _play(plan, stage, folder)
        daemon = await stage.figures()
        events = kinds(folder, before, daemon.message.count)
        return Report(
            queued=sum(job.state == "waiting" for job in snapshot.jobs),
            connected=_connected(snapshot),
            nodes=plan.nodes, policy=plan.policy, offered_per_s=plan.rate,
            events=events, decisions_per_s=daemon.decision.count / daemon.wall_s,
            submits_per_s=submits_per_s,
            resizes_per_s=stage.fleet.heard.resizes / daemon.wall_s,
            daemon=daemon, answer=spread(stage.fleet.heard.answer_s), queue=spread(queue_s),
            cores=os.cpu_count() or 1, busy_before=busy,
        )  # fmt: skip


def _running(index: int, walltime_s: float = WALLTIME_S) -> JobRequest:
    return JobRequest(
        name=f"connected-{index}", command=("true",), job_class="malleable", min_nodes=1, max_nodes=4,
        walltime_s=walltime_s,
    )  # fmt: skip


def _waiting(plan: Plan, index: int) -> JobRequest:
    """A job that waits: for it to start, half of the running ones would have to be over, and the others shrink."""
    half = plan.connected // 2
    nodes = plan.nodes - half + index % max(1, half)
    return JobRequest(name=f"waiting-{index}", command=("true",), nodes=nodes, walltime_s=WALLTIME_S)


async def _settled(plan: Plan, stage: Stage, folder: Path) -> Snapshot:
    """Return the cluster when the daemon has taken in what all jobs said when they connected."""
    client = ControlClient(folder, _PATIENCE_S)
    async with asyncio.timeout(_PATIENCE_S):
        while _connected(snapshot := await asyncio.to_thread(client.snapshot)) < plan.connected:
            stage.check()
            await asyncio.sleep(_TICK_S)
    return snapshot


def _connected(snapshot: Snapshot) -> int:
    return sum(job.state == "running" and job.ready for job in snapshot.jobs)


async def _play(plan: Plan, stage: Stage, folder: Path) -> list[float]:
    """Let the jobs speak; return the seconds that the queue took each time somebody asked for it."""
    loop = asyncio.get_running_loop()
    stage.fleet.heard.clear()
    queue_s: list[float] = []
    asking = loop.create_task(_ask_for_queue(folder, queue_s))
    replacing: set[asyncio.Task[None]] = set()
    stage.say({"begin": True})
    began_s, requested, ended = loop.time(), 0, 0
    turn = _speakers(stage.fleet)
    heard = stage.fleet.heard
    try:
        while (elapsed_s := loop.time() - began_s) < plan.seconds:
            stage.check()
            while heard.events < plan.rate * elapsed_s:
                if (job := next(turn)) is None:
                    break  # All have just ended: what they owe is said by their successors.
                due = heard.events + 1
                if ended < plan.ends * due and len(stage.fleet.jobs) >= _KEPT * plan.connected:
                    ended += 1
                    stage.end(job.job_id)
                    replacing.add(loop.create_task(stage.submit([_running(ended, WALLTIME_S / 2)])))
                elif requested < plan.requests * due:
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


def _speakers(fleet: Fleet) -> Iterator[FakeJob | None]:
    """The connected jobs in turn, for ever; None whenever there is none."""
    while True:
        found = False
        for job_id in tuple(fleet.jobs):
            job = fleet.jobs.get(job_id)
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
