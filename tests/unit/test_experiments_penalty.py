"""The 2016 paper's experiment: classes of users by hand, claims, and the whole at a tiny scale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from scheduler_bridge.cli.app import run as malleable
from scheduler_bridge.experiments.penalty import cells
from scheduler_bridge.experiments.penalty.cells import AGED, COLUMNS, figures_of
from scheduler_bridge.experiments.penalty.study import CLAIMS, judged, run
from scheduler_bridge.experiments.study import Means
from scheduler_bridge.experiments.sweep import Cell, Figures, Row, Sweeping
from scheduler_bridge.model import JobSpec
from scheduler_bridge.sim import SimRecord


def _ended(job_id: int, user: str, wait_s: float, accuracy: float) -> SimRecord:
    spec = JobSpec(
        job_id=job_id, name=f"job {job_id}", user=user, job_class="rigid", nodes=1, min_nodes=1, max_nodes=1,
        walltime_s=1000.0, submit_s=1000.0 * job_id,
    )  # fmt: skip
    start_s = spec.submit_s + wait_s
    return SimRecord(spec, start_s, start_s + 1000 * accuracy, "completed")


def test_users_are_classed_by_their_last_ten_jobs_and_weigh_the_same() -> None:
    learned = [_ended(number, "ann", 60.0, 0.1) for number in range(1, 6)]
    learned += [_ended(number, "ann", 120.0, 0.9) for number in range(6, 16)]
    other = [_ended(20, "bob", 600.0, 0.85), _ended(21, "eve", 1200.0, 0.05)]
    found = figures_of([*other, *reversed(learned)])
    assert (found["a5_users"], found["a1_users"], found["a3_users"]) == (2, 1, 0)
    assert found["a5_wait_min"] == pytest.approx((100 / 60 + 10) / 2)
    assert found["a1_wait_min"] == pytest.approx(20)
    assert found["a3_wait_min"] is None
    assert found["wait_min"] == pytest.approx((5 * 1 + 10 * 2 + 10 + 20) / 17)
    assert set(found) == set(COLUMNS)


def _as_printed() -> Means:
    rows = []
    for scenario, waits in CLAIMS["printed"].items():
        figures: Figures = {**dict.fromkeys(COLUMNS), **{f"{name}_wait_min": wait for name, wait in waits.items()}}
        rows += [Row(Cell(scenario, policy, 0, 1), figures) for policy in ("penalty", "easy")]
    return Means(rows)


def test_the_printed_table_fulfils_the_printed_claims() -> None:
    verdicts = judged(_as_printed())
    assert len(verdicts) >= 12
    assert {verdict.word for verdict in verdicts} == {"held"}
    for verdict in verdicts:
        if "times less" in verdict.text:
            assert float(str(verdict.found)) == pytest.approx(float(str(verdict.printed)), abs=0.02)


def test_a_claim_on_a_class_without_users_is_not_judged_and_others_have_a_reason() -> None:
    rows = [
        Row(Cell("CF", "penalty", 0, 1), {**dict.fromkeys(COLUMNS), "a1_wait_min": 10.0, "a2_wait_min": 20.0}),
        Row(Cell("CFG", "penalty", 0, 1), {**dict.fromkeys(COLUMNS), "a1_wait_min": 100.0, "a5_wait_min": 1.0}),
    ]
    verdicts = {verdict.text: verdict for verdict in judged(Means(rows))}
    assert verdicts["CF: the best class waits 2.43 times less than a1"].word == "not judged"
    assert verdicts["CF: each better class waits less"].word == "differs"
    far = verdicts["CFG: the best class waits 2.88 times less than a1"]
    assert (far.word, far.found) == ("differs", "100.00")
    assert far.reason.startswith("not known")


def test_aging_is_named_as_a_reason_where_it_makes_a_claim_hold() -> None:
    waits = {"penalty": (900.0, 100.0), AGED: (288.0, 100.0), "easy": (120.0, 100.0)}
    empty: Figures = dict.fromkeys(COLUMNS)
    rows = [
        Row(Cell("CFG", policy, 0, 1), {**empty, "a1_wait_min": worst, "a5_wait_min": best})
        for policy, (worst, best) in waits.items()
    ]
    text = "CFG: the best class waits 2.88 times less than a1"
    plain, aged = ({v.text: v for v in judged(Means(rows), policy)}[text] for policy in ("penalty", AGED))
    assert (plain.found, plain.beside) == ("9.00", ("2.88", aged.word, "1.20"))
    assert plain.word != aged.word
    assert "with aging it is so" in plain.reason
    assert not aged.reason


def test_users_who_estimate_well_wait_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cells.SEEDS, "small", (1,))
    report = run(None, Sweeping("small", tmp_path, form="csv"))
    rows = {(row[0], row[1]): row for row in report.tables[0].rows}
    assert rows["BE", "a1"][3] == rows["BE", "all"][3]
    worst, best = rows["CFG", "a1"], rows["CFG", "a5"]
    assert isinstance(worst[3], float)
    assert isinstance(best[3], float)
    assert worst[3] > 2 * best[3]
    assert "workloads a scenario" in report.verdict
    assert len((tmp_path / "cells-small.csv").read_text().splitlines()) == 1 + 18


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(cells.SEEDS, "small", (2,))
    words = ["experiment", "penalty", "--rows", "csv", "--out", str(tmp_path)]
    assert malleable(words) == 0
    assert "Table 3" in capsys.readouterr().out
    assert malleable([*words, "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["tables"]) == {"table-3", "claims", "workloads"}
    assert {"waits.png", "report.html", "table-3.csv", "cells-small.csv"} <= {path.name for path in tmp_path.iterdir()}
