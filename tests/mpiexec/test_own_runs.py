"""The real runs of the paper's batches: a few jobs, real processes."""

from __future__ import annotations

from pathlib import Path

from scheduler_bridge.experiments.own_runs.experiment import conclude
from scheduler_bridge.experiments.own_runs.plan import Plan, RunKey
from scheduler_bridge.experiments.own_runs.problems import calibrate
from scheduler_bridge.experiments.own_runs.runner import Runner, run_all
from scheduler_bridge.record import RunRecord


class Seen:
    def __init__(self) -> None:
        self.most = 0
        self.ended: list[RunKey] = []

    def goes_on(self, key: RunKey, ended: int, jobs: int) -> None:
        self.most = max(self.most, ended)
        assert jobs == 3

    def done(self, key: RunKey, record: RunRecord) -> None:
        self.ended.append(key)


def test_a_batch_runs_is_verified_and_not_run_again(tmp_path: Path) -> None:
    plan = Plan(("malleable",), (100,), (45,), jobs=3, nodes=4, time=0.01)
    runner = Runner(plan, calibrate(plan.problems(), tmp_path, {}), tmp_path)
    seen = Seen()
    records = run_all(runner, seen)
    assert seen.ended == plan.runs()
    assert seen.most == 3
    (record,) = records.values()
    assert [(job.state, job.verified) for job in record.jobs] == [("completed", True)] * 3
    assert record.provenance["cpu"]["seconds"] > 0
    outcome = conclude(plan, records, None, "")
    assert outcome.passed
    assert outcome.verdict.startswith("1 batches, 3 jobs: every result is right.")
    assert run_all(runner) == records
