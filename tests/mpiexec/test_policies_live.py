"""Every registered policy decides about a small batch of real jobs, and hands the scheduler on to the next one.

One ``malleable serve`` for all of them: that another policy may decide from now on is shown, too.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S, Leftovers, Running, start_job

from scheduler_bridge import policies
from scheduler_bridge.daemon import ControlClient, JobRequest
from scheduler_bridge.record import JobRecord

NODES = 3
PLAIN = {"NUMBA_DISABLE_JIT": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Starts are what costs time here, and the kernel would be compiled or loaded at each."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlClient]:
    """A scheduler for all policies; its nodes have two cores, which jobs may share where the policy lets them."""
    folder = tmp_path_factory.mktemp("policies")
    (folder / "tmp").mkdir()
    state = folder / "state"
    leftovers = Leftovers()
    words = ("serve", "--nodes", str(NODES), "--cores", "2", "--policy", "fcfs", "--state", str(state))
    command = [sys.executable, "-m", "scheduler_bridge.cli", *words]
    with start_job(command, {"TMPDIR": str(folder / "tmp"), **PLAIN}, folder) as daemon:
        daemon.expect("ready", PATIENCE_S)
        yield ControlClient(state, PATIENCE_S)
        _ends(daemon, leftovers)
    assert not list((folder / "tmp").iterdir())


def _ends(daemon: Running, leftovers: Leftovers) -> None:
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.wait(PATIENCE_S).rc == 0
    leftovers.check(daemon.mark)


def _pi(result: Path, low: int, wanted: int, high: int) -> JobRequest:
    """A benchmark whose result is known, held to a rate: 2.5 node-seconds. Rigid if the bounds are one number."""
    options = ("--samples", "1e6", "--rate", "4e5", "--workers", "1", "--quiet", "--json", str(result))
    return JobRequest(
        name=result.stem,
        command=(sys.executable, "-m", "benchmarks.pi", *options),
        job_class="malleable" if low < high else "rigid",
        nodes=wanted,
        min_nodes=low,
        max_nodes=high,
        walltime_s=600.0,
    )


@pytest.mark.parametrize("policy", policies.names())
def test_every_policy_serves_a_small_batch(served: ControlClient, policy: str, tmp_path: Path) -> None:
    served.use(policy)
    jobs: list[int] = []
    try:
        jobs.append(served.submit(_pi(tmp_path / "first.json", 1, 2, NODES)))
        _until(lambda: served.snapshot().job(jobs[0]).ready, "a malleable job can be resized", served)
        jobs.append(served.submit(_pi(tmp_path / "rigid.json", 2, 2, 2)))
        jobs.append(served.submit(_pi(tmp_path / "last.json", 1, 2, NODES)))
        _until(lambda: all(job.end_s is not None for job in served.snapshot().jobs), "all jobs end", served)
        assert served.snapshot().policy == policy
        assert {node.state for node in served.snapshot().nodes} == {"idle"}
        for job in served.record().jobs:
            if job.job_id in jobs:
                _is_right(job, json.loads((tmp_path / f"{job.name}.json").read_text(encoding="utf-8")))
    finally:
        _end_all(served)


def _until(holds: Callable[[], object], what: str, served: ControlClient) -> None:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, f"never happened: {what}\n{served.snapshot()}"
        time.sleep(0.05)


def _is_right(job: JobRecord, found: dict[str, Any]) -> None:
    """It computed what it should, and the scheduler and the job agree about what became of every order."""
    assert job.state == "completed", job
    assert found["verified"] is True, found
    assert (found["grows"], found["shrinks"]) == (job.done("grow"), job.done("shrink")), job
    low, high = job.min_nodes, job.max_nodes
    assert all(low <= len(segment.nodes) <= high for segment in job.segments), job


def _end_all(served: ControlClient) -> None:
    """Leave nothing to the next policy, also where this one did not decide."""
    for job in served.snapshot().jobs:
        if job.end_s is None:
            served.cancel(job.job)
    _until(lambda: all(job.end_s is not None for job in served.snapshot().jobs), "the cancelled jobs end", served)
