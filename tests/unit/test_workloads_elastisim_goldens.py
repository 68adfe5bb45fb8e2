"""Job model and engine against ElastiSim's own results for 58 malleable jobs on 32 nodes."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

import pytest

from scheduler_bridge.core import Settings
from scheduler_bridge.policies import get
from scheduler_bridge.sim import ReplayOptions, parse_speedup, replay
from scheduler_bridge.workloads import Workload, read_elastisim

TICK_S = 60.0


@pytest.fixture(scope="module")
def workload(data_folder: Path) -> Workload:
    return read_elastisim(data_folder / "reference/elastisim-small-golden/jobs.json")


def golden(data_folder: Path, strategy: str) -> dict[int, dict[str, str]]:
    path = data_folder / f"reference/elastisim-small-golden/expected_{strategy}_common_pool.csv"
    with path.open(newline="") as file:
        return {int(row["ID"]): row for row in csv.DictReader(file)}


def test_a_job_that_kept_its_size_takes_what_its_formula_says(workload: Workload, data_folder: Path) -> None:
    exact = 0
    for job in workload.jobs:
        at = parse_speedup(job.speedup)
        runtimes = [job.runtime_s * at(job.nodes) / at(nodes) for nodes in range(job.min_nodes, job.max_nodes + 1)]
        for strategy in ("min", "pref"):
            measured = float(golden(data_folder, strategy)[job.job_id]["Makespan"])
            exact += any(abs(runtime - measured) < max(0.2, 1e-5 * runtime) for runtime in runtimes)
    assert exact >= 20  # the others were resized
    at = parse_speedup(workload.jobs[9].speedup)
    on_two = workload.jobs[9].runtime_s * at(workload.jobs[9].nodes) / at(2)
    assert on_two == pytest.approx(float(golden(data_folder, "min")[9]["Makespan"]), abs=0.2)


def test_min_meets_the_published_turnaround(workload: Workload, data_folder: Path) -> None:
    expected = golden(data_folder, "min")
    options = ReplayOptions(settings=Settings(pass_interval_s=TICK_S))
    records = replay(workload, get("min"), options=options).result.records
    turnaround_s = {number: record.end_s - record.spec.submit_s for number, record in records.items() if record.end_s}
    published_s = {number: float(row["Turnaround Time"]) for number, row in expected.items()}
    assert statistics.fmean(published_s.values()) == pytest.approx(32545.1896, abs=1e-3)
    assert statistics.fmean(turnaround_s.values()) == pytest.approx(32545.1896, rel=0.01)
    assert statistics.median(abs(turnaround_s[job] / published_s[job] - 1) for job in published_s) < 0.01
    last_s = max(float(row["End Time"]) for row in expected.values())
    assert max(record.end_s or 0 for record in records.values()) == pytest.approx(last_s, rel=1e-3)


def test_pref_differs_as_the_published_strategy_does_not_expand_what_it_starts(
    workload: Workload, data_folder: Path
) -> None:
    expected = golden(data_folder, "pref")
    options = ReplayOptions(settings=Settings(pass_interval_s=TICK_S))
    records = replay(workload, get("pref"), options=options).result.records
    mean_s = statistics.fmean(record.end_s - record.spec.submit_s for record in records.values() if record.end_s)
    published_s = statistics.fmean(float(row["Turnaround Time"]) for row in expected.values())
    assert published_s == pytest.approx(31952.3619, abs=1e-3)
    assert mean_s == pytest.approx(published_s, rel=0.08)
    assert records[0].sizes[0][1] == workload.jobs[0].max_nodes
    kept_s = workload.jobs[0].runtime_s
    assert float(expected[0]["Makespan"]) < kept_s  # it began with what it prefers, and grew later
