"""Schedulers that are killed, one after the other, and the batch that has to survive them."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from scheduler_bridge.daemon import ControlClient, ControlError, DaemonConfig, JobRequest, Snapshot
from scheduler_bridge.jobrunner import processes
from scheduler_bridge.record import RunRecord, decode_record
from support import dying
from support.daemons import BIRTHMARK, assert_nothing_left
from support.dying import ENV_CRASH_AT
from support.mpi import PATIENCE_S
from support.warm import WarmInterpreter

STEADY = str(Path(__file__).parents[1] / "mpiexec" / "steady_job.py")
OVER = ("completed", "failed", "cancelled", "timeout", "lost")
LANES = 5
"""How many batches are under way at a time: each mostly waits for its processes."""


class Scheduler(Protocol):
    """A scheduler's process."""

    def readline(self) -> str:
        """Return the next line of its standard output."""

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait for its end; return its status, negative for a signal."""

    def kill(self) -> None:
        """Kill it."""

    def terminate(self) -> None:
        """Ask it to end."""


Starter: TypeAlias = Callable[[Sequence[str], Mapping[str, str]], Scheduler]
Points: TypeAlias = Callable[[int, Mapping[int, int]], Sequence[int] | None]


class ColdScheduler:
    """A scheduler that was started as users start one."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        program = ["-m", "scheduler_bridge.cli"] if environment[ENV_CRASH_AT] == "0" else [dying.__file__]
        command = [sys.executable, *program, *words]
        self._process = subprocess.Popen(
            command, env=dict(environment), stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def readline(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        status = self._process.wait(timeout_s)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return status

    def kill(self) -> None:
        self._process.kill()

    def terminate(self) -> None:
        self._process.terminate()


@dataclass
class Cluster:
    """A state folder that schedulers serve one after the other.

    Attributes:
        config: Of the schedulers.
        scratch: Where they and their jobs have temporary files.
        mark: What their jobs have in their environment.
        start: Starts one.
    """

    config: DaemonConfig
    scratch: Path
    mark: str
    start: Starter = ColdScheduler
    schedulers: list[Scheduler] = field(default_factory=list)

    def serve(self, crash_at: int = 0, *options: str) -> Scheduler:
        words = ["serve", "--state", str(self.config.state_dir), "--node-names", ",".join(self.config.nodes), "--quiet"]
        own = {ENV_CRASH_AT: str(crash_at), "TMPDIR": str(self.scratch), BIRTHMARK: self.mark}
        scheduler = self.start([*words, *options], {**os.environ, **own})
        self.schedulers.append(scheduler)
        scheduler.readline()
        return scheduler

    @property
    def client(self) -> ControlClient:
        return ControlClient(self.config.state_dir, timeout_s=PATIENCE_S)

    def stop(self, scheduler: Scheduler) -> None:
        scheduler.terminate()
        assert scheduler.wait() == 0
        assert_nothing_left(self.config, self.scratch, self.mark)

    def await_all(self, jobs: int) -> Snapshot:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            snapshot = self.client.snapshot()
            if len(snapshot.jobs) == jobs and all(job.state in OVER for job in snapshot.jobs):
                return snapshot
            assert time.monotonic() < deadline, snapshot
            time.sleep(0.05)

    def record(self) -> RunRecord:
        return decode_record((self.config.state_dir / "history.json").read_bytes())


@contextmanager
def serving(config: DaemonConfig, start: Starter = ColdScheduler, own: Path | None = None) -> Iterator[Cluster]:
    """Give a cluster, whose state and temporary files are in ``own`` if that is given; it is gone afterwards."""
    made = Cluster(config, Path(tempfile.gettempdir()), os.environ[BIRTHMARK], start)
    if own is not None:
        (own / "tmp").mkdir(parents=True)
        made = Cluster(msgspec.structs.replace(config, state_dir=own / "state"), own / "tmp", str(own), start)
    try:
        yield made
    finally:
        for scheduler in made.schedulers:
            scheduler.kill()
            scheduler.wait()
        for claim in made.config.state_dir.glob("runs/*.claim"):
            processes.send(str(claim.readlink()), signal.SIGTERM)  # Only if the test failed.


def writes(file: Path, nodes: int = 1, sleep_s: float = 0.0) -> JobRequest:
    """A job that adds one line to ``file``: that it ran twice shows."""
    code = f"import time; open({str(file)!r}, 'a').write('ran\\n'); time.sleep({sleep_s})"
    return JobRequest(name="writes", command=(sys.executable, "-c", code), nodes=nodes, launch="direct")


def steady(file: Path, orders: int = 1) -> JobRequest:
    """A malleable job that ends after ``orders`` orders and writes each into ``file``."""
    command = (sys.executable, STEADY, "{hosts}", str(orders), str(file))
    return JobRequest(
        name="steady", command=command, job_class="malleable", nodes=1, min_nodes=1, max_nodes=3, launch="direct"
    )


def batch(cluster: Cluster, folder: Path, crash_points: Iterator[int]) -> int:
    """Run a batch under schedulers that die at the points, until it is over; return how many died.

    Every job runs exactly once, and every order is carried out exactly once.
    """
    jobs = [
        steady(folder / "orders", orders=2), *(writes(folder / f"out{number}", nodes=1 + number) for number in range(3))
    ]  # fmt: skip
    died = 0
    scheduler = cluster.serve(next(crash_points, 0))
    while True:
        try:
            # What was not answered may have been taken all the same: the next scheduler knows.
            for request in jobs[len(cluster.client.snapshot().jobs) :]:
                cluster.client.submit(request)
            cluster.await_all(len(jobs))
            break
        except ControlError:
            assert scheduler.wait() == -signal.SIGKILL
            died += 1
            scheduler = cluster.serve(next(crash_points, 0))
    snapshot = cluster.client.snapshot()
    assert [(job.name, job.state) for job in snapshot.jobs] == [(job.name, "completed") for job in jobs], snapshot
    assert {node.state for node in snapshot.nodes} == {"idle"}
    for number in range(3):
        assert (folder / f"out{number}").read_text() == "ran\n", number
    orders = (folder / "orders").read_text().split()
    assert len(orders) == len(set(orders)) == 2
    cluster.stop(scheduler)
    assert {job.state for job in cluster.record().jobs} == {"completed"}
    return died


def batches(config: DaemonConfig, folder: Path, points: Points) -> list[int]:
    """Run one batch after the other, some of them side by side; return how many schedulers died in each.

    Args:
        config: Of the schedulers.
        folder: For all files.
        points: Where the schedulers of the next batch die, by its number (from 1 on) and how many died in those that
            are over; None: it is not run, nor any after it.
    """
    numbers, asking = itertools.count(1), threading.Lock()
    died: dict[int, int] = {}
    over = threading.Event()

    def lane() -> None:
        with WarmInterpreter() as interpreter:
            while not over.is_set():
                with asking:
                    number = next(numbers)
                    chosen = points(number, died)
                if chosen is None:
                    over.set()
                    return
                own = folder / f"batch{number}"
                try:
                    with serving(config, interpreter.start, own) as cluster:
                        died[number] = batch(cluster, own, iter(chosen))
                except BaseException:
                    over.set()
                    raise

    with ThreadPoolExecutor(LANES) as pool:
        for done in [pool.submit(lane) for _ in range(LANES)]:
            done.result()
    return [died[number] for number in sorted(died)]
