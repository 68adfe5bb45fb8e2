"""The measured process: a daemon, with lines on its standard input and output where jobs' processes would be.

Out: ``{"start": JOB, "token": ..., "nodes": [...]}`` and ``{"ended": JOB}``; in: ``{"end": JOB}`` when a job is over.
Beside that, ``{"begin": true}`` begins the time measured and ``{"figures": true}`` is answered by the figures.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler_bridge.daemon.admission import JobFacts
from scheduler_bridge.daemon.config import DaemonConfig, numbered_nodes
from scheduler_bridge.daemon.daemon import Daemon
from scheduler_bridge.daemon.jobs.executor import Executor, Setup
from scheduler_bridge.daemon.storage.journal import Step
from scheduler_bridge.gc_tuning import rare_searches
from scheduler_bridge.jobrunner.notes import Ending

from ..compare.contender import percentile

LINE_BYTES: Final = 1 << 20

Say = Callable[[dict[str, Any]], None]


class StandIn(Executor):
    """Says which jobs would start, and takes it that they have.

    Args:
        say: Notifies the process that plays the jobs.
        playing: The jobs that run, by id, with what reports their ends; shared with the process that ends them.
        setup: What to notify of starts and ends.
    """

    def __init__(self, say: Say, playing: dict[int, Callable[[], None]], setup: Setup) -> None:
        super().__init__(setup)
        self._say = say
        self._playing = playing
        self._tokens = setup.folder.token
        self._report_start, self._report_end = setup.started, setup.ended

    # the process that plays the job knows the rest of it
    def start(self, job: JobFacts, nodes: tuple[str, ...], core_ids: tuple[int, ...], endpoint: str) -> None:  # noqa: ARG002
        """Say that a job starts."""
        job_id = job.spec.job_id
        loop = asyncio.get_running_loop()

        def over() -> None:
            loop.call_soon(self._report_end, job_id, Ending(0))

        self._playing[job_id] = over
        self._say({"start": job_id, "token": self._tokens(job.key), "nodes": nodes})
        loop.call_soon(self._report_start, job_id)

    def end(self, job_id: int) -> None:
        """The scheduler ends a job."""
        if (over := self._playing.pop(job_id, None)) is not None:
            self._say({"ended": job_id})
            over()

    def note_segments(self, job_id: int) -> None:
        """There are none."""

    def retire(self, key: str) -> None:
        """There are no notes."""

    async def finish(self, within_s: float) -> None:  # noqa: ARG002 - none takes long
        """Wait until all have ended: each was ordered to, which is all it takes."""
        while self._playing:
            self.end(next(iter(self._playing)))
        await asyncio.sleep(0)


async def _serve(config: DaemonConfig) -> None:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    transport, _ = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    gauge, playing = Gauge(), dict[int, Callable[[], None]]()

    def say(what: dict[str, Any]) -> None:
        transport.write(msgspec.json.encode(what) + b"\n")

    async with Daemon(config, executor=partial(StandIn, say, playing), timed=gauge.note) as daemon:
        say({"endpoint": daemon.endpoint})
        beat = loop.create_task(gauge.beat())
        try:
            while line := await lines.readline():
                match msgspec.json.decode(line):
                    case {"end": int(job_id)}:
                        if (over := playing.pop(job_id, None)) is not None:
                            over()
                    case {"begin": True}:
                        gauge.begin()
                    case {"figures": True}:
                        say({"figures": msgspec.to_builtins(gauge.figures())})
                    case line:
                        raise ValueError(f"{line!r} is no message for a daemon")
        finally:
            beat.cancel()
            await asyncio.gather(beat, return_exceptions=True)
    transport.close()


def main() -> None:
    """Serve until standard input ends: STATE-FOLDER NODES POLICY."""
    logging.basicConfig(level=logging.ERROR)  # The last words of jobs that end are refused, which is a warning each.
    folder, nodes, policy = sys.argv[1:]
    config = DaemonConfig(
        nodes=numbered_nodes(int(nodes)), state_dir=Path(folder), policy=policy, mpiexec=Path(sys.executable)
    )
    with contextlib.suppress(KeyboardInterrupt), rare_searches():  # an interrupt ends it, too; searches as in ``serve``
        asyncio.run(_serve(config))


# What the measured process says of itself ----------------------------------------------------------------------------

_BEAT_S: Final = 0.005
_STATM: Final = Path("/proc/self/statm")


class Spread(msgspec.Struct, frozen=True):
    """How often something happened, and the median, 99th percentile and maximum of its seconds."""

    count: int = 0
    p50_s: float = 0.0
    p99_s: float = 0.0
    max_s: float = 0.0


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon's process over ``wall_s`` seconds.

    Attributes:
        cpu_s: CPU time of the process in it, all threads.
        memory_bytes: Resident memory at its end.
        open_files: Open file descriptors at its end.
        message: Messages of jobs, each from being read to what it led to.
        stall: How late the event loop was, whatever kept it, looked at about 200 times a second.
    """

    wall_s: float
    cpu_s: float
    memory_bytes: int
    open_files: int
    message: Spread
    decision: Spread
    commit: Spread
    picture: Spread
    stall: Spread


class Gauge:
    """Collects the figures of the process that it is in."""

    def __init__(self) -> None:
        self._seconds: dict[Step, list[float]] = {"message": [], "decision": [], "commit": [], "picture": []}
        self._late: list[float] = []
        self._began_s, self._cpu_s = time.perf_counter(), time.process_time()

    def note(self, step: Step, seconds: float) -> None:
        """A step took so long."""
        self._seconds[step].append(seconds)

    def begin(self) -> None:
        """Forget all until now."""
        for seconds in (*self._seconds.values(), self._late):
            seconds.clear()
        self._began_s, self._cpu_s = time.perf_counter(), time.process_time()

    async def beat(self) -> None:
        """Measure, without end, how late the event loop is."""
        while True:
            before = time.perf_counter()
            await asyncio.sleep(_BEAT_S)
            self._late.append(max(0.0, time.perf_counter() - before - _BEAT_S))

    def figures(self) -> Figures:
        """Return what there is since the last ``begin``."""
        wall_s, cpu_s = time.perf_counter() - self._began_s, time.process_time() - self._cpu_s
        return Figures(
            wall_s=wall_s,
            cpu_s=cpu_s,
            memory_bytes=int(_STATM.read_text(encoding="ascii").split()[1]) * resource.getpagesize(),
            open_files=len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - counted, not used as paths
            stall=spread(self._late),
            **{step: spread(seconds) for step, seconds in self._seconds.items()},
        )


def spread(seconds: Sequence[float]) -> Spread:
    """Return the spread of ``seconds``; percentiles are values that occurred (nearest rank)."""
    return Spread(len(seconds), *(percentile(seconds, share) for share in (0.5, 0.99, 1.0))) if seconds else Spread()


if __name__ == "__main__":
    main()
