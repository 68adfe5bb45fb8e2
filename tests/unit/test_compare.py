"""`malleable compare`: which simulations there are, paired differences, what goes on, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from scheduler_bridge import Workload, policies, simulate
from scheduler_bridge.cli.app import run
from scheduler_bridge.experiments import comparison
from scheduler_bridge.experiments.comparison import Comparison, Estimate, Results, figures_of, t_quantile
from scheduler_bridge.experiments.sweep import Cell, Row
from scheduler_bridge.report.looks import MINUS
from scheduler_bridge.sim import replay
from scheduler_bridge.workloads import shake, write_swf


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "w.swf"
    write_swf(Workload.generate("lublin", seed=3, jobs=40, nodes=16, load=1.2), path)
    return path


def compared(trace: Path, out: Path, *options: str) -> int:
    words = ["compare", "--workload", str(trace), "--out", str(out), "--jobs", "1"]
    return run([*words, *options])


def rows_of(out: Path) -> pd.DataFrame:
    return pd.read_parquet(out / "simulations.parquet")


def test_the_table_fits_a_terminal_of_80_columns(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--policies", "easy,best-use patience=0,malleable-compat", "--malleable", "0,0.5", "--seeds", "3")
    assert compared(trace, tmp_path, *options) == 0
    table = capsys.readouterr().out.partition("\n\n- ")[0].splitlines()
    assert max(map(len, table)) <= 80, table
    text = " ".join(" ".join(table).split())
    assert " ± " in text
    for name in ("easy", "best-use", "patience=0", "malleable-compat", "50 %"):
        assert name in text
    rows = rows_of(tmp_path)
    waits = rows[rows.share == 50].pivot_table(index="seed", columns="policy", values="wait_s")
    apart = (waits["malleable-compat"] - waits["easy"]).mean()
    assert f"{waits['malleable-compat'].mean():,.0f}" in text
    assert f"{apart:+,.0f} ±".replace("-", MINUS) in text


# The command ----------------------------------------------------------------------------------------------------------


def test_all_are_simulated_once(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "out"
    options = ("--policies", "easy,min,best-use patience=0", "--malleable", "0,0.5", "--seeds", "3")
    assert compared(trace, out, *options, "--json") == 0
    rows = rows_of(out)
    assert rows.groupby(["share", "policy"]).seed.apply(list).to_dict() == {
        (share, policy): seeds
        for share, seeds in ((0, [1]), (50, [1, 2, 3]))
        for policy in ("easy", "min", "best-use patience=0")
    }
    assert {path.name for path in out.iterdir()} == {
        "comparison.csv", "comparison.png", "report.html", "results.json", "simulations.parquet"
    }  # fmt: skip
    workload = Workload.from_swf(trace)
    for share, policy, seed in ((0, "easy", 1), (50, "min", 2)):
        figures = simulate(workload, policy, malleable=share / 100, seed=seed).metrics
        row = rows[(rows.share == share) & (rows.policy == policy) & (rows.seed == seed)].iloc[0]
        assert (row.wait_s, row.turnaround_s) == (figures["mean_wait_s"], figures["mean_turnaround_s"])
        assert row.utilization == 100 * (figures["utilization"] or 0)
    table = json.loads(capsys.readouterr().out)["tables"]["comparison"]
    mean = rows[(rows.share == 50) & (rows.policy == "min")].wait_s.mean()
    line = next(line for line in table if (line["malleable %"], line["policy"]) == (50, "min"))
    assert line["wait, s"] == pytest.approx(mean, abs=0.1)
    page = (out / "report.html").read_text()
    assert "<svg" in page
    assert "wait against easy" in page


def test_more_of_the_same_goes_on(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compared(trace, tmp_path, "--policies", "easy,min", "--malleable", "0.5", "--seeds", "2") == 0
    simulated: list[int] = []

    def watched(done: Any, nodes: int) -> Any:
        simulated.append(nodes)
        return figures_of(done, nodes)

    monkeypatch.setattr(comparison, "figures_of", watched)
    assert compared(trace, tmp_path, "--policies", "easy,min,avg", "--malleable", "0.5", "--seeds", "3") == 0
    assert len(simulated) == 9 - 4
    assert len(rows_of(tmp_path)) == 9


@pytest.mark.parametrize("other", [("--cost", "measured"), ("--nodes", "32"), ("--shake", "5")])
def test_another_comparison_is_not_mixed_in(
    other: tuple[str, str], trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--policies", "easy,fcfs", "--seeds", "1")
    assert compared(trace, tmp_path, *words) == 0
    before = rows_of(tmp_path)
    capsys.readouterr()
    assert compared(trace, tmp_path, *words, *other) == 2
    assert "simulations.parquet has a comparison of w " in "".join(capsys.readouterr().err.splitlines())
    assert rows_of(tmp_path).equals(before)


def test_shaken_submissions_give_intervals_at_any_share(trace: Path, tmp_path: Path) -> None:
    assert compared(trace, tmp_path, "--policies", "easy,fcfs", "--shake", "60", "--seeds", "2") == 0
    rows = rows_of(tmp_path)
    assert rows.groupby("policy").wait_s.nunique().to_dict() == {"easy": 2, "fcfs": 2}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--policies", "easy"), "a comparison takes at least two"),
        (("--policies", "easy,"), "a comparison takes at least two"),
        (("--policies", "easy,easy"), "easy is there twice"),
        (("--policies", "easy,esay"), "no policy 'esay'"),
        (("--policies", "easy,best-use patient=1"), "'patient=1' is no parameter of best-use"),
        (("--malleable", "half"), "'half' is no number"),
        (("--malleable", "0,2"), "shares are from 0 to 1"),
        (("--malleable", "nan"), "shares are from 0 to 1"),
        (("--malleable", "0.125"), "in whole percent"),
        (("--malleable", "0.5,.5"), ".5 is there twice"),
        (("--seeds", "0"), "0 is not in the range"),
        (("--shake", "inf"), "not finite"),
        (("--cost", "free"), "free"),
        (("--rule", "none"), "no such rule"),
        (("--warmup", "9999"), "nothing is left to look at"),
        (("--reservation", "99@1h+1h"), "--reservation 99@1h+1h"),
        (("--load", "none.py"), "none.py"),
    ],
)
def test_bad_input_is_refused_before_any_work(
    options: tuple[str, ...], says: str, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = options if "--policies" in options else ("--policies", "easy,min", *options)
    assert compared(trace, tmp_path / "out", *given) in (1, 2)
    assert says in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_a_file_is_no_folder(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(trace, trace, "--policies", "easy,min") == 2
    assert "this is a file" in capsys.readouterr().err


# Estimates ------------------------------------------------------------------------------------------------------------


def row(share: int, policy: str, seed: int, **figures: float | None) -> Row:
    found: dict[str, float | None] = {**dict.fromkeys(comparison.COLUMNS, 1.0), "unfinished": 0.0}
    return Row(Cell("w", policy, share, seed), {**found, **figures})


def test_differences_are_paired() -> None:
    waits = {1: (100.0, 90.0), 2: (1000.0, 980.0), 3: (10.0, None)}
    rows = [
        row(0, name, seed, wait_s=wait)
        for seed, both in waits.items()
        for name, wait in zip(("a", "b"), both, strict=True)
    ]
    results = Results(rows)
    apart = results.difference(0, "b", "a", "wait_s")
    assert apart is not None
    assert apart.mean == -15  # of seeds that both have: 10 and 20 less, though the means differ by much more
    assert apart.reach == pytest.approx(12.706 * math.sqrt(50) / math.sqrt(2))
    assert apart.shown(0) == f"{MINUS}15 ± 64"
    assert Estimate.of([2.5]) == Estimate(2.5, None)
    assert Estimate.of([]) is None


@pytest.mark.parametrize("freedom", [1, 2, 9, 30, 31, 100, 1000])
def test_quantiles_leave_a_fortieth_above(freedom: int) -> None:
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    steps, end = 20_000, t_quantile(freedom)
    points = [end * (step + 0.5) / steps for step in range(steps)]
    inside = sum(scale * (1 + x * x / freedom) ** (-(freedom + 1) / 2) for x in points) * end / steps
    assert inside == pytest.approx(0.475, abs=1e-4)


def test_a_verdict_says_what_may_be_chance() -> None:
    rows = [row(0, "a", seed, turnaround_s=100.0 + seed) for seed in (1, 2, 3)]
    sure = [row(0, "b", seed, turnaround_s=80.0 + seed) for seed in (1, 2, 3)]
    luck = [row(0, "b", seed, turnaround_s=100.0 - 40 * (seed == 1)) for seed in (1, 2, 3)]
    asked = Comparison("w", "w", ("a", "b"), {0: (1, 2, 3)})
    assert asked.report([*rows, *sure]).verdict == "Lowest mean turnaround: 0 % malleable: b, 20 % less than a."
    assert asked.report([*rows, *luck]).verdict.endswith("15 % less than a, which may be chance.")


def test_a_policy_that_leaves_jobs_waiting_is_not_the_best() -> None:
    rows = [row(0, "a", 1, turnaround_s=100.0), row(0, "b", 1, turnaround_s=1.0, unfinished=7.0)]
    asked = Comparison("w", "w", ("a", "b"), {0: (1,)})
    found = asked.report(rows)
    assert found.verdict == "Lowest mean turnaround: 0 % malleable: a."
    assert found.remarks[0].startswith("WARNING: never ended, 0 % malleable, b: 7 jobs; ")
    none = [row(0, name, 1, turnaround_s=None, unfinished=9.0) for name in ("a", "b")]
    assert asked.report(none).verdict == "Under no policy did all jobs end."


def test_steps_of_use_have_the_mean_of_all() -> None:
    workload = Workload.generate("lublin", seed=1, jobs=60, nodes=32, load=0.8)
    done = replay(workload, policies.get("easy"))
    figures = figures_of(done, 32)
    steps = [figures[column] or 0.0 for column in comparison.COLUMNS if column.startswith("busy_")]
    assert sum(steps) / len(steps) == pytest.approx(figures["utilization"])
    assert 0 <= min(steps) <= max(steps) <= 100 + 1e-6
    assert (figures["slowdown_p0"] or 0) >= 1
    assert set(figures) == set(comparison.COLUMNS)


def test_jobs_are_shaken_by_little() -> None:
    workload = Workload.generate("lublin", seed=1, jobs=60, nodes=32, load=0.8)
    shaken = shake(workload, 60, seed=1)
    assert shaken == shake(workload, 60, seed=1) != shake(workload, 60, seed=2)
    before = {job.job_id: job.submit_s for job in workload.jobs}
    moved = [job.submit_s - before[job.job_id] for job in shaken.jobs]
    assert 20 < max(moved) <= 60
    assert -60 <= min(moved) < -20
    assert [job.submit_s for job in shaken.jobs] == sorted(job.submit_s for job in shaken.jobs)
    with pytest.raises(ValueError, match="by_s is -1"):
        shake(workload, -1, 1)
