"""The executor beside others: the catalogue, the page and the picture, from answers that were not measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.compare.contender import EXECUTORS
from benchmarks.executors.__main__ import MEASURES, Executors
from benchmarks.executors.contenders import durations
from benchmarks.overheads.catalogue import LABELS


def measured() -> Executors:
    results = Executors(rounds=1, measures=list(MEASURES.values()))
    for name, value in (("ours", 3.0), ("pool", 1.0), ("futures", 2.0)):
        for measure in MEASURES.values():
            for case in measure.cases:
                alone = "" if name == "ours" else "scattered_per_s"
                answer = {each.key: value for each in case.quantities if each.key != alone}
                results.add(measure.name, case.quantities, name, answer)
    return results


def test_everybody_in_the_catalogue_can_be_started_and_named() -> None:
    for measure in MEASURES.values():
        for case in measure.cases:
            assert set(case.contenders) == set(EXECUTORS)
            assert {goal.against for quantity in case.quantities for goal in quantity.goals} <= {None, *EXECUTORS}
    assert set(EXECUTORS) <= set(LABELS)


def test_a_sweep_has_short_and_long_tasks_in_the_same_order_each_time() -> None:
    naps = durations(1000, 0.0001, 0.3)
    assert naps == durations(1000, 0.0001, 0.3) != sorted(naps)
    assert [min(naps), max(naps)] == pytest.approx([0.0001, 0.3])
    assert sum(naps) == pytest.approx(37.5, rel=0.01)


def test_a_page_has_the_table_with_all_goals_and_the_picture(tmp_path: Path) -> None:
    provenance = {"cpu": "some processor", "cores": 2, "mpi": "some MPI 1.0", "versions": {"python": "3.11"}}
    page = measured().as_page(provenance, tmp_path / "page.md", tmp_path / "images" / "picture.png")
    lines = page.splitlines()
    assert lines[0] == "# The executor beside other pools of processes"
    assert "`python -m benchmarks.executors` has measured this on some processor" in page
    rows = [line.split(" | ") for line in lines if line.startswith("| ")]
    assert {len(row) for row in rows} == {6}, "a column for each executor that was there, none for a floor"
    assert rows[0][:4] == ["| what", "ours", "ProcessPool", "mpi4py.futures"]
    (submitted,) = (row for row in rows if "one by one" in row[0])
    assert submitted[1:4] == ["3.00 /s", "1.00 /s<br>(3x)", "2.00 /s<br>(1.5x)"]
    assert submitted[4:] == [">= 3x mpi4py.futures<br>>= 2x ProcessPool", "MISSED, 1.5x<br>met, 3x |"]
    assert "(images/picture.png)" in page


def test_the_picture_has_a_panel_for_each_quantity_that_several_have() -> None:
    figure = measured().draw("some processor")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert len(titles) == len(MEASURES)
    assert titles[0] == "no-op tasks, submitted one by one; goal: >= 3x mpi4py.futures, >= 2x ProcessPool"
