"""The real runs whose records come with the documentation: every result right, and the simulator near them."""

from __future__ import annotations

import statistics
import tarfile
from itertools import product
from pathlib import Path

import pytest
from support import ROOT

from scheduler_bridge.experiments.real_runs import study
from scheduler_bridge.experiments.study_report import StudyReport

RESULTS = ROOT / "docs" / "results"
WITHIN_PERCENT = 5.0


def extracted(name: str, folder: Path) -> Path:
    with tarfile.open(RESULTS / name / "records.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> StudyReport:
    folder = extracted("real-runs", tmp_path_factory.mktemp("runs"))
    return study.report(folder, *study.planned("small"))


def test_every_job_of_the_real_runs_computed_what_it_should(report: StudyReport) -> None:
    assert report.passed, report.verdict
    assert "every result is right" in report.verdict


def test_the_simulator_is_near_the_real_runs(report: StudyReport) -> None:
    """The means over all runs of a policy; single runs are chaotic."""
    (table,) = (table for table in report.tables if table.name == "fidelity")
    columns = list(table.columns)
    makespans = columns.index("makespan s")
    found: dict[str, list[tuple[float, float]]] = {}
    for row in table.rows:
        measured, simulated = row[makespans], row[makespans + 1]
        assert isinstance(measured, float)
        assert isinstance(simulated, float)
        found.setdefault(str(row[0]), []).append((measured, simulated))
    assert set(found) >= {"fcfs", "backfilling", "easy", "malleable"}
    for policy, pairs in found.items():
        measured_s, simulated_s = (statistics.fmean(values) for values in zip(*pairs, strict=True))
        assert abs(simulated_s / measured_s - 1) * 100 < WITHIN_PERCENT, policy


def test_with_measured_durations_the_simulator_decides_as_the_live_scheduler_did(report: StudyReport) -> None:
    (table,) = (table for table in report.tables if table.name == "repeated")
    assert len(table.rows) >= 78
    others = [str(row[0]) for row in table.rows if row[1] != row[2]]
    # There a job took no orders any more 0.1 s before its record says that it had computed.
    assert others == ["malleable, 100 % malleable, seed 43, resizes as slow as the paper's"]


@pytest.fixture(scope="module")
def own_batches(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> StudyReport:
    """The paper's, under the policies as published; starts are in proportion at this scale, resizes are not."""
    folder = extracted("real-runs-published", tmp_path_factory.mktemp("published"))
    return study.report(folder, *study.planned("small", data_folder, published=True, second_s=0.4))


def rows_of(report: StudyReport, name: str) -> list[dict[str, object]]:
    (table,) = (table for table in report.tables if table.name == name)
    kinds = ("paper, scaled", "difference %")  # of the measure before them
    columns = [column if column not in kinds else f"{table.columns[i - 1 - kinds.index(column)]}: {column}"
               for i, column in enumerate(table.columns)]  # fmt: skip
    return [dict(zip(columns, row, strict=True)) for row in table.rows]


SCALED = ("makespan s", "turnaround s", "wait s", "runtime s")


def test_the_papers_own_rigid_batches_go_here_as_they_went_there(own_batches: StudyReport) -> None:
    assert own_batches.passed, own_batches.verdict
    rows = rows_of(own_batches, "beside")
    assert len(rows) == 4 * 6 * 3
    rigid = [row for row in rows if row["malleable %"] == 0]
    for policy, measure in product(("fcfs", "backfilling", "easy-compat", "malleable-compat"), SCALED):
        mine = [row for row in rigid if row["policy"] == policy]
        here, there = (sum(float(str(row[name])) for row in mine) for name in (measure, f"{measure}: paper, scaled"))
        assert abs(100 * (here / there - 1)) < WITHIN_PERCENT, (policy, measure)
        for row in mine:
            if policy in ("fcfs", "backfilling") or (policy, row["seed"]) == ("easy-compat", 42):
                assert abs(float(str(row[f"{measure}: difference %"]))) < WITHIN_PERCENT, row


def test_malleability_changes_the_papers_own_batches_as_it_did_there(own_batches: StudyReport) -> None:
    """Of the same seeds, not of all ten: three of them need not show what ten do."""
    compared = 0
    for row in rows_of(own_batches, "claims"):
        ours, theirs = row["ours: change %"], row["paper, of these seeds: change %"]
        if isinstance(ours, float) and isinstance(theirs, float) and "per malleable job" not in str(row["claim"]):
            compared += 1
            assert abs(ours - theirs) < WITHIN_PERCENT, row["claim"]
    assert compared == 15
