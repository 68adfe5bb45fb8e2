"""Turns, lines, table and JSON, from answers that nobody had to measure."""

from __future__ import annotations

import io
import json

import pytest

from benchmarks.harness.errors import BadUsage
from benchmarks.harness.goals import Goal, Quantity
from benchmarks.overheads.catalogue import LABELS, MEASURES, Case, Measure, Plan
from benchmarks.overheads.command import plan
from benchmarks.overheads.results import Results, columns, remarks, row, show_results

FAST = Case(
    {"measure": "a"}, ("ours", "socket", "pool", "ray"), (Quantity("t_s", "fast", "s", (Goal("<=", 2, "ray"),)),)
)
SLOW = Case({"measure": "b"}, ("ours", "socket"), (Quantity("t_s", "slow", "s", (Goal("<=", 4, "socket"),)),))
BOTH = Measure("both", (FAST, SLOW), note="a note")


def measured() -> Results:
    results = Results(rounds=3, missing={"ray": "not installed"})
    results.expect(BOTH)
    for ours, socket, pool in ((0.3, 0.1, 0.2), (9.0, 0.1, 0.2), (0.4, 0.2, 0.2)):
        for name, value in (("ours", ours), ("socket", socket), ("pool", pool)):
            results.add(BOTH, FAST, name, {"t_s": value, "samples": 5})
        results.add(BOTH, SLOW, "ours", {"t_s": ours})
    return results


def test_contenders_take_turns_within_a_round() -> None:
    steps = Plan((BOTH,), rounds=2).steps(BOTH, ("ours", "socket", "pool"))
    turns = [(number, case.command["measure"], name) for number, case, name in steps]
    one = [("a", "ours"), ("a", "socket"), ("a", "pool"), ("b", "ours"), ("b", "socket")]
    assert turns == [(number, *step) for number in range(2) for step in one]


def test_a_measure_may_limit_its_rounds() -> None:
    limited = Measure("once", (SLOW,), rounds=1)
    assert len(Plan((limited,), rounds=5).steps(limited, ("ours",))) == 1


def test_lines_show_medians_of_rounds_and_ratios_to_ours() -> None:
    fast, slow = measured().lines
    assert fast.medians == {"ours": 0.4, "socket": 0.1, "pool": 0.2}
    assert fast.ratios == {"socket": pytest.approx(4), "pool": pytest.approx(2)}
    assert fast.floor == "socket"
    assert [verdict.met for verdict in fast.verdicts] == [None]
    assert slow.medians == {"ours": 0.4}
    assert slow.ratios == {}


def test_the_table_has_a_cell_for_everyone_who_was_measured() -> None:
    results = measured()
    assert columns(results) == ["pool"]
    fast, slow = results.lines
    assert row(fast, ["pool"]) == [
        "fast",
        "400 ms",
        "100 ms raw socket\n(4x)",
        "200 ms\n(2x)",
        "<= 2x Ray",
        "not known",
    ]
    assert row(slow, ["pool"]) == ["slow", "400 ms", "-", "", "<= 4x raw socket", "not known"]


def test_the_remarks_name_who_is_missing_and_what_failed_once() -> None:
    results = measured()
    results.failures = {("both", "socket"): "no answer in time", ("idle", "socket"): "no answer in time"}
    lines = remarks(results)
    assert lines[0].startswith("medians of 3 interleaved rounds")
    assert lines[1:] == ["a note", "Ray: not installed", "raw socket FAILED in both, idle: no answer in time"]


def test_the_table_is_never_cut() -> None:
    stream = io.StringIO()
    show_results(measured(), None, stream)
    text = stream.getvalue()
    assert "…" not in text
    assert "\x1b" not in text
    assert "<= 4x raw socket" in text


def test_the_json_form_holds_every_round_and_says_whether_the_run_ended() -> None:
    results = measured()
    content = json.loads(json.dumps(results.as_json({"cores": 2})))
    assert content["ended"] is False
    assert content["lines"][0]["runs"]["ours"] == [0.3, 9.0, 0.4]
    assert content["lines"][0]["goals"] == [{"goal": "<= 2x Ray", "reached": None, "met": None}]
    assert content["not_measured"] == {"ray": "not installed"}
    assert content["provenance"] == {"cores": 2}


@pytest.mark.parametrize(("name", "complete"), [("ours", False), ("socket", False), ("dask", True)])
def test_a_run_is_complete_without_peers_but_not_without_us_or_the_floor(name: str, complete: bool) -> None:
    results = measured()
    results.ended = True
    results.failures["both", name] = "it has ended"
    assert results.complete is complete


def test_a_run_that_did_not_end_is_not_complete() -> None:
    assert not measured().complete


def test_answers_that_are_no_number_make_no_figure() -> None:
    results = Results(1)
    results.expect(BOTH)
    results.add(BOTH, SLOW, "ours", {"other": 1.0})
    results.add(BOTH, SLOW, "socket", {"t_s": None})
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
    assert [measure.name for measure in plan(5, "", "pool").measures] == list(MEASURES)
    chosen = plan(2, " echo, rtt,echo", "")
    assert [measure.name for measure in chosen.measures] == ["echo", "rtt"]
    assert chosen.contenders == ("ours", "socket", "mpi")
    assert chosen.rounds == 2


@pytest.mark.parametrize(("rounds", "measures", "peers"), [(0, "", ""), (1, "rtt,speed", ""), (1, "", "spark")])
def test_impossible_options_are_refused(rounds: int, measures: str, peers: str) -> None:
    with pytest.raises(BadUsage):
        plan(rounds, measures, peers)
