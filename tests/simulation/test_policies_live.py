"""Every policy drives the live scheduler, with pretended jobs; what it logged replays to the same effects."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler_bridge import policies
from scheduler_bridge.core.events import (
    Event,
    GrowCompleted,
    MalleableReady,
    ResizeDeferred,
    ResizeFailed,
    SendOrder,
    ShrinkCompleted,
    WorkersChanged,
)
from scheduler_bridge.daemon import DaemonConfig, JobRequest
from scheduler_bridge.daemon.admission import JobFacts
from scheduler_bridge.daemon.driver import Driver
from scheduler_bridge.daemon.storage.journal import Journal
from scheduler_bridge.daemon.storage.log_state import LogState
from scheduler_bridge.daemon.storage.restore import restore
from scheduler_bridge.daemon.storage.state import StateFolder
from scheduler_bridge.daemon.storage.store import Store
from scheduler_bridge.jobrunner.notes import Ending

NODES = tuple("abcdefgh")
CORES = 4
JOBS = 25
PARAMETERS = {"sd-policy": {"mates": 3, "free_nodes": "yes"}}
SEEDS = range(4)


@dataclass
class PretendedJobs:
    """Stands for the executor and the job orders: whatever a job would do next is drawn by ``rng``, never timed."""

    rng: random.Random
    driver: Driver | None = None
    todo: list[tuple[int, Callable[[], object]]] = field(default_factory=list)
    malleable: set[int] = field(default_factory=set)
    held: dict[int, list[str]] = field(default_factory=dict)
    orders: list[SendOrder] = field(default_factory=list)
    progress: dict[int, Any] = field(default_factory=dict)
    retired: list[str] = field(default_factory=list)
    server: Any = field(default_factory=lambda: SimpleNamespace(endpoint="nowhere"))

    def handle(self, event: Event) -> None:
        assert self.driver is not None
        self.driver.handle(event)

    def expect(self, job: JobFacts, nodes: tuple[str, ...], token: str) -> None:
        self.held[job.spec.job_id] = list(nodes)
        if job.spec.is_malleable:
            self.malleable.add(job.spec.job_id)

    def start(self, job: JobFacts, nodes: tuple[str, ...], core_ids: tuple[int, ...], endpoint: str) -> None:
        job_id = job.spec.job_id
        assert all(0 < ids < 1 << CORES for ids in core_ids)
        self.todo.append((job_id, lambda: self._run(job_id)))

    def _run(self, job_id: int) -> None:
        assert self.driver is not None
        self.driver._started(job_id)
        self.todo.append((job_id, lambda: self._end(job_id)))
        if job_id in self.malleable:
            self.todo.append((job_id, lambda: self.handle(MalleableReady(job_id))))

    def _end(self, job_id: int, status: int = 0) -> None:
        assert self.driver is not None
        self.todo = [entry for entry in self.todo if entry[0] != job_id]
        self.driver._ended(job_id, Ending(status, ""))

    def end(self, job_id: int) -> None:
        self._end(job_id, -signal.SIGTERM)

    def order(self, order: SendOrder) -> None:
        self.orders.append(order)
        self.todo.append((order.job_id, lambda: self._answer(order)))

    def _answer(self, order: SendOrder) -> None:
        held = self.held[order.job_id]
        match self.rng.choice(["done", "done", "done", "failed", "deferred"]):
            case "failed":
                self.handle(ResizeFailed(order.job_id, order.order, "no"))
            case "deferred":
                self.todo.append((order.job_id, lambda: self._answer(order)))
                self.handle(ResizeDeferred(order.job_id, order.order, "later"))
            case _ if order.kind == "workers":
                self.handle(WorkersChanged(order.job_id, order.order))
            case _ if order.kind == "grow":
                held += order.nodes
                self.handle(GrowCompleted(order.job_id, order.order, order.nodes))
            case _:
                released = tuple(self.rng.sample(held[1:], order.count))
                self.held[order.job_id] = [node for node in held if node not in released]
                self.handle(ShrinkCompleted(order.job_id, order.order, released))

    def dismiss(self, job_id: int) -> None:
        del self.held[job_id]

    def retire(self, key: str) -> None:
        self.retired.append(key)

    async def finish(self, within_s: float) -> None:
        assert not self.held

    def close(self) -> None:
        pass


def request(rng: random.Random, number: int) -> JobRequest:
    low, wanted, high = sorted(rng.randint(1, len(NODES)) for _ in range(3))
    job_class, walltime_s = rng.choice(["rigid", "malleable"]), float(rng.randint(1000, 9000))
    if job_class == "rigid":
        return JobRequest(name=f"j{number}", command=(sys.executable,), nodes=wanted, walltime_s=walltime_s)
    return JobRequest(
        name=f"j{number}", command=(sys.executable,), job_class="malleable",
        nodes=wanted, min_nodes=low, max_nodes=high, walltime_s=walltime_s,
    )  # fmt: skip


@asynccontextmanager
async def scheduling(policy: str, jobs: PretendedJobs, folder: Path) -> AsyncIterator[tuple[Driver, LogState]]:
    """A scheduler of ``jobs``, until none is left."""
    state = StateFolder(folder)
    config = DaemonConfig(
        NODES, state_dir=folder, policy=policy, parameters=PARAMETERS.get(policy, {}), cores_per_node=CORES
    )
    store = Store(folder)
    log_state, _ = restore(store, config, 1)
    journal = Journal(store, _broke)
    driver = Driver(config, log_state, journal, state, _broke)
    driver.executor = driver.job_orders = jobs  # type: ignore[assignment]  # a stand-in
    jobs.driver = driver
    try:
        yield driver, log_state
        await driver.close()
    finally:
        store.close()
        state.close()


async def live_through(policy: str, seed: int, folder: Path) -> tuple[LogState, PretendedJobs]:
    """Submit jobs and let them live, in an order that ``seed`` determines, until nothing is left."""
    rng = random.Random(seed)
    jobs = PretendedJobs(rng)
    submitted = 0
    async with scheduling(policy, jobs, folder) as (driver, log_state):
        core = log_state.core
        while submitted < JOBS or driver.log_state.jobs:
            if submitted < JOBS and (not jobs.todo or rng.random() < 0.3):
                driver.submissions.submit(request(rng, submitted))
                submitted += 1
                await driver.journal.settled()
                continue
            assert jobs.todo, f"jobs wait for ever: {[core.explain(row.job) for row in core.snapshot().jobs]}"
            jobs.todo.pop(rng.randrange(len(jobs.todo)))[1]()
            core.check()
            await driver.journal.settled()
    return log_state, jobs


def _broke(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("policy", policies.names())
def test_the_live_scheduler_runs_every_job_and_its_log_replays_to_the_same_effects(policy: str, tmp_path: Path) -> None:
    kinds = set()
    for seed in SEEDS:
        log_state, jobs = asyncio.run(live_through(policy, seed, tmp_path / str(seed)))
        rows = log_state.core.snapshot().jobs
        assert [row.state for row in rows] == ["completed"] * JOBS, f"seed {seed}"
        assert sorted(jobs.retired) == sorted(f"{row.job}.1" for row in rows)
        assert not log_state.core.anomalies
        store = Store(tmp_path / str(seed))
        replayed = restore(
            store,
            DaemonConfig(
                NODES, state_dir=tmp_path, policy=policy, parameters=PARAMETERS.get(policy, {}), cores_per_node=CORES
            ),
            1,
        )[0]
        store.close()
        assert replayed.core.snapshot() == log_state.core.snapshot()
        assert replayed.recorder.record() == log_state.recorder.record()
        assert replayed.busy_node_s == log_state.busy_node_s
        kinds |= {order.kind for order in jobs.orders}
    still = policy in ("fcfs", "backfilling", "easy", "easy-compat", "easy-clock-compat", "conservative", "penalty")
    assert kinds == (set() if still else {"workers"} if policy == "sd-policy" else {"grow", "shrink"})


def test_the_log_says_once_that_a_job_is_to_end_and_once_that_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def cancel() -> None:
        jobs = PretendedJobs(random.Random(0))
        async with scheduling("easy", jobs, tmp_path) as (driver, _):
            driver.submissions.submit(JobRequest(name="j", command=(sys.executable,)))
            await driver.journal.settled()
            jobs.todo.pop()[1]()
            driver.submissions.cancel(1)

    with caplog.at_level(logging.INFO):
        asyncio.run(cancel())
    said = [record.getMessage() for record in caplog.records if "end" in record.getMessage()]
    assert said == ["job 1 is to end: cancelled", "job 1 is ended: cancelled"]
