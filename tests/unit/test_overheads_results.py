"""Turns, lines, table and JSON, from answers that were not measured."""

from __future__ import annotations

import io
import json

import pytest

from benchmarks.compare.engine import Goal, Quantity, carry_out
from benchmarks.harness.errors import BadUsage
from benchmarks.overheads.__main__ import Overheads, asked, plan
from benchmarks.overheads.catalogue import LABELS, MEASURES, Case, Measure

FAST = Case(
    {"measure": "a"}, ("ours", "socket", "pool", "ray"), (Quantity("t_s", "fast", "s", (Goal("<=", 2, "ray"),)),)
)
SLOW = Case({"measure": "b"}, ("ours", "socket"), (Quantity("t_s", "slow", "s", (Goal("<=", 4, "socket"),)),))
BOTH = Measure("both", (FAST, SLOW), note="a note")


def measured() -> Overheads:
    results = Overheads(rounds=3, measures=[BOTH], missing={"ray": "not installed"})
    for ours, socket, pool in ((0.3, 0.1, 0.2), (9.0, 0.1, 0.2), (0.4, 0.2, 0.2)):
        for name, value in (("ours", ours), ("socket", socket), ("pool", pool)):
            results.add(BOTH.name, FAST.quantities, name, {"t_s": value, "samples": 5})
        results.add(BOTH.name, SLOW.quantities, "ours", {"t_s": ours})
    return results


def test_contenders_take_turns_within_a_case() -> None:
    turns = [(case.command["measure"], name) for case, name in asked(BOTH)]
    assert turns == [("a", "ours"), ("a", "socket"), ("a", "pool"), ("a", "ray"), ("b", "ours"), ("b", "socket")]
    assert Overheads(rounds=2, measures=[BOTH]).steps == 2 * len(turns)


def test_a_measure_may_limit_its_rounds() -> None:
    limited = Measure("once", (SLOW,), rounds=1)
    assert Overheads(rounds=5, measures=[limited]).rounds_of(limited) == 1


def test_lines_show_medians_of_rounds_and_ratios_to_ours() -> None:
    fast, slow = measured().lines
    assert fast.medians == {"ours": 0.4, "socket": 0.1, "pool": 0.2}
    assert fast.ratios == {"socket": pytest.approx(4), "pool": pytest.approx(2)}
    assert [verdict.met for verdict in fast.verdicts] == [None]
    assert slow.medians == {"ours": 0.4}
    assert slow.ratios == {}


def test_the_table_has_a_cell_for_everyone_who_was_measured() -> None:
    results = measured()
    assert results.peers == ["pool"]
    (sheet,) = results.sheets()
    (fast,), (slow,) = sheet.sections
    assert fast == [
        "fast",
        "400 ms",
        "100 ms raw socket\n(4x)",
        "200 ms\n(2x)",
        "<= 2x Ray",
        "not known",
    ]
    assert slow == ["slow", "400 ms", "-", "", "<= 4x raw socket", "not known"]


def test_the_remarks_name_who_is_missing_and_what_failed_once() -> None:
    results = measured()
    results.failures = {("both", "socket"): "no answer in time", ("idle", "socket"): "no answer in time"}
    lines = results.remarks()
    assert lines[0].startswith("medians of 3 interleaved rounds")
    assert lines[1:] == ["a note", "Ray: not installed", "raw socket FAILED in both, idle: no answer in time"]


def test_the_table_is_never_cut() -> None:
    stream = io.StringIO()
    measured().show(stream)
    text = stream.getvalue()
    assert "…" not in text
    assert "\x1b" not in text
    assert "<= 4x raw socket" in text


def test_the_json_form_holds_every_round_and_says_whether_the_run_ended() -> None:
    results = measured()
    content = json.loads(json.dumps(results.as_json()))
    assert content["ended"] is False
    assert content["lines"][0]["runs"]["ours"] == [0.3, 9.0, 0.4]
    assert content["lines"][0]["floor"] == "socket"
    assert content["lines"][0]["goals"] == [{"goal": "<= 2x Ray", "reached": None, "met": None}]
    assert content["not_measured"] == {"ray": "not installed"}


@pytest.mark.parametrize(("name", "complete"), [("ours", False), ("socket", False), ("dask", True)])
def test_a_run_is_complete_without_peers_but_not_without_us_or_the_floor(name: str, complete: bool) -> None:
    results = measured()
    results.ended = True
    results.failures["both", name] = "it has ended"
    assert results.complete is complete


def test_a_run_that_did_not_end_is_not_complete() -> None:
    assert not measured().complete


def test_answers_that_are_no_number_make_no_figure() -> None:
    results = Overheads(rounds=1, measures=[BOTH])
    results.add(BOTH.name, SLOW.quantities, "ours", {"other": 1.0})
    results.add(BOTH.name, SLOW.quantities, "socket", {"t_s": None})
    assert results.lines[1].medians == {}


def test_the_catalogue_is_sound() -> None:
    for measure in MEASURES.values():
        titles = [quantity.title for case in measure.cases for quantity in case.quantities]
        assert len(set(titles)) == len(titles)
        for case in measure.cases:
            assert case.contenders[0] == "ours"
            assert set(case.contenders) <= set(LABELS)
            for quantity in case.quantities:
                assert {goal.against for goal in quantity.goals} <= {*case.contenders, None}


def test_the_plan_is_what_the_options_say() -> None:
    usual = [name for name in MEASURES if name != "barrier"]
    assert [measure.name for measure in plan(5, "", "pool").measures] == usual
    chosen = plan(2, " echo, rtt,echo", "")
    assert [measure.name for measure in chosen.measures] == ["echo", "rtt"]
    assert chosen.contenders == ("ours", "socket", "mpi", "tree")
    assert chosen.rounds == 2


@pytest.mark.parametrize(("rounds", "measures", "peers"), [(0, "", ""), (1, "rtt,speed", ""), (1, "", "spark")])
def test_impossible_options_are_refused(rounds: int, measures: str, peers: str) -> None:
    with pytest.raises(BadUsage):
        carry_out(plan(rounds, measures, peers), None, quiet=True)
