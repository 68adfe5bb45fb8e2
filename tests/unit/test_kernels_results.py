"""Turns, verdicts, table, picture and JSON of the kernels' measurement, with contenders that nobody had to measure."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from benchmarks.harness.errors import BadUsage
from benchmarks.harness.goals import Goal, Quantity
from benchmarks.harness.measuring import Display
from benchmarks.kernels import command
from benchmarks.kernels.results import Absent, Contender, Measure, Results, Setting, Work, remarks, rows, show_results


def contender(name: str, log: list[str], amount: float = 1.0, group: str = "") -> Contender:
    def prepare(setting: Setting) -> Work:
        def work() -> Mapping[str, float]:
            log.append(name)
            return {"things": amount}

        return work

    return Contender(name, name.title(), prepare, group)


def measure(*contenders: Contender, goals: tuple[Goal, ...] = ()) -> Measure:
    return Measure("some", lambda quick: "Something", (Quantity("things", "things", "1/s", goals),), contenders, "rule")


def run(asked: Measure, rounds: int = 2) -> Results:
    return command.run([asked], rounds, False, Display(1, quiet=True))


def filled(asked: Measure, rates: Mapping[str, list[float]]) -> Results:
    results = Results(2, False, [asked])
    for name, values in rates.items():
        for value in values:
            results.add(asked, name, {"things": value}, 1.0)
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
    assert results.missing == {("some", "c"): "FAILED: ArithmeticError: 5 where there are 6"}
    assert log.count("python") == 2
    assert results.complete
    assert "C (some): FAILED: ArithmeticError: 5 where there are 6" in remarks(results)


def test_a_failure_of_ours_makes_the_run_incomplete() -> None:
    results = run(measure(Contender("ours", "ours", failing(Absent("no reason"), prepared=False))))
    assert not results.complete
    assert results.missing == {("some", "ours"): "no reason"}


def test_goals_are_judged_against_the_best_of_a_group() -> None:
    log: list[str] = []
    asked = measure(
        contender("ours", log),
        contender("fast", log, group="library"),
        contender("slow", log, group="library"),
        goals=(Goal(">=", 4, "library"), Goal(">=", 100)),
    )
    (line,) = filled(asked, {"ours": [80.0, 120.0], "fast": [30.0], "slow": [10.0]}).lines
    assert line.medians["ours"] == 100.0
    assert [(verdict.met, verdict.reached) for verdict in line.verdicts] == [(False, 100 / 30), (True, 100.0)]
    assert line.ratios == {"fast": 100 / 30, "slow": 10.0}
    assert rows(line)[0] == [
        "Ours",
        "100 /s",
        "",
        ">= 4x the best of library\n>= 100 /s",
        "MISSED, 3.3x\nmet, 100 /s",
    ]


def test_the_table_shows_rules_rates_and_the_file() -> None:
    log: list[str] = []
    asked = measure(contender("ours", log), contender("c", log), goals=(Goal(">=", 2, "c"),))
    stream = io.StringIO()
    show_results(filled(asked, {"ours": [3e9], "c": [1e6]}), Path("result.json"), stream)
    text = stream.getvalue()
    for words in ("Something:", "3 G/s", "1 M/s", "3000x", "met", "rule", "per CPU-second", "result file: result.json"):
        assert words in text


def test_the_json_form_tells_runs_ratios_and_goals() -> None:
    log: list[str] = []
    asked = measure(contender("ours", log), contender("c", log), goals=(Goal(">=", 2, "c"),))
    content = json.loads(json.dumps(filled(asked, {"ours": [4.0], "c": [1.0]}).as_json({"cpu": "x"})))
    (line,) = content["lines"]
    assert (line["medians"], line["ratios"]) == ({"ours": 4.0, "c": 1.0}, {"c": 4.0})
    assert line["goals"] == [{"goal": ">= 2x C", "reached": 4.0, "met": True}]
    assert content["provenance"] == {"cpu": "x"}


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from benchmarks.kernels.results import draw_figure

    log: list[str] = []
    results = filled(measure(contender("ours", log), contender("c", log)), {"ours": [4.0], "c": [1.0]})
    draw_figure(results, tmp_path / "kernels.png", "a processor")
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
    asked: list[tuple[object, ...]] = []

    def note(*arguments: object) -> int:
        asked.append(arguments)
        return 0

    monkeypatch.setattr(command, "_run", note)
    for rounds, quick in ((None, True), (None, False), (7, True)):
        assert command._command(rounds, "pi", quick=quick)() == 0
    assert [arguments[1:3] for arguments in asked] == [(2, True), (5, False), (7, True)]
