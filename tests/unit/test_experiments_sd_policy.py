"""The 2019 paper's experiment: roles, categories and days by hand, claims, and the whole at a small scale."""

from __future__ import annotations

import csv
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from scheduler_bridge.cli.app import run as malleable
from scheduler_bridge.experiments.sd_policy.cells import (
    COLUMNS,
    CURIE_FILE,
    LIMITS,
    STATIC,
    Jobs,
    Trace,
    cells,
    named,
    replayed,
    roles,
    simulated,
    traces,
)
from scheduler_bridge.experiments.sd_policy.study import (
    CLAIMS,
    Category,
    Day,
    Gains,
    Limits,
    categories,
    days,
    draw_changes,
    judged,
    printed,
    run,
)
from scheduler_bridge.experiments.sweep import Cell, Row, Sweeping
from scheduler_bridge.model import JobSpec
from scheduler_bridge.sim import SimRecord
from scheduler_bridge.workloads import TraceJob, Workload

HOUR_S = 3600.0


def _two_jobs(_seed: int) -> Workload:
    """A long job on the only node, and a short one that comes when it has just begun."""
    long = TraceJob(job_id=1, submit_s=0.0, runtime_s=1000.0, walltime_s=1000.0, nodes=1)
    short = TraceJob(job_id=2, submit_s=100.0, runtime_s=50.0, walltime_s=100.0, nodes=1)
    return Workload("two", 1, (long, short))


TWO = Trace("two", 1, "two jobs", 4, _two_jobs)


def test_two_jobs_share_a_node_by_hand() -> None:
    """The short one takes half of the cores from 100 s to 200 s: the long one loses 50 s."""
    jobs, _ = replayed(TWO, "inf", 1)
    assert (jobs.wait_s.tolist(), jobs.runtime_s.tolist()) == ([0, 0], [1050, 100])
    assert (jobs.guest.tolist(), jobs.mate.tolist()) == ([0, 1], [1, 0])
    found = simulated({"two": TWO}, Cell("two", "inf", 100, 1))
    assert found["slowdown"] == pytest.approx((1.05 + 2) / 2)
    assert found["response_s"] == pytest.approx((1050 + 100) / 2)
    assert (found["makespan_s"], found["guests"], found["mates"], found["killed"]) == (1050, 50, 50, 0)
    assert set(found) == set(COLUMNS)


def test_nobody_shares_under_static_backfill() -> None:
    found = simulated({"two": TWO}, Cell("two", STATIC, 0, 1))
    assert (found["guests"], found["mates"], found["makespan_s"]) == (0, 0, 1050)
    assert found["slowdown"] == pytest.approx((1 + (900 + 50) / 50) / 2)


def test_the_worst_model_needs_another_mate_that_ends_early() -> None:
    """A job on two nodes gets all cores of one of them back early: only by the ideal model is that worth anything."""

    def made(_seed: int) -> Workload:
        rows = ((1, 0.0, 150.0, 1000.0, 1), (2, 0.0, 1000.0, 1000.0, 1), (3, 100.0, 200.0, 200.0, 2))
        return Workload("three", 2, tuple(TraceJob(i, at, runs, asks, nodes) for i, at, runs, asks, nodes in rows))

    trace = Trace("three", 1, "three jobs", 4, made)
    ideal, worst = (replayed(trace, named("inf", model), 1)[0] for model in ("ideal", "worst"))
    assert worst.runtime_s[2] == pytest.approx(400)
    assert ideal.runtime_s[2] < 400


def test_who_is_guest_and_who_mate() -> None:
    spec = JobSpec(
        job_id=1, name="a", user="u", job_class="malleable", nodes=1, min_nodes=1, max_nodes=1, walltime_s=9, submit_s=0
    )
    for shares, expected in (
        ([], (False, False)),
        ([(5.0, 0.5)], (True, False)),
        ([(5.0, 0.5), (7.0, 1.0)], (True, False)),
        ([(7.0, 0.5), (8.0, 1.0)], (False, True)),
        ([(5.0, 0.5), (7.0, 1.0), (8.0, 0.5)], (True, True)),
    ):
        assert roles(SimRecord(spec, start_s=5.0, shares=tuple(shares))) == expected, shares


def _jobs(submit_s: list[float], nodes: list[float], static_s: list[float], wait_s: list[float]) -> Jobs:
    columns = (submit_s, nodes, static_s, wait_s, static_s, [1.0] * len(nodes), [0.0] * len(nodes))
    return Jobs(*(np.array(column, dtype=np.float64) for column in columns))


def test_categories_and_days_by_hand() -> None:
    submit_s, nodes, static_s = [0.0, 10.0, 90_000.0, 90_001.0], [1.0, 1.0, 600.0, 5.0], [100.0, 300.0, 13 * HOUR_S, 60]
    static = _jobs(submit_s, nodes, static_s, [100.0, 900.0, 0.0, 60.0])
    shared = _jobs(submit_s, nodes, static_s, [0.0, 300.0, 0.0, 0.0])
    small, middle, large = categories(static, shared)
    assert (small.size, small.hours, small.jobs, small.is_small, small.counts) == (0, 0, 2, True, False)
    assert small.slowdown == pytest.approx((2 + 4) / (1 + 2))
    assert small.wait == pytest.approx(1000 / 300)
    assert small.runtime == 1
    assert (middle.wait, middle.slowdown) == (math.inf, 2)
    assert (large.size, large.hours, large.wait, large.is_small) == (6, 4, None, False)
    assert days(static, shared) == (Day(0, 3, 1.5, 2, 2), Day(1, 1.5, 1, 2, 2))


def _printed_rows(traces_there: list[Trace]) -> list[Row]:
    """Simulations that found what is printed, as far as the paper is at one with itself."""
    slowdown = {
        1: {"5": 0.9, "10": 0.8, "50": 0.7, "inf": 0.505, "dynamic": 0.6},
        2: {"5": 0.9, "10": 0.71, "50": 0.8, "inf": 0.75, "dynamic": 0.69},
        3: {"5": 0.9, "10": 0.85, "50": 0.8, "inf": 0.743, "dynamic": 0.8},
        4: {"5": 0.5, "10": 0.296, "50": 0.3, "inf": 0.31, "dynamic": 0.32},
        5: dict.fromkeys(LIMITS, 0.84),
    }
    worst = {1: (1.16, 1.11, 1.0), 2: (1, 1, 1), 3: (1.035, 1.015, 1.09), 4: (1.01, 1.01, 1), 5: (1, 1, 1)}
    rows = []
    for trace in traces_there:
        table = CLAIMS["printed"][str(trace.paper)]
        rest = {"energy_kwh": 1000.0, "guests": 10.3, "mates": 8.6}
        static = {**dict.fromkeys(COLUMNS), **rest, **table}
        rows.append(Row(Cell(trace.name, STATIC, 0, 1), static))
        for limit, factor in slowdown[trace.paper].items():
            response, makespan, energy = {4: (0.5, 1, 1), 5: (0.84, 0.93, 0.94)}.get(trace.paper, (0.8, 1, 1))
            found = static | {
                "slowdown": factor * table["slowdown"],
                "response_s": response * table["response_s"],
                "makespan_s": makespan * table["makespan_s"],
                "energy_kwh": 1000.0 * energy,
                "guests": 26.95 if trace.paper == 5 else 10.3,
            }
            rows.append(Row(Cell(trace.name, limit, 100, 1), found))
        by_model = dict(zip(("slowdown", "response_s", "makespan_s"), worst[trace.paper], strict=True))
        dynamic = rows[-1].figures
        changed = {name: (dynamic[name] or 0) * by for name, by in by_model.items()}
        rows.append(Row(Cell(trace.name, "dynamic worst", 100, 1), {**dynamic, **changed}))
    return rows


def _gains(trace: Trace) -> Gains:
    small = [Category(0, hours, 100, ratio, 2.0, 0.9) for hours, ratio in enumerate((5.69, 3.0, 2.0))]
    large = [Category(6, 5, 100, 1.2, 1.5, 0.95), Category(7, 5, 3, 0.5, 0.5, 0.5)]
    many = tuple(Day(number, 100.0, 120.0 if number == 0 else 50.0, 10, 100) for number in range(20))
    return Gains(trace, (*small, *large), many)


def _all_five(tmp_path: Path) -> list[Trace]:
    (tmp_path / CURIE_FILE).parent.mkdir()
    (tmp_path / CURIE_FILE).touch()
    return traces("full", tmp_path)


def test_what_is_printed_fulfils_the_claims(tmp_path: Path) -> None:
    five = _all_five(tmp_path)
    verdicts = judged(Limits(_printed_rows(five)), five, _gains(five[3]))
    assert len(verdicts) >= 12
    assert {verdict.text: verdict.found for verdict in verdicts if verdict.word != "held"} == {}


def test_claims_differ_where_sharing_does_harm(tmp_path: Path) -> None:
    five = _all_five(tmp_path)
    rows = [
        Row(row.cell, {**row.figures, "slowdown": 9e3, "guests": 60.0, "mates": 0.0}) if row.cell.share else row
        for row in _printed_rows(five)
    ]
    worse = tuple(Day(number, 1.0, 2.0, 1, 1) for number in range(3))
    category = Category(0, 0, 100, 0.5, 0.5, 0.9)
    verdicts = judged(Limits(rows), five, Gains(five[3], (category, Category(6, 5, 100, 0.6, 1.0, 1.0)), worse))
    words = {verdict.text: verdict.word for verdict in verdicts}
    for text in (
        "workload 1: slowdown is reduced by up to 49.5 %",
        "whatever the limit, slowdown is below that of static backfill",
        "workload 4: 8.6 % of the jobs are mates (10)",
        "workload 4: jobs of up to 4 h and 512 nodes gain most, in slowdown up to 569 %",
        "workload 4: slowdown is better in nearly all categories, also of larger and longer jobs",
        "workload 4: jobs that run longer for being malleable wait less instead, in every category",
        "workload 4: apart from a first spike, slowdown is on no day above that of static backfill",
        "workload 2: the dynamic limit is best",
    ):
        assert words[text] == "differs", text
    assert all(verdict.reason for verdict in verdicts if verdict.word == "differs")


def test_claims_on_workloads_that_are_not_there_are_not_judged() -> None:
    verdicts = judged(Limits([]), traces("small", None), None)
    assert {(verdict.word, verdict.found) for verdict in verdicts} == {("not judged", "-")}


def test_what_is_not_drawn_is_simulated_once(tmp_path: Path) -> None:
    five = _all_five(tmp_path)
    found = cells(five, (1, 2), "full")
    assert len(found) == len(set(found)) == 2 * 4 * 11 + 11
    assert sum(cell.trace == "curie" for cell in found) == 11
    assert len(cells(five, (1,), "small")) == 5 * 7


def test_the_sample_of_curie_is_cut_to_the_primary_partition(data_folder: Path) -> None:
    (curie,) = (trace for trace in traces("full", data_folder) if trace.paper == 4)
    workload = curie.make(1)
    assert (len(workload), workload.nodes, workload.jobs[0].submit_s) == (18_368, 5040, 0.0)
    assert max(job.nodes for job in workload.jobs) <= 5040


def test_the_experiment_at_small_scale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MALLEABLE_DATA", raising=False)
    assert malleable(["experiment", "sd-policy", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "Workload 4 is left out" in said
    assert "SD-Policy" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert {"limits.png", "models.png", "map-cirne.png", "days.csv"} <= {path.name for path in tmp_path.iterdir()}
    with (tmp_path / "means.csv").open(encoding="utf-8", newline="") as stream:
        rows = {(row["workload"], row["limit"]): row for row in csv.DictReader(stream)}
    assert len(rows) == 4 * 7
    assert all(row["killed"] == "0.0" for row in rows.values())
    slowdowns = [float(row["slowdown"]) for (label, _), row in rows.items() if label.startswith("Cirne-Berman form, s")]
    assert max(slowdowns) == slowdowns[0], "static backfill is worst"


def test_the_same_rows_again_need_no_simulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workloads = [TWO, Trace("two-exact", 2, "two jobs again", 4, partial(_two_jobs))]
    monkeypatch.setattr("scheduler_bridge.experiments.sd_policy.study.traces", lambda *_: workloads)
    first = run(None, Sweeping("small", tmp_path))
    monkeypatch.setattr("scheduler_bridge.experiments.sd_policy.study.simulated", lambda *_: pytest.fail("again"))
    assert run(None, Sweeping("small", tmp_path)).tables == first.tables


def test_printed_changes_stand_at_the_bars_that_they_are_of() -> None:
    limits = {"static": 100.0, "5": 70.0, "10": 60.0, "50": 80.0, "inf": 90.0, "dynamic": 80.0}
    rows = [
        Row(Cell("two", policy, 100, 1), {**dict.fromkeys(COLUMNS), "slowdown": of}) for policy, of in limits.items()
    ]
    found = printed(Limits(rows), TWO, "slowdown")
    assert found == {"10": pytest.approx(-49.5), "dynamic worst": pytest.approx(100 * (0.8 * 1.16 - 1))}


@pytest.mark.parametrize(
    ("slowdown", "said"),
    [
        (90.0, "Sharing nodes shortens slowdowns on all 1 workloads; makespan and energy change by 2 % at most"),
        (
            110.0,
            "Sharing nodes shortens slowdowns on 0 of 1 workloads, not on two; makespan and energy change by 2 %",
        ),
    ],
)
def test_the_title_says_what_is_in_the_rows(slowdown: float, said: str) -> None:
    figures = {"slowdown": 100.0, "response_s": 10.0, "makespan_s": 100.0, "energy_kwh": 50.0}
    rows = [Row(Cell("two", "static", 0, 1), {**dict.fromkeys(COLUMNS), **figures})]
    for limit in LIMITS:
        changed = {**figures, "slowdown": slowdown, "makespan_s": 98.0}
        rows.append(Row(Cell("two", limit, 100, 1), {**dict.fromkeys(COLUMNS), **changed}))
    assert draw_changes(Limits(rows), [TWO], {limit: limit for limit in LIMITS}, "MAX_SLOWDOWN").alt.startswith(said)
