"""The experiment on all policies: intervals, comparisons and tables by hand, and the whole at a tiny scale."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from scheduler_bridge import policies
from scheduler_bridge.cli.app import run as malleable
from scheduler_bridge.experiments.ours import cells, study
from scheduler_bridge.experiments.ours.cells import COLUMNS, OTHERS, OWN, WITHOUT, Trace, simulated, without
from scheduler_bridge.experiments.ours.study import Results, against, best, estimate, run, which
from scheduler_bridge.experiments.study_report import write_report
from scheduler_bridge.experiments.sweep import Cell, Row, Sweeping
from scheduler_bridge.workloads import TraceJob, Workload

HERE = ("here", 50)


def _row(policy: str, seed: int, turnaround_s: float, wait_s: float = 0.0, utilization: float = 50.0) -> Row:
    figures = dict.fromkeys(COLUMNS, 1.0)
    figures |= {"all_turnaround_s": turnaround_s, "all_wait_s": wait_s, "utilization": utilization}
    return Row(Cell("here", policy, 50, seed), figures)


def test_all_policies_are_compared_but_those_with_a_published_program_s_faults() -> None:
    assert {*OTHERS, OWN} == {name for name in policies.names() if not name.endswith("-compat")}


def test_an_interval_needs_two_seeds_and_is_the_same_every_time() -> None:
    assert (estimate((3.0,)).low, estimate((3.0,)).value) == (None, 3.0)
    found = estimate((1.0, 2.0, 3.0, 6.0))
    assert found.value == 3.0
    assert found.low is not None
    assert found.high is not None
    assert 1.0 <= found.low < 3.0 < found.high <= 6.0
    assert found == estimate.__wrapped__((1.0, 2.0, 3.0, 6.0))


def test_ratios_are_by_seed_and_a_minute_is_added_to_waits() -> None:
    results = Results([_row("a", 1, 200.0, 0.0), _row("b", 1, 100.0, 60.0), _row("a", 2, 400.0), _row("b", 2, 50.0)])
    ratio = results.ratio([HERE], "a", "b", "all_turnaround_s")
    assert ratio is not None
    assert ratio.value == pytest.approx(4.0)  # of 2 and 8
    assert ratio.low == pytest.approx(2.0)
    assert ratio.high == pytest.approx(8.0)
    wait = results.ratio([HERE], "a", "b", "all_wait_s")
    assert wait is not None
    assert wait.value == pytest.approx(math.sqrt(0.5))  # of 60 / 120 and 60 / 60
    assert results.ratio([HERE], "a", "c", "all_wait_s") is None


@pytest.mark.parametrize(
    ("turnaround_s", "wait_s", "utilization", "standing"),
    [
        (90.0, 100.0, 50.0, "better"),
        (90.0, 100.0, 49.5, "better"),
        (90.0, 100.0, 48.0, "mixed"),  # it leaves nodes idle
        (90.0, 110.0, 50.0, "mixed"),
        (100.2, 100.0, 50.0, "alike"),
        (110.0, 100.0, 70.0, "worse"),
    ],
)
def test_better_is_on_wait_and_turnaround_at_equal_utilization(
    turnaround_s: float, wait_s: float, utilization: float, standing: str
) -> None:
    rows = [_row("other", 1, turnaround_s, wait_s, utilization), _row(OWN, 1, 100.0, 100.0)]
    assert Results(rows).standing([HERE], "other", OWN) == standing


def test_who_is_not_known_to_be_worse_is_named_beside_the_best() -> None:
    rows = [_row("min", seed, value) for seed, value in ((1, 100.0), (2, 200.0))]
    rows += [_row("avg", seed, value) for seed, value in ((1, 90.0), (2, 230.0))]
    rows += [_row("easy", seed, value) for seed, value in ((1, 150.0), (2, 300.0))]
    results = Results(rows)
    assert best(results, HERE, "all_turnaround_s") == ["min", "avg"]
    assert which(results, {"here": "Here"}).rows[0][:2] == ("Here", 50)
    assert str(which(results, {"here": "Here"}).rows[0][2]).startswith("min: 150 (100 to 200); also avg")


def _tiny(seed: int, share: int) -> Workload:
    jobs = [
        TraceJob(
            n,
            60.0 * n,
            100.0 * (1 + (n + seed) % 4),
            200.0 * (1 + (n + seed) % 4),
            2,
            min_nodes=1 if n % 2 else 2,
            max_nodes=4 if n % 2 else 2,
            job_class="malleable" if n % 2 else "rigid",
        )
        for n in range(12)
    ]
    return Workload(f"tiny {share}", 4, tuple(jobs), synthetic=True)


TINY = Trace("tiny", "Tiny (synthetic)", _tiny, whole=True)


def test_figures_of_a_simulation_are_split_by_rigid_and_malleable_jobs() -> None:
    found = simulated({"tiny": TINY}, Cell("tiny", "best-use", 50, 1))
    assert set(found) == set(COLUMNS)
    assert found["jobs"] == 12
    assert found["all_turnaround_s"] == pytest.approx(
        ((found["rigid_turnaround_s"] or 0) + (found["malleable_turnaround_s"] or 0)) / 2
    )
    assert found["resizes"]
    assert simulated({"tiny": TINY}, Cell("tiny", without("none of these"), 50, 1)) != found


def test_an_outcome_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    how = Sweeping("small", tmp_path)
    monkeypatch.setattr(study, "traces", lambda *_: [TINY])
    report = run(None, how)
    names = [table.name for table in report.tables]
    assert names == ["which-policy", "against", "ablation", "means"]
    assert len(report.tables[1].rows) == len(OTHERS)
    assert len(report.tables[2].rows) == len(WITHOUT)
    assert any("Theta, Cori Haswell, Cori KNL" in remark for remark in report.remarks)
    assert {path.suffix for path in write_report(report, tmp_path, reproduce="again")} == {
        ".csv",
        ".png",
        ".html",
        ".json",
    }
    monkeypatch.setattr(study, "simulated", lambda *_: pytest.fail("again"))
    assert run(None, how).tables == report.tables


def test_logs_are_among_the_workloads_where_they_are_at_hand(data_folder: Path) -> None:
    found = {trace.name: trace for trace in cells.traces("small", data_folder)}
    assert len(found["cori-knl-400"].make(1, 50)) == 400
    assert (found["cori-knl-400"].tuned, found["theta"].tuned) == (False, True)
    found = {trace.name: trace for trace in cells.traces("full", data_folder)}
    assert len(found["cori-knl"].make(1, 50)) == 41_524
    assert [trace.name for trace in cells.traces("small", None)][:2] == ["eagle-twin", "ricc-twin"]


def test_a_policy_that_is_better_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [_row(name, seed, 90.0 if name == "avg" else 100.0) for seed in (1, 2) for name in (*OTHERS, OWN)]
    rows += [_row(without(what), seed, 100.0) for seed in (1, 2) for what in WITHOUT]
    results = Results(rows)
    monkeypatch.setattr(study, "traces", lambda *_: [Trace("here", "Here", partial(_tiny))])
    monkeypatch.setattr(Sweeping, "rows", lambda *_: rows)
    report = run(None, Sweeping("full"))
    assert report.verdict.startswith("Over all workloads, avg is better than best-use")
    assert "avg on here at 50 % is" in report.verdict
    assert not report.passed
    found = {row[0]: row for row in against(results, tuned={"here"}).rows}
    assert (found["avg"][1], found["avg"][6], found["avg"][8]) == ("1.11 (1.11 to 1.11)", "-", "better")
    assert found["min"][6:9] == ("-", "-", "alike")


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(cells.SIZES, "small", dict.fromkeys(cells.SIZES["small"], 20))
    assert malleable(["experiment", "ours", "--places", "1", "--out", str(tmp_path)]) == 0
    assert "Over all workloads" in capsys.readouterr().out
    assert (tmp_path / "ablation.png").exists()
