"""Real jobs that share nodes: two jobs, real processes, under static backfill and under SD-Policy."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from scheduler_bridge.experiments.real_runs.campaign import calibrate
from scheduler_bridge.experiments.real_runs.runner import Runner, run_all
from scheduler_bridge.experiments.sd_real.study import (
    SHARED,
    STATIC,
    SharedCampaign,
    changes,
    conclude,
    is_guest,
    is_mate,
)
from scheduler_bridge.workloads import TraceJob, Workload


def _two_jobs(_seed: int) -> Workload:
    """The first one asks for so long that the second one ends earlier on half of its cores than if it waited."""
    long = TraceJob(job_id=1, submit_s=0.0, runtime_s=4.0, walltime_s=120.0, nodes=2)
    short = TraceJob(job_id=2, submit_s=1.0, runtime_s=0.5, walltime_s=5.0, nodes=2)
    return Workload("two", 2, (long, short))


def test_two_real_jobs_share_their_nodes_under_sd_policy_only(tmp_path: Path) -> None:
    campaign = SharedCampaign((STATIC, SHARED), (100,), (1,), jobs=2, nodes=2, time=1.0, cores=4, draw=_two_jobs)
    runner = Runner(campaign, calibrate(campaign.problems(), tmp_path), tmp_path)
    records = run_all(runner)
    static, shared = (records[key] for key in campaign.runs())
    assert [(job.state, job.verified) for job in (*static.jobs, *shared.jobs)] == [("completed", True)] * 4
    assert [changes(job) for job in static.jobs] == [0, 0]
    long, short = shared.jobs
    assert (is_mate(long), is_guest(long), is_mate(short), is_guest(short)) == (True, False, False, True)
    assert {segment.share for segment in short.segments} >= {0.5}
    assert [segment.share for segment in long.segments][:2] == [1.0, 0.5], "it gave half of its cores"
    overlap_s = min(long.end_s or 0.0, short.end_s or 0.0) - max(long.start_s or 0.0, short.start_s or 0.0)
    assert overlap_s > 0
    report = conclude(campaign, records)
    assert report.passed
    assert "every result is right; 1 job started on nodes of others" in report.verdict
    assert run_all(runner) == records
