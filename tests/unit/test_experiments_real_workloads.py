"""The 2025 paper's experiment: figures of a simulation by hand, claims, and the whole at a tiny scale."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from scheduler_bridge.cli.app import run as malleable
from scheduler_bridge.experiments.real_workloads import cells
from scheduler_bridge.experiments.real_workloads.cells import (
    COLUMNS,
    Trace,
    cells_of,
    figures_of,
    simulated,
    timeline,
)
from scheduler_bridge.experiments.real_workloads.study import CLAIMS, Shares, _beside, judged, printed, run
from scheduler_bridge.experiments.study import change
from scheduler_bridge.experiments.study_report import write_report
from scheduler_bridge.experiments.sweep import Cell, Row, Sweeping, default_form
from scheduler_bridge.model import JobSpec
from scheduler_bridge.sim import SimRecord
from scheduler_bridge.workloads import TraceJob, Workload

JOBS = tuple(TraceJob(number, submit, 100.0, 125.0, 4) for number, submit in ((1, 0.0), (2, 10.0), (3, 20.0)))
FOUR = Trace("four", "haswell", "Four nodes", lambda: Workload("four", 4, JOBS), 5.0)


def test_figures_count_the_jobs_after_the_warm_up_that_end_before_the_last_submission() -> None:
    last = TraceJob(4, 320.0, 100.0, 125.0, 4)
    four = replace(FOUR, make=lambda: Workload("four", 4, (*JOBS, last)))
    found = simulated({"four": four}, Cell("four", "easy", 0, 0))
    assert (found["jobs"], found["malleable_jobs"], found["killed"]) == (2, 0, 0)
    assert (found["wait_s"], found["runtime_s"], found["turnaround_s"]) == pytest.approx((135, 100, 235))
    assert (found["wait_s_q25"], found["wait_s_q75"]) == pytest.approx((112.5, 157.5))
    assert found["utilization"] == pytest.approx(100 * 295 / 315)
    assert (found["rigid_wait_s"], found["rigid_turnaround_s"]) == pytest.approx((135, 235))
    assert found["expands"] is found["malleable_wait_s"] is None
    assert set(found) == set(COLUMNS)


@pytest.mark.parametrize(
    ("part", "jobs", "policy", "counts"),
    [
        ("knl", 41_524, "easy", 34_905),
        ("knl", 41_524, "easy-clock-compat", 34_908),
        ("haswell", 28_243, "easy", 26_431),
        ("haswell", 28_243, "easy-clock-compat", 26_431),
    ],
)
def test_the_logs_of_cori_stand_for_its_parts(
    data_folder: Path, part: str, jobs: int, policy: str, counts: int
) -> None:
    (trace,) = (trace for trace in cells.traces("full", data_folder) if trace.paper == part)
    workload = trace.make()
    assert (len(workload), workload.synthetic, trace.warmup_s) == (jobs, False, 12 * 3600)
    found = simulated({trace.name: trace}, Cell(trace.name, policy, 0, 0))
    assert found["jobs"] == counts
    if (part, policy) == ("knl", "easy-clock-compat"):
        assert found["turnaround_s"] == pytest.approx(CLAIMS["rigid"]["knl"]["turnaround_s"], abs=2)


def test_at_small_scale_logs_are_cut_and_what_is_not_there_is_left_out(data_folder: Path, tmp_path: Path) -> None:
    found = cells.traces("small", data_folder)
    assert [(trace.name, trace.paper) for trace in found] == [
        ("theta", "theta"),
        ("cori-haswell-5000", "haswell"),
        ("cori-knl-12000", "knl"),
        ("eagle-twin-4000", "eagle"),
    ]
    assert [len(trace.make()) for trace in found] == [1617, 5000, 12_000, 4000]
    assert cells.left_out(trace.name for trace in found) is None
    (tmp_path / "traces").mkdir()
    (tmp_path / cells.CORI_FILES["knl"]).touch()
    names = [trace.name for trace in cells.traces("full", tmp_path)]
    assert names == ["cori-knl", "eagle-twin"]
    assert str(cells.left_out(names)).endswith(": Theta, Cori Haswell.")


def test_nobody_is_killed_on_fewer_nodes_than_it_asked_for() -> None:
    jobs = tuple(
        TraceJob(n, 0.0, 100.0, 100.0, 64, min_nodes=1, max_nodes=64, job_class="malleable", speedup="amdahl:0.99")
        for n in (1, 2)
    )
    last = TraceJob(3, 10_000.0, 100.0, 100.0, 64)  # what runs beyond the last submission does not count
    trace = Trace("two", "haswell", "Two", lambda: Workload("two", 64, (*jobs, last)), 0.0)
    found = simulated({trace.name: trace}, Cell("two", "min", 0, 0))
    assert (found["jobs"], found["killed"]) == (2, 0)
    assert (found["runtime_s"] or 0) > 100


def test_resizes_count_over_malleable_jobs_and_over_those_that_have_any() -> None:
    spec = JobSpec(1, "", "", "malleable", 2, 1, 4, 100.0, 0.0)
    counts = ((0, 0), (2, 0), (4, 9))
    found = figures_of([SimRecord(spec, 0.0, 50.0, grows=up, shrinks=down) for up, down in counts])
    assert (found["expands"], found["shrinks"]) == (2, 3)
    assert (found["expands_of_expanded"], found["shrinks_of_shrunk"]) == (3, 9)
    assert figures_of([SimRecord(spec, 0.0, 50.0)])["shrinks_of_shrunk"] is None


def test_the_machine_over_time() -> None:
    points = timeline(FOUR, points=7)
    assert [round(time_s) for time_s, *_ in points] == [0, 50, 100, 150, 200, 250, 300]
    assert [queue for *_, queue in points] == [0, 2, 1, 1, 0, 0, 0]
    assert [used for _, used, _ in points[:-1]] == [100] * 6


def test_an_interrupted_plan_has_the_first_seed_first_and_once_what_no_seed_changes() -> None:
    wanted = cells_of((50, 100), (1, 2), [FOUR])
    assert wanted[:2] == [Cell("four", "easy", 0, 0), Cell("four", "easy-clock-compat", 0, 0)]
    assert len(wanted) == len(set(wanted)) == 2 + 3 * 5
    assert [cell.seed for cell in wanted[2:]] == [1] * 10 + [2] * 5
    assert {cell.share for cell in wanted if cell.seed == 2} == {50}


def _row(policy: str, share: int, seed: int = 1, **figures: float) -> Row:
    return Row(Cell("four", policy, share, seed), {**dict.fromkeys(COLUMNS), **figures})


def test_means_are_over_seeds_and_the_best_is_found() -> None:
    means = Shares(
        [
            _row("easy", 0, wait_s=100.0),
            _row("min", 60, 1, wait_s=40.0, utilization=70.0),
            _row("min", 60, 2, wait_s=60.0, utilization=80.0),
            _row("avg", 100, wait_s=80.0, utilization=90.0),
        ]
    )
    assert means.choose("four", "best", "any", "wait_s") == ("min", 60, 50.0)
    assert means.choose("four", "best", "any", "utilization") == ("avg", 100, 90.0)
    assert means.choose("four", "best", "100", "wait_s") == ("avg", 100, 80.0)
    assert means.choose("four", "pref", "any", "wait_s") is None
    assert means.choose("four", "worst", "any", "wait_s") == ("avg", 100, 80.0)
    assert means.choose("four", "worst", "any", "utilization") == ("min", 60, 75.0)
    assert change(means.rigid("four", "wait_s"), 50.0) == -50
    assert change(0.0, 50.0) is None


def test_claims_are_of_all_workloads_and_judged_with_a_reason() -> None:
    claims = CLAIMS["claim"]
    assert len(claims) >= 20
    assert {claim["workload"] for claim in claims} == {"theta", "haswell", "knl", "eagle"}
    waits = {"min": 4.0, "avg": 5.0, "pref": 6.0, "keep-pref": 7.0}
    rows = [_row(name, 100, wait_s=wait, turnaround_s=900.0, expands=1.0) for name, wait in waits.items()]
    means = Shares([_row("easy", 0, wait_s=400.0, turnaround_s=1500.0), *rows])
    verdicts = {verdict.text: verdict for verdict in judged(means, [FOUR])}
    assert verdicts["wait falls by up to 99.71 %"].word == "held"
    assert verdicts["the best strategy waits less than 10 s from 40 % malleable on"].word == "held"
    far = verdicts["turnaround falls from 2,391 to 792 s"]
    assert (far.word, far.reason) == ("right direction", "rigid turnaround is 1,500, printed 2,391")
    assert verdicts["utilization rises from 72.33 to 98.73 %"].word == "not judged"
    assert verdicts["keep-pref expands most often"].word == "not judged"  # all are equal
    alone = Shares([_row("easy", 0, wait_s=4.0), *rows])
    text = "the best strategy waits less than 10 s from 40 % malleable on"
    assert {verdict.text: verdict for verdict in judged(alone, [FOUR])}[text].word == "not judged"


def _on(name: str, policy: str, share: int, **figures: float) -> Row:
    return Row(Cell(name, policy, share, 1), {**dict.fromkeys(COLUMNS), **figures})


def test_both_forms_of_theta_count_once_and_orders_are_of_all_strategies() -> None:
    forms = [Trace(name, "theta", label, FOUR.make, 5.0) for name, label in (("real", "Real"), ("drawn", "Drawn"))]
    runtimes = {"keep-pref": 84.0, "pref": 101.0, "min": 102.0, "avg": 160.0}
    rows = [_on(trace.name, "easy", 0, turnaround_s=100.0, runtime_s=100.0) for trace in forms]
    rows += [_on("real", name, 100, runtime_s=at, turnaround_s=64.0) for name, at in runtimes.items()]
    rows += [_on("drawn", name, 100, runtime_s=at - 2.0, turnaround_s=57.0) for name, at in runtimes.items()]
    rows += [_on(trace.name, "pref", 60, turnaround_s=at) for trace, at in zip(forms, (101.0, 106.0), strict=True)]
    found = judged(Shares(rows), forms)
    verdicts = {verdict.text: verdict for verdict in found}
    assert len(found) == len(verdicts)
    turnaround = verdicts["turnaround falls by up to 36.91 %"]
    assert turnaround.found == "-36.0 % (keep-pref, 100 %); -43.0 % (keep-pref, 100 %)"
    assert (turnaround.word, turnaround.where) == ("right direction", ("3.4, Fig. 9g", "Real; Drawn"))
    # on the drawn form, pref shortens runtimes by 1 %, too
    assert verdicts["only keep-pref shortens runtimes"].word == "differs"
    only = {verdict.text: verdict for verdict in judged(Shares(rows), forms[:1])}["only keep-pref shortens runtimes"]
    assert (only.word, only.found) == ("held", "keep-pref -16.0 %, pref +1.0 %, min +2.0 %, avg +60.0 %")


def test_what_rises_slightly_rises_at_all_shares_and_by_little() -> None:
    trace = Trace("real", "theta", "Real", FOUR.make, 5.0)
    text = "pref turns jobs around slightly later from 60 % on"

    def word(*turnarounds: float) -> str:
        rows = [_on("real", "easy", 0, turnaround_s=100.0), _on("real", "pref", 40, turnaround_s=50.0)]
        rows += [_on("real", "pref", share, turnaround_s=at) for share, at in zip((60, 80), turnarounds, strict=True)]
        return {verdict.text: verdict.word for verdict in judged(Shares(rows), [trace])}[text]

    assert [word(*both) for both in ((101.0, 104.0), (101.0, 106.0), (101.0, 99.0))] == ["held", "differs", "differs"]


def _claims_on_resizes(paper: str, counts: dict[str, tuple[float, float]], **further: float) -> dict[str, str]:
    """The verdicts where each strategy expands and shrinks a job so often, at both shares."""
    trace = Trace("real", paper, "Real", FOUR.make, 5.0)
    rows = [_on("real", "easy", 0, turnaround_s=100.0)]
    for share in (20, 100):
        rows += [_on("real", name, share, expands=up, shrinks=down, **further) for name, (up, down) in counts.items()]
    return {verdict.text: verdict.word for verdict in judged(Shares(rows), [trace])}


def test_resizes_are_judged_by_their_number_and_their_order() -> None:
    printed = {"keep-pref": (11.5, 25.0), "pref": (2.0, 24.0), "min": (3.0, 26.0), "avg": (5.2, 25.5)}
    words = _claims_on_resizes("haswell", printed)
    texts = (
        "keep-pref expands a job over 11 times",
        "avg expands a job about 5 times",
        "all strategies shrink a job about 25 times at 20 % malleable",
        "Haswell: pref resizes least, consistently",
    )
    assert [words[text] for text in texts] == ["held"] * 4
    words = _claims_on_resizes("haswell", printed | {"keep-pref": (6.0, 25.0), "avg": (2.0, 25.0), "pref": (2.0, 30.0)})
    assert [words[text] for text in texts] == ["right direction", "differs", "right direction", "differs"]
    text = "keep-pref and avg expand jobs more than twice as often as the others"
    assert _claims_on_resizes("knl", printed)[text] == "differs"  # min's 3 are more than half of avg's 5.2
    assert _claims_on_resizes("knl", printed | {"min": (2.5, 26.0)})[text] == "held"
    text = "keep-pref shrinks jobs about 50 % less often than the others"
    assert _claims_on_resizes("theta", printed)[text] == "differs"
    assert _claims_on_resizes("theta", printed | {"keep-pref": (6.0, 12.0)})[text] == "held"


def test_pref_has_to_resize_least_at_every_share() -> None:
    trace = Trace("real", "haswell", "Real", FOUR.make, 5.0)
    rows = [_on("real", name, 20, expands=1.0 + (name != "pref"), shrinks=1.0) for name in cells.STRATEGIES]
    rows += [_on("real", name, 100, expands=1.0 + (name == "pref"), shrinks=1.0) for name in cells.STRATEGIES]
    least = {verdict.text: verdict for verdict in judged(Shares(rows), [trace])}
    verdict = least["Haswell: pref resizes least, consistently"]
    assert verdict.word == "differs"
    assert str(verdict.found).startswith("at 1 of 2 shares; at 20 %: pref 2.0, ")
    rows.append(_on("real", "keep-pref", 20, shrinks=1.0, shrinks_of_shrunk=24.0))
    at_20 = {verdict.text: verdict for verdict in judged(Shares(rows), [trace])}[
        "all strategies shrink a job about 25 times at 20 % malleable"
    ]
    assert at_20.word == "differs"
    assert at_20.reason.endswith("over those alone that have any: keep-pref 24.0 shrinks")


def test_most_of_the_gain_comes_early_or_late() -> None:
    trace = Trace("real", "knl", "Real", FOUR.make, 5.0)
    text = "KNL: gains are substantial even at 20 % malleable, most of what turnaround gains"

    def judged_on(at_20: float, at_100: float) -> tuple[str, object, object]:
        rows = [_on("real", "easy", 0, turnaround_s=100.0), _on("real", "min", 20, turnaround_s=at_20)]
        rows.append(_on("real", "avg", 100, turnaround_s=at_100))
        rows.append(_on("real", "easy-clock-compat", 0, turnaround_s=80.0))
        verdict, published = (
            {verdict.text: verdict for verdict in judged(Shares(rows), [trace], easy)}[text]
            for easy in ("easy", "easy-clock-compat")
        )
        assert verdict.beside == published.beside == (published.found,)
        return verdict.word, verdict.found, published.found

    assert judged_on(60.0, 40.0) == ("held", "67 % (-40.0 of -60.0 %)", "50 % (-25.0 of -50.0 %)")
    assert judged_on(80.0, 40.0) == ("differs", "33 % (-20.0 of -60.0 %)", "-0 % (+0.0 of -50.0 %)")
    assert judged_on(110.0, 105.0) == ("not judged", "-", "-")


def test_changes_are_shown_from_the_correct_and_from_the_published_baseline() -> None:
    rows = [_row("easy", 0, turnaround_s=200.0), _row("easy-clock-compat", 0, turnaround_s=400.0)]
    means = Shares([*rows, *(_row(name, 100, turnaround_s=100.0) for name in ("min", "avg", "pref", "keep-pref"))])
    verdicts = {verdict.text: verdict for verdict in judged(means, [FOUR])}
    turnaround = verdicts["turnaround falls from 2,391 to 792 s"]
    assert (turnaround.found, turnaround.beside) == ("-50.0 % (keep-pref, 100 %)", ("-75.0 % (keep-pref, 100 %)",))
    assert turnaround.word == "right direction"  # -66.87 % is printed; the change from the correct baseline is judged
    assert verdicts["keep-pref expands most often"].beside == (None,)
    table = _beside(means, [FOUR])
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert (row["rigid"], row["published EASY"]) == (200, 400)
    assert (row["change %"], row["from the published %"], row["paper's %"]) == (-50, -75, -66.87)


def test_an_outcome_from_a_folder_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cells.SMALL_JOBS, "eagle", 60)
    monkeypatch.setitem(cells.SHARES, "small", (100,))
    how = Sweeping("small", tmp_path)
    report = run(None, how)
    monkeypatch.setattr(
        "scheduler_bridge.experiments.real_workloads.study.simulated", lambda *_: pytest.fail("simulated again")
    )
    again = run(None, how)
    assert again.tables == report.tables
    assert {path.suffix for path in write_report(report, tmp_path, reproduce="again")} == {
        ".csv",
        ".png",
        ".html",
        ".json",
    }
    assert "(synthetic)" in (tmp_path / "report.html").read_text()
    assert any("Theta, Cori Haswell, Cori KNL" in remark for remark in report.remarks)


def test_the_command_goes_on_and_explains_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(cells.SMALL_JOBS, "eagle", 40)
    monkeypatch.setitem(cells.SHARES, "small", (100,))
    monkeypatch.delenv("MALLEABLE_DATA", raising=False)
    out = tmp_path / "out"
    assert malleable(["experiment", "real-workloads", "--out", str(out), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result["tables"]) == {"beside-the-paper", "claims", "workloads", "means"}
    assert {path.name for path in out.glob("cells-*")} == {f"cells-small.{default_form()}"}
    (out / f"cells-small.{default_form()}").unlink()
    (out / "cells-small.csv").write_text("other,columns\n")
    assert malleable(["experiment", "real-workloads", "--out", str(out)]) == 2
    assert "another sweep" in capsys.readouterr().err
    assert malleable(["experiment", "real-workloads", "--scale", "tiny"]) == 2
    assert "no scale tiny" in capsys.readouterr().err


def test_printed_means_stand_at_the_bars_that_they_are_of() -> None:
    rigid = Row(Cell("four", "easy", 0, 0), {**dict.fromkeys(COLUMNS), "turnaround_s": 100.0, "runtime_s": 50.0})
    means = Shares([rigid, *(_row(name, 100, turnaround_s=at, runtime_s=at) for name, at in (("min", 4), ("avg", 3)))])
    found = printed(means, "four", "haswell", "turnaround_s")
    assert found == {("easy", 0): 2391.0, ("avg", 100): pytest.approx(792.0, abs=1)}
    assert printed(means, "four", "haswell", "runtime_s") == {("avg", 100): pytest.approx(50 * 0.3468)}
    resized = Shares([_row("easy", 0, shrinks=1.0), _row("keep-pref", 100, shrinks=1.0)])
    assert printed(resized, "four", "theta", "shrinks") == {}, "what is printed is less than under other strategies"
