"""Turns, verdicts, table, picture and JSON of the kernels' measurement, with contenders that were not measured."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from benchmarks.compare.command_line import RunProgress
from benchmarks.compare.engine import Goal, Quantity, Stage
from benchmarks.harness.errors import BadUsage
from benchmarks.kernels import __main__ as command
from benchmarks.kernels.__main__ import Kernels
from benchmarks.kernels.catalogue import Absent, Contender, Measure, Setting, Work


def contender(name: str, log: list[str], amount: float = 1.0, group: str = "") -> Contender:
    def prepare(setting: Setting) -> Work:
        def work() -> Mapping[str, float]:
            log.append(name)
            return {"things": amount}

        return work

    return Contender(name, name.title(), prepare, group)


def measure(*contenders: Contender, goals: tuple[Goal, ...] = ()) -> Measure:
    return Measure("some", lambda quick: "Something", (Quantity("things", "things", "1/s", goals),), contenders, "rule")


def run(asked: Measure, rounds: int = 2) -> Kernels:
    results = Kernels(rounds=rounds, quick=False, measures=[asked])
    with Stage("kernels", RunProgress(1, quiet=True)) as stage:
        results.measure(stage)
    results.ended = True
    return results


def filled(asked: Measure, rates: Mapping[str, list[float]]) -> Kernels:
    results = Kernels(rounds=2, quick=False, measures=[asked])
    for name, values in rates.items():
        for value in values:
            results.add(asked.name, asked.quantities, name, {"things": value})
    return results


def test_contenders_work_in_turn_and_we_have_a_small_run_first() -> None:
    log: list[str] = []
    results = run(measure(contender("ours", log), contender("c", log)))
    assert log == ["ours", "ours", "c", "ours", "c"]
    assert results.complete
    assert [len(values) for values in results.lines[0].rounds.values()] == [2, 2]


def failing(error: Exception, *, prepared: bool) -> Callable[[Setting], Work]:
    def fail() -> Mapping[str, float]:
        raise error

    def prepare(setting: Setting) -> Work:
        if prepared:
            return fail
        raise error

    return prepare


@pytest.mark.parametrize("prepared", [True, False])
def test_a_contender_that_fails_is_named_and_the_others_go_on(prepared: bool) -> None:
    log: list[str] = []
    bad = Contender("c", "C", failing(ArithmeticError("5 where there are 6"), prepared=prepared))
    results = run(measure(contender("ours", log), bad, contender("python", log)))
    assert results.failures == {("some", "c"): "FAILED: ArithmeticError: 5 where there are 6"}
    assert log.count("python") == 2
    assert results.complete
    assert "C (some): FAILED: ArithmeticError: 5 where there are 6" in results.remarks()


def test_a_failure_of_ours_makes_the_run_incomplete() -> None:
    results = run(measure(Contender("ours", "ours", failing(Absent("no reason"), prepared=False))))
    assert not results.complete
    assert results.failures == {("some", "ours"): "no reason"}


def test_goals_are_judged_against_the_best_of_a_group() -> None:
    log: list[str] = []
    asked = measure(
        contender("ours", log),
        contender("fast", log, group="library"),
        contender("slow", log, group="library"),
        goals=(Goal(">=", 4, "library"), Goal(">=", 100)),
    )
    results = filled(asked, {"ours": [80.0, 120.0], "fast": [30.0], "slow": [10.0]})
    (line,) = results.lines
    assert line.medians["ours"] == 100.0
    assert [(verdict.met, verdict.reached) for verdict in line.verdicts] == [(False, 100 / 30), (True, 100.0)]
    assert line.ratios == {"fast": 100 / 30, "slow": 10.0}
    (sheet,) = results.sheets()
    assert sheet.sections[0][0] == [
        "Something:\nthings",
        "Ours",
        "100 /s",
        "",
        ">= 4x the best of library\n>= 100 /s",
        "MISSED, 3.3x\nmet, 100 /s",
    ]


def test_the_table_shows_rules_and_rates() -> None:
    log: list[str] = []
    asked = measure(contender("ours", log), contender("c", log), goals=(Goal(">=", 2, "c"),))
    stream = io.StringIO()
    filled(asked, {"ours": [3e9], "c": [1e6]}).show(stream)
    text = stream.getvalue()
    for words in ("Something:", "3 G/s", "1 M/s", "3000x", "met", "rule", "per CPU-second"):
        assert words in text


def test_the_json_form_tells_runs_ratios_and_goals() -> None:
    log: list[str] = []
    asked = measure(contender("ours", log), contender("c", log), goals=(Goal(">=", 2, "c"),))
    content = json.loads(json.dumps(filled(asked, {"ours": [4.0], "c": [1.0]}).as_json()))
    (line,) = content["lines"]
    assert (line["medians"], line["ratios"]) == ({"ours": 4.0, "c": 1.0}, {"c": 4.0})
    assert line["goals"] == [{"goal": ">= 2x C", "reached": 4.0, "met": True}]


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    log: list[str] = []
    results = filled(measure(contender("ours", log), contender("c", log)), {"ours": [4.0], "c": [1.0]})
    results.draw("a processor").savefig(tmp_path / "kernels.png")
    assert (tmp_path / "kernels.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        ({"rounds": 0}, "--rounds 0"),
        ({"measures": "uts,go"}, "--measures uts,go"),
        ({"figure": Path("kernels.gif")}, "--figure kernels.gif"),
        ({"figure": Path("/nowhere/kernels.png")}, "--figure /nowhere/kernels.png"),
    ],
)
def test_bad_options_are_named(options: dict[str, object], culprit: str) -> None:
    given: dict[str, object] = {"rounds": None, "measures": "", "figure": None, **options}
    with pytest.raises(BadUsage) as caught:
        command._command(**given)  # type: ignore[arg-type]  # wrong on purpose
    assert caught.value.culprit == culprit


def test_a_quick_run_has_fewer_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Kernels] = []

    def note(comparison: Kernels, *_: object) -> int:
        asked.append(comparison)
        return 0

    monkeypatch.setattr(command, "carry_out", note)
    for rounds, quick in ((None, True), (None, False), (7, True)):
        assert command._command(rounds, "pi", quick=quick) == 0
    assert [(each.rounds, each.quick) for each in asked] == [(2, True), (5, False), (7, True)]
