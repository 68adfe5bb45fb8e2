"""A daemon and its jobs' processes, for tests: played with inside an event loop, and nothing may be left after it."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from scheduler_bridge.daemon import ControlClient, ControlError, Daemon, DaemonConfig, JobRequest
from scheduler_bridge.daemon.storage.restore import read_run
from support.mpi import PATIENCE_S
from support.processes import carrying

FAKE = str(Path(__file__).with_name("fake_job.py"))
BIRTHMARK = "BRIDGE_TEST"
"""In the environment of every process that a test's daemon starts."""


def rigid(nodes: int, *command: str) -> JobRequest:
    return JobRequest(name="rigid", command=command, nodes=nodes)


def perform(config: DaemonConfig, play: Callable[[Daemon], Awaitable[None]]) -> Daemon:
    daemon = Daemon(config)

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), daemon:
            await play(daemon)

    asyncio.run(run())
    assert_nothing_left(config)
    return daemon


def assert_nothing_left(config: DaemonConfig, scratch: Path | None = None, mark: str | None = None) -> None:
    """See that a daemon has left nothing; its files and processes are found by those of the test, unless given."""
    names = {entry.name for entry in config.state_dir.iterdir()}
    assert not names & {"control.sock", "endpoint.json", "lock", "runs", "secret", "scheduler.db-wal"}
    assert not jobs_processes(mark)
    assert not list((scratch or Path(tempfile.gettempdir())).iterdir())


def jobs_processes(mark: str | None = None) -> list[int]:
    return carrying(f"{BIRTHMARK}={mark or os.environ[BIRTHMARK]}")


def reported(state: Path) -> list[dict[str, Any]]:
    """The jobs of the scheduler's last run, as `malleable report --json` prints them: without a process for each look,
    which would take the core that the jobs need."""
    try:
        record = ControlClient(state, PATIENCE_S).record()
    except ControlError:  # it has ended
        record = read_run(state)
    jobs: list[dict[str, Any]] = json.loads(msgspec.json.encode(record.jobs))
    return jobs


async def until(daemon: Daemon, holds: Callable[[], bool]) -> None:
    while not holds():
        await daemon.changed()


def replace_request(request: JobRequest, **fields: object) -> JobRequest:
    return msgspec.structs.replace(request, **fields)
