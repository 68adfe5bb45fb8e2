"""Jobs of other makers over the death of the scheduler: the documented client, and a v1 job behind its gate."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest
from support import PATIENCE_S, ROOT
from support.daemons import assert_nothing_left

from apgas.malleability import orders as wire
from apgas.malleability.communicator import from_environment
from scheduler_bridge.core.events import Outcome
from scheduler_bridge.daemon import ControlClient, DaemonConfig, JobRequest, Snapshot

CLIENT = str(ROOT / "docs" / "examples" / "protocol_client.py")
V1_JOB = str(Path(__file__).with_name("v1_job.py"))


class Schedulers:
    """Those that serve a state folder, one after the other."""

    def __init__(self, config: DaemonConfig) -> None:
        self.config = config
        self.client = ControlClient(config.state_dir, timeout_s=PATIENCE_S)
        self._process: subprocess.Popen[str] | None = None

    def serve(self) -> str:
        """Start one; return where its page is."""
        command = [sys.executable, "-m", "scheduler_bridge.cli", "serve", "--state", str(self.config.state_dir)]
        self._process = subprocess.Popen(
            [*command, "--node-names", ",".join(self.config.nodes), "--quiet", "--web", "0"],
            stdout=subprocess.PIPE, text=True, env={**_environment(), "TMPDIR": tempfile.gettempdir()},
        )  # fmt: skip
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip().rpartition("page ")[2]

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def end(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.communicate(timeout=PATIENCE_S)

    def until(self, job: int, **fields: object) -> Snapshot:
        """Wait until the job's status has these."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            snapshot = self.client.snapshot()
            status = snapshot.job(job)
            if all(getattr(status, name) == value for name, value in fields.items()):
                return snapshot
            assert status.state not in get_args(Outcome), self._errors(job)
            assert time.monotonic() < deadline, snapshot
            time.sleep(0.02)

    def _errors(self, job: int) -> str:
        return (self.config.state_dir / f"job-{job}.err").read_text()


def _environment() -> dict[str, str]:
    return dict(os.environ)


@pytest.fixture
def schedulers(config: DaemonConfig) -> Iterator[Schedulers]:
    made = Schedulers(config)
    yield made
    made.end()
    assert_nothing_left(config)


@pytest.mark.parametrize(
    ("command", "protocol"),
    [
        ((sys.executable, "-I", CLIENT, "{hosts}", "1000000000"), "v2"),
        ((sys.executable, "-I", V1_JOB, "{v1_scheduler_ip}", "{v1_port}", "well", "{hosts}"), "v1"),
    ],
)
def test_it_is_resized_by_the_next_scheduler(schedulers: Schedulers, command: tuple[str, ...], protocol: str) -> None:
    schedulers.serve()
    job = schedulers.client.submit(
        JobRequest(
            name="survivor",
            command=command,
            job_class="malleable",
            nodes=3,
            min_nodes=1,
            max_nodes=3,
            protocol="v1" if protocol == "v1" else "v2",
        )
    )
    schedulers.until(job, ready=True)
    schedulers.kill()
    page = schedulers.serve()
    schedulers.until(job, state="running", ready=True)
    other = schedulers.client.submit(JobRequest(name="other", command=("/bin/sleep", "1000"), nodes=2))
    snapshot = schedulers.until(other, state="running")
    assert (snapshot.job(job).shrinks, len(snapshot.job(job).nodes)) == (1, 1)
    with urllib.request.urlopen(f"{page}state.json", timeout=PATIENCE_S) as answer:
        described = json.load(answer)["jobs"][str(job)]
    assert [len(part[2]) > 0 for part in described["segments"]] == [True, True], "also what was before"
    (resize,) = described["resizes"]
    assert resize["outcome"] == "done"
    assert "other" in resize["why"] or f"job {other}" in resize["why"], "the policy's reason"


class Orders:
    """What a job is ordered and answered, for a test to take."""

    def __init__(self) -> None:
        self.heard: queue.Queue[wire.ToJob] = queue.Queue()
        self.order = self.withdraw = self.answer = self.heard.put

    def next(self) -> wire.ToJob:
        return self.heard.get(timeout=PATIENCE_S)

    def scheduler_lost(self, reason: str) -> None:
        raise AssertionError(reason)


def test_the_next_scheduler_minds_no_outcome_that_it_knows(
    schedulers: Schedulers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A job that reconnects says its last outcomes again, for they may have been lost."""
    schedulers.serve()
    variables = tmp_path / "variables"
    command = ("/bin/sh", "-c", f"env > {variables}.new; mv {variables}.new {variables}; exec sleep 1000")
    request = JobRequest(
        name="played", command=command, job_class="malleable", nodes=3, min_nodes=1, max_nodes=3, launch="direct"
    )
    job = schedulers.client.submit(request)
    schedulers.until(job, state="running")
    deadline = time.monotonic() + PATIENCE_S
    while not variables.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    lines = [line for line in variables.read_text(encoding="utf-8").splitlines() if "=" in line]
    communicator = from_environment(dict(line.split("=", 1) for line in lines))
    assert communicator is not None
    orders = Orders()
    with closing(communicator):
        communicator.start(orders)
        communicator.send(wire.Ready(schedulers.client.snapshot().job(job).nodes))
        schedulers.client.submit(JobRequest(name="other", command=("/bin/sleep", "1000"), nodes=2))
        shrink = orders.next()
        assert isinstance(shrink, wire.Shrink)
        communicator.send(wire.Outcome(order=shrink.order, kind="shrink", outcome="done", nodes=shrink.nodes))
        schedulers.until(job, shrinks=1)
        schedulers.kill()
        schedulers.serve()
        communicator.send(wire.Evolving(request=1, delta=1))
        assert isinstance(orders.next(), wire.Answer)
        assert not caplog.messages
        communicator.send(wire.Outcome(order=99, kind="shrink", outcome="done", nodes=shrink.nodes))
        communicator.send(wire.Evolving(request=2, delta=1))
        assert isinstance(orders.next(), wire.Answer)
        assert caplog.messages == ["the scheduler refused a message: order 99 is not open"]
