"""A session whose program and whose Slurm are played by the test."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support import PATIENCE_S
from support.played import Job

from apgas.malleability import orders as wire
from scheduler_bridge.backends.slurm import JobInfo, Limits, Session, SessionConfig, Slurm
from scheduler_bridge.backends.slurm.holdings import Words
from scheduler_bridge.backends.slurm.reading import Step
from scheduler_bridge.daemon import JobRequest

HERE = os.uname().nodename
LAUNCHER = f"""#!/bin/sh
echo "${wire.ENV_SCHEDULER} ${wire.ENV_TOKEN}" > "$(dirname "$0")/told.part"
mv "$(dirname "$0")/told.part" "$(dirname "$0")/told"
exec sleep 600
"""


class Played(Slurm):
    """Job 1 has this machine, every further job a node of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.did: list[Words] = []
        self._jobs = iter(range(2, 10))

    def limits(self) -> Limits:
        return Limits((24, 11, 5), "auth/slurm", expansion=False, once=False, json=True)

    def job(self, number: int) -> JobInfo:
        return JobInfo(number, "RUNNING", (HERE if number == 1 else f"n{number}",))

    def steps(self, jobs: tuple[int, ...]) -> tuple[Step, ...]:
        return ()

    def allocate(self, words: Words, wait_s: float) -> int:
        return next(self._jobs)

    def run(self, words: Words) -> None:
        self.did.append(words)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.01)


async def connected(folder: Path) -> Job:
    """The program, which is ready for orders."""
    await until((folder / "told").exists)
    endpoint, token = (folder / "told").read_text(encoding="utf-8").split()
    host, _, port = endpoint.rpartition(":")
    job = Job(*await asyncio.open_connection(host, int(port)))
    await job.say(wire.Hello(version=2, job=1, token=token))
    assert await job.hear() == wire.Welcome(version=2)
    await job.say(wire.Ready(nodes=(HERE,)))
    return job


@pytest.fixture
def slurm() -> Played:
    return Played()


def perform(folder: Path, slurm: Slurm, play: Callable[[Session, Job], Awaitable[None]]) -> None:
    """Run a session while ``play`` does what its program and its users would."""
    launcher = folder / "mpiexec"
    launcher.write_text(LAUNCHER, encoding="utf-8")
    launcher.chmod(0o755)
    request = JobRequest(
        name="played", command=("true",), job_class="malleable", nodes=1, min_nodes=1, max_nodes=8, walltime_s=600.0
    )
    session = Session(SessionConfig(1, request, folder / "state", mpiexec=launcher, grace_s=0.2), slurm)

    async def run() -> None:
        running = asyncio.create_task(session.run())
        job = await connected(folder)
        try:
            await until(lambda: session.snapshot().jobs[0].ready)
            await play(session, job)
        finally:
            await job.hang_up()
            session.request_stop()
            await running

    asyncio.run(run())


async def grown(session: Session, job: Job, node: str) -> None:
    """The program grows onto a node."""
    session.resize(1, 1)
    order = await job.hear()
    assert isinstance(order, wire.Grow)
    assert order.nodes == (node,)
    await job.say(wire.Outcome(order=order.order, kind="grow", outcome="done", nodes=order.nodes))
    await until(lambda: session.snapshot().jobs[0].resizing is None)


def test_a_node_that_is_lost_while_the_program_grows_lets_no_second_order_in(tmp_path: Path, slurm: Played) -> None:
    async def play(session: Session, job: Job) -> None:
        await grown(session, job, "n2")
        session.resize(1, 1)
        order = await job.hear()  # to be answered later
        assert isinstance(order, wire.Grow)
        await job.say(wire.Lost(nodes=("n2",), reason="it is gone", loss=1))
        await until(lambda: ("scancel", "2") in slurm.did and len(session._tasks) == 1)
        with pytest.raises(ValueError, match=r"it is being resized \(grow\)"):
            session.resize(1, 1)
        await job.say(wire.Outcome(order=order.order, kind="grow", outcome="done", nodes=order.nodes))
        await until(lambda: session.snapshot().jobs[0].resizing is None)
        assert session.snapshot().jobs[0].nodes == (HERE, "n3")
        assert session.resize(1, 1) == 1

    perform(tmp_path, slurm, play)
