"""The MEBF paper's experiment: which simulations there are, figures by hand, claims, and the whole at a tiny scale."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from scheduler_bridge.cli.app import run as malleable
from scheduler_bridge.experiments.mebf import cells, study
from scheduler_bridge.experiments.mebf.cells import (
    COLUMNS,
    EXPANDS,
    backfills,
    column,
    simulated,
    utilizations,
    variant,
)
from scheduler_bridge.experiments.mebf.study import CLAIMS, EVENTS, PRINTED, Twins, judged, run
from scheduler_bridge.experiments.study import several
from scheduler_bridge.experiments.sweep import Cell, Row, Sweeping
from scheduler_bridge.model import JobSpec
from scheduler_bridge.sim import SimRecord
from scheduler_bridge.sim.jobs import Sizes

MS = variant("1k", "intensive", "medium")


def _row(trace: str, policy: str, turnaround_s: float, share: int = 100) -> Row:
    return Row(Cell(trace, policy, share, 1), {**dict.fromkeys(COLUMNS), "turnaround_s": turnaround_s})


def test_every_claim_is_of_workloads_that_are_simulated() -> None:
    known = {(cell.trace, cell.policy, cell.share) for cell in cells.cells((1,))}
    assert len(known) == len(cells.cells((1,)))
    claims = CLAIMS["claim"]
    assert len(claims) >= 20
    for claim in claims:
        axes = {axis: several(claim[axis]) for axis in ("workload", "policy", "share")}
        others = {axis: several(claim["than"].get(axis, values)) for axis, values in axes.items()}
        about = {*itertools.product(*axes.values()), *itertools.product(*others.values())}
        assert {one for one in about if one[1] != "easy"} <= known, claim["text"]


def test_who_starts_before_an_earlier_one_is_backfilled() -> None:
    def record(job_id: int, submit_s: float, start_s: float) -> SimRecord:
        spec = JobSpec(
            job_id=job_id, name="job", user="ann", job_class="rigid", nodes=1, min_nodes=1, max_nodes=1,
            walltime_s=10.0, submit_s=submit_s,
        )  # fmt: skip
        return SimRecord(spec, start_s, start_s + 1, "completed")

    assert backfills([record(3, 2.0, 5.0), record(1, 0.0, 0.0), record(2, 1.0, 9.0), record(4, 3.0, 9.0)]) == 1


def test_a_wrong_model_makes_malleable_jobs_slower_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cells._JOBS, "1k", 200)
    right, wrong = (
        simulated(Cell(variant("1k", "intensive", "medium", error=error), "handoff", 100, 1)) for error in (False, True)
    )
    assert right["expands"]
    assert (wrong["runtime_s"] or 0) > (right["runtime_s"] or 0)
    easy = simulated(Cell("1k intensive", "easy", 0, 1))
    assert easy["expands"] == easy["shrinks"] == 0
    assert easy["slowdown"] == pytest.approx((easy["turnaround_s"] or 0) / (easy["runtime_s"] or 1))


def test_overheads_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cells._JOBS, "5k", 150)
    full, half = (
        simulated(Cell(variant("5k", "normal", "high", overhead), "intensive", 100, 2)) for overhead in ("full", "half")
    )
    assert full["turnaround_s"] != half["turnaround_s"]


def test_claims_are_judged_by_gains_against_easy() -> None:
    rows = [_row("1k intensive", "easy", 1000.0, 0)]
    rows += [_row(MS, name, value) for name, value in (("handoff", 700.0), ("spare", 650.0), ("intensive", 600.0))]
    rows += [_row("5k intensive", "easy", 1000.0, 0), _row(MS, "handoff", 1010.0, 40)]
    verdicts = {verdict.text: verdict for verdict in judged(Twins(rows))}
    assert verdicts["1K intensive, medium: Intensive improves by 42 %"].word == "held"
    assert verdicts["1K intensive, medium: Intensive is best"].word == "held"
    little = verdicts["40 % malleable: little is gained, 2.1 %"]
    assert (little.found, little.word) == ("+1.0 %", "held")
    assert verdicts["5K intensive, low: Spare is best"].word == "not judged"
    worse = [_row(name, "shrink+", 720.0) for name in (MS, MS.replace("1k", "5k"))]
    verdicts = {v.text: v for v in judged(Twins([*rows, *worse, _row(MS.replace("1k", "5k"), "handoff", 600.0)]))}
    assert verdicts["shrink+ gains as much as the basic policy"].found == "+2.9 %, +20.0 %"
    assert verdicts["shrink+ gains as much as the basic policy"].word == "differs"
    assert verdicts["shrink+ gains as much as the basic policy"].reason.startswith("not known")


def test_utilization_by_steps_of_four_hours() -> None:
    # 4 nodes. Job 1: 2 nodes from hour 3 to 9, 4 from then to hour 12; job 2: 1 node, an hour, and its last instant is
    # where the next step begins. Of 16 node-hours: 2 x 1 + 1 x 1; 2 x 4; 2 x 1 + 4 x 3; nothing.
    def record(job_id: int, start_h: float, end_h: float, sizes: list[tuple[float, int]]) -> SimRecord:
        spec = JobSpec(job_id, "job", "ann", "malleable", 2, 1, 4, 1e6, 0.0)
        return SimRecord(spec, 3600 * start_h, 3600 * end_h, sizes=Sizes((3600 * at, nodes) for at, nodes in sizes))

    found = utilizations([record(1, 3, 12, [(3, 2), (9, 4)]), record(2, 3, 4, [(3, 1)])], 4)
    assert [found[column(hour)] for hour in (0, 4, 8, 12)] == [pytest.approx(100 * n / 16) for n in (3, 8, 14, 0)]


def test_quantities_of_claims() -> None:
    figures: dict[str, float | None] = dict.fromkeys(COLUMNS)
    figures |= {column(hour): float(hour) for hour in (0, 4, 8, 12)}
    figures |= {"shrinks": 30.0, "expands": 60.0, "backfills": 10.0, "expands_1_to_1": 15.0, "expands_2_to_4": 45.0}
    means = Twins([Row(Cell(MS, "spare", 100, 1), figures)])
    of = {"workload": MS, "policy": "spare", "share": 100}
    assert means.find({**of, "hours": [4, 12]}) == 6.0
    assert means.find({**of, "hours": [12, 20]}) is None
    assert means.find({**of, "part": "shrinks + backfills"}) == 40.0
    assert means.find({**of, "part": "expands_2_to_4"}) == 75.0
    assert means.find({**of, "measure": "shrinks"}) == 30.0


USED = {"measure": "utilization"}
NEAR = {"of": "distance", "among": EXPANDS, "measure": "utilization"}
PARTS = {"axis": "part", "among": list(EVENTS), "highest": True, "form": "{:.1f} %"}


@pytest.mark.parametrize(
    ("rule", "claim", "found", "word"),
    [
        ("more", {"measure": "wait_s", "policy": "spare", "than": {"policy": "handoff"}}, "+50.0 %", "held"),
        ("more", {**USED, "policy": ["spare"], "than": {"policy": ["handoff"]}}, "-1.0 points", "differs"),
        ("more", {**USED, "policy": ["handoff", "spare"], "than": {"policy": ["intensive"]}}, "+1.0 ", "held"),
        ("more", {"policy": ["spare"], "than": {"policy": ["shrink+"]}}, "-", "not judged"),
        ("level", {"measure": "utilization", "printed": 97.0}, "98.0 to 100.0 %", "held"),
        ("level", {"measure": "utilization", "printed": 96.0}, "98.0 to 100.0 %", "differs"),
        ("alike", {"measure": "utilization"}, "+2.0 %", "held"),
        ("alike", {"measure": "wait_s"}, "+50.0 %", "differs"),
        ("first", {**NEAR, "policy": "spare", "than": {"policy": "expand+"}}, "spare 0.2 ", "held"),
        ("first", {**NEAR, "policy": "handoff", "than": {"policy": "expand+"}}, "spare ", "differs"),
        ("first", {**PARTS, "policy": "spare", "part": "expands"}, "expands 75.0 %, shrinks 25.0 %", "held"),
        ("first", {**PARTS, "policy": "spare", "part": "shrinks"}, "expands 75.0 %, shrinks 25.0 %", "differs"),
    ],
)
def test_verdicts_by_rule(
    rule: str, claim: dict[str, object], found: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = []
    found_of = {"handoff": (100.0, 100.0), "spare": (150.0, 99.0), "intensive": (150.0, 98.0), "expand+": (99.0, 98.8)}
    for policy, (wait_s, used) in found_of.items():
        figures: dict[str, float | None] = dict.fromkeys(COLUMNS)
        figures |= {"wait_s": wait_s, "utilization": used, "shrinks": 10.0, "expands": 30.0, "backfills": 0.0}
        rows.append(Row(Cell(MS, policy, 100, 1), figures))
    usual = {"policy": list(EXPANDS), "share": 100, "measure": "turnaround_s", "than": {"policy": "easy"}}
    only = {"claim": [{**usual, "rule": rule, "text": "a claim", "workload": MS, **claim}]}
    monkeypatch.setattr("scheduler_bridge.experiments.mebf.study.CLAIMS", only)
    (verdict,) = judged(Twins(rows))
    assert str(verdict.found).startswith(found)
    assert verdict.word == word


def test_an_outcome_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    how = Sweeping("small", tmp_path)
    monkeypatch.setattr(cells, "_JOBS", {"1k": 40, "5k": 40})
    report = run(None, how)
    assert len(report.tables[1].rows) == 75
    assert all(verdict != "not judged" for *_, verdict, _ in report.tables[0].rows)
    monkeypatch.setattr("scheduler_bridge.experiments.mebf.study.simulated", lambda *_: pytest.fail("again"))
    assert run(None, how).tables == report.tables


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cells, "_JOBS", {"1k": 30, "5k": 60})
    assert malleable(["experiment", "mebf", "--out", str(tmp_path)]) == 0
    assert "claims of the paper" in capsys.readouterr().out
    assert {path.stem for path in tmp_path.glob("*.png")} == {
        "turnaround",
        "slowdown",
        "utilization",
        "over-time",
        "events",
    }


def test_figures_show_printed_gains_from_our_easy_and_how_events_divide() -> None:
    rows = [_row("1k intensive", "easy", 1000.0, 0)]
    events = {"turnaround_s": 900.0, "shrinks": 1.0, "expands": 2.0, "backfills": 1.0}
    rows.append(Row(Cell(MS, "intensive", 100, 1), {**dict.fromkeys(COLUMNS), **events}))
    means = Twins(rows)
    assert PRINTED[MS, "intensive", 100, "turnaround_s"] == -42.0
    assert (MS, "spare", 100, "turnaround_s") not in PRINTED
    kinds = ("shrinks", "expands", "backfills")
    assert means.parts(MS, "intensive", kinds) == {"shrinks": 25.0, "expands": 50.0, "backfills": 25.0}
    assert means.parts(MS, "spare", kinds) == dict.fromkeys(kinds)
    pictures = {name: draw(means) for name, draw in study.DRAWN.items()}
    assert set(pictures) == {"turnaround", "slowdown", "utilization", "over-time", "events"}
    assert all("1 twins" in picture.caption for picture in pictures.values())
    assert pictures["turnaround"].alt.startswith(
        "Resizing turns jobs around faster than EASY in all 1 cases, by 10 to 10 %"
    )


def test_titles_say_what_is_in_the_rows() -> None:
    rows = [_row("1k intensive", "easy", 1000.0, 0)]
    slower, faster = ({**dict.fromkeys(COLUMNS), "turnaround_s": value} for value in (1100.0, 700.0))
    rows += [Row(Cell(MS, "intensive", 100, 1), slower), Row(Cell(MS, "spare", 100, 1), faster)]
    assert study.draw_turnarounds(Twins(rows)).alt.startswith(
        "Resizing turns jobs around faster than EASY in 1 of 2 cases. "
    )
