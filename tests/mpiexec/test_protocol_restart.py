"""Jobs of other makers over the death of the scheduler: the documented client, and a v1 job behind its gate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from support import PATIENCE_S, ROOT
from support.daemons import assert_nothing_left

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
