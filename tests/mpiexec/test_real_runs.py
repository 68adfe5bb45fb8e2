"""The real runs of the paper's batches: a few jobs, real processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support import PATIENCE_S

from scheduler_bridge.daemon import DaemonError
from scheduler_bridge.experiments.real_runs import campaign as campaigns
from scheduler_bridge.experiments.real_runs import runner as runners
from scheduler_bridge.experiments.real_runs.campaign import Campaign, alone_in, arguments, calibrate
from scheduler_bridge.experiments.real_runs.runner import Runner, run_all
from scheduler_bridge.experiments.real_runs.study import conclude
from scheduler_bridge.experiments.sweep import Standing


def test_a_batch_runs_is_verified_and_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaigns, "START_UP_S", 400.0)  # a slow machine may take longer than people would wait
    campaign = Campaign(("malleable",), (100,), (45,), jobs=3, nodes=4, time=0.01)
    runner = Runner(campaign, calibrate(campaign.problems(), tmp_path), tmp_path)
    lines: list[str] = []
    seen: list[Standing] = []
    records = run_all(runner, lines.append, seen.append)
    assert [line.partition(": ")[0] for line in lines] == ["malleable, 100 % malleable, seed 45"]
    assert seen[-2].now == "malleable, 100 % malleable, seed 45: 3 of 3 jobs"
    assert [(each.done, each.cells) for each in seen[-2:]] == [(0, 1), (1, 1)]
    (record,) = records.values()
    assert [(job.state, job.verified) for job in record.jobs] == [("completed", True)] * 3
    assert record.provenance["cpu"]["seconds"] > 0
    assert all(job.ready_s is not None and job.result["startup"] for job in record.jobs if job.result is not None)
    report = conclude(campaign, records, None, {})
    assert report.passed
    assert report.verdict.startswith("Runs: 1, jobs: 3; every result is right.")
    assert run_all(runner) == records


def test_without_pacing_jobs_take_what_they_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "arguments", lambda name, **_: arguments(name))  # the paper's would take an hour here
    campaign = Campaign(("malleable",), (100,), (45,), jobs=2, nodes=2, time=0.5, paced=False)
    records = run_all(Runner(campaign, {}, tmp_path))
    (record,) = records.values()
    assert [(job.state, job.verified) for job in record.jobs] == [("completed", True)] * 2
    assert conclude(campaign, records, None, {}).passed


def test_jobs_that_a_killed_experiment_left_are_ended(tmp_path: Path) -> None:
    code = f"""
import os, sys
from pathlib import Path
from scheduler_bridge.experiments.real_runs.campaign import alone_in, scratch_in, state_of
from scheduler_bridge.daemon import (DaemonThread, DaemonConfig, JobRequest)
folder = Path({str(tmp_path)!r})
with alone_in(folder), scratch_in(folder, 1) as scratch:
    with DaemonThread(DaemonConfig(nodes=("node1",), state_dir=state_of(scratch))) as daemon:
        command = (sys.executable, "-c", "import os; print(os.getpid(), flush=True); import time; time.sleep(600)")
        job = daemon.submit(JobRequest(name="long", command=command, walltime_s=900, launch="direct"))
        output = daemon.output(job)
        while not (output.exists() and output.read_text().strip()):
            pass
        print(output.read_text().strip(), flush=True)
        os.kill(os.getpid(), 9)
"""
    killed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    job = psutil.Process(int(killed.stdout))
    assert job.is_running()
    scratch = Path(json.loads((tmp_path / "running.json").read_text())["scratch"])
    with alone_in(tmp_path):
        assert not job.is_running() or job.status() == psutil.STATUS_ZOMBIE
        assert not scratch.exists()
        with pytest.raises(DaemonError, match="another experiment runs"), alone_in(tmp_path):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
