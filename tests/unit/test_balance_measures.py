"""What balancing costs: the figures, their verdicts, and the usage of the command."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.balance import __main__ as command
from benchmarks.balance import naps
from benchmarks.balance.__main__ import Balance, main
from benchmarks.balance.catalogue import MEASURES
from benchmarks.balance.programs import resize_spans, share_done
from benchmarks.balance.stamps import StampedBag, take_stamps
from benchmarks.compare.command_line import RunProgress
from benchmarks.compare.engine import Stage
from benchmarks.levelbag import Count
from benchmarks.scaling import __main__ as scaling
from benchmarks.uts.tree import Tree
from glb.testing import check_bag


def test_tasks_count_for_the_time_since_the_stamp_before() -> None:
    stamps = [(0.0, 7), (1.0, 10), (2.0, 10), (4.0, 20)]
    assert share_done(stamps, [(0.0, 4.0)], 10.0) == pytest.approx(1.0)
    assert share_done(stamps, [(0.5, 1.5)], 10.0) == pytest.approx(1.0)
    assert share_done(stamps, [(2.0, 3.0), (3.5, 4.0)], 20.0) == pytest.approx(0.5)
    # nothing was done in the second half
    assert share_done(stamps, [(3.0, 5.0)], 10.0) == pytest.approx(0.5)


def test_the_time_between_two_resizes_is_quiet() -> None:
    records = [SimpleNamespace(kind=kind, at_s=at, seconds=0.2) for kind, at in (("shrink", 1.0), ("grow", 2.0))]
    spans = resize_spans(100.0, cast("Any", records))
    assert spans["shrink"] + spans["grow"] + spans["quiet"] == [
        pytest.approx(span) for span in ((101.0, 101.25), (102.0, 102.25), (101.25, 102.0))
    ]


def test_a_stamped_bag_notes_every_task_and_finds_the_same() -> None:
    take_stamps()
    result = Count()
    bag = StampedBag.of_tree(Tree(9))
    before = bag.work
    bag.process(5000)
    part = bag.split(False)
    assert part is not None
    for each in (bag, part):
        while each.process(5000):
            pass
    bag.merge(part)
    assert bag.is_empty()
    bag.submit(result)
    assert result.value == Tree(9).known_nodes()
    stamps = take_stamps()
    assert sum(tasks for _, tasks in stamps) == result.value - before
    assert stamps == sorted(stamps)
    assert take_stamps() == []


def test_medians_are_judged() -> None:
    many = MEASURES["many"]
    results = Balance(rounds=3, measures=[many])
    for rate, tail_s in ((0.95, 0.030), (0.91, 0.021), (0.5, 0.001)):
        results.add("many", many.quantities, "ours", {"rate": rate, "cpu": 0.8, "starving": 0.1, "tail_s": tail_s})
    assert [met for *_, met in results.sheets()[0].sections[0]] == ["met", "MISSED", "", "MISSED"]
    lines = cast("list[dict[str, object]]", results.as_json()["lines"])
    assert [line["median"] for line in lines] == [0.91, 0.8, 0.1, 0.021]
    assert lines[3]["goal"] == "<= 20.0 ms"
    stream = io.StringIO()
    results.failures["one", "ours"] = "it has ended"
    results.show(stream)
    assert "one FAILED: it has ended" in stream.getvalue()


def test_a_greedy_schedule_gives_the_next_task_to_whoever_is_free_first() -> None:
    assert naps.greedy_s([1.0] * 5, naps.spans(2, [], 0.0)) == 3.0
    assert naps.greedy_s([5.0, 1.0, 1.0, 1.0, 4.0], naps.spans(2, [], 0.0)) == 7.0
    assert naps.greedy_s([], naps.spans(2, [], 0.0)) == 0.0


def test_a_greedy_schedule_knows_who_leaves_and_who_joins() -> None:
    def record(kind: str, places: tuple[int, ...]) -> Any:
        return SimpleNamespace(kind=kind, at_s=7.0, seconds=0.5, places=places)

    leave, join = naps.spans(4, [record("shrink", (2, 3))], 1.0), naps.spans(2, [record("grow", (2, 3))], 1.0)
    assert leave == {0: (0.0, naps.ALWAYS), 1: (0.0, naps.ALWAYS), 2: (0.0, 6.0), 3: (0.0, 6.0)}
    assert join[2] == (6.5, naps.ALWAYS)
    # leavers end what they have begun: 4 tasks until 5, 4 until 10, then 2 at a time
    assert naps.greedy_s([5.0] * 16, leave) == 30.0
    # 4 have begun until 10, and 4 newcomers' rounds end at 11.5, 16.5, 21.5
    assert naps.greedy_s([5.0] * 16, join) == 25.0


def test_naps_are_as_long_as_asked_and_all_are_taken() -> None:
    lasting = naps.durations(80, 0.1, 1.0)
    assert sum(lasting) == pytest.approx(8.0)
    assert max(lasting) > 3 * min(lasting)
    assert naps.durations(3, 2.0, 0.0) == [2.0] * 3
    check_bag(lambda: naps.NapBag.whole(20, [0.0] * 20), naps.Naps, lambda found: sorted(found.numbers))


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        ("--nap 0", "--nap 0"),
        ("--rounds 0", "--rounds 0"),
        ("--measures speed", "--measures speed"),
        ("--depth 0", "--depth 0"),
        ("--frobnicate", "--frobnicate"),
    ],
)
def test_bad_usage_is_refused(arguments: str, culprit: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments.split()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    assert len(lines) == 3
    assert culprit in lines[0]


def test_the_command_of_scaling_knows_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert scaling.main(["balance", "--measures", "no-such-measure"]) == 2
    assert ", ".join(MEASURES) in capsys.readouterr().err


def test_a_kernel_that_does_not_start_fails_its_measure_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_PROGRAM", (sys.executable, "-c", "raise SystemExit('no kernel here')"))
    asked = Balance(rounds=1, measures=[MEASURES["one"], MEASURES["places"]])
    with RunProgress(asked.steps, quiet=True) as progress, Stage("balance", progress) as stage:
        asked.measure(stage)
    assert asked.failures == dict.fromkeys([("one", "ours"), ("places", "ours")], "it has ended: no kernel here")
