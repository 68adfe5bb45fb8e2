"""Charts that are read without their caption: nothing over another, nothing cut off, a word at each printed value."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation

from scheduler_bridge import Workload
from scheduler_bridge.report.charts import (
    BarRow,
    Curve,
    Entry,
    draw_bar_table,
    draw_curves,
    draw_multiples,
    mark_printed,
    name_ends,
    png,
    say,
    sheet,
)
from scheduler_bridge.report.workload_picture import draw_workload


def _notes(figure: Figure) -> list[Annotation]:
    return [text for axes in figure.axes for text in axes.texts if isinstance(text, Annotation)]


def _apart_and_inside(figure: Figure) -> None:
    figure.draw_without_rendering()
    boxes = {text: text.get_window_extent() for text in _notes(figure)}
    for one, other in itertools.combinations(boxes, 2):
        assert not boxes[one].overlaps(boxes[other]), (one.get_text(), other.get_text())
    for text, box in boxes.items():
        assert box.x0 >= 0, text.get_text()
        assert box.x1 <= figure.bbox.x1 + 1, text.get_text()


@pytest.mark.parametrize("sign", [1, -1])
def test_bars_have_numbers_and_printed_values_a_word(sign: int) -> None:
    rows = [
        BarRow("1,000 jobs"),
        BarRow("easy", [Entry(sign * 40.0, None, sign * 55.0), Entry(sign * 12.0, (sign * 5.0, sign * 30.0))]),
        BarRow("a policy of a long name", [Entry(sign * 100.0), Entry(None, None, sign * 3.0)]),
    ]
    figure = draw_bar_table(["here", "there"], rows, "{:+.0f} %".format)
    say(figure, "A finding", "A note.")
    mark = "+" if sign > 0 else "\N{MINUS SIGN}"
    assert [text.get_text() for text in _notes(figure)] == [
        f"{mark}40 %", f"paper {mark}55 %", f"{mark}100 %", f"{mark}12 %", f"paper {mark}3 %",
    ]  # fmt: skip
    _apart_and_inside(figure)
    one, other = figure.axes
    assert one.get_xlim() == other.get_xlim(), "bars of all columns may be compared"
    bars = [patch for axes in (one, other) for patch in axes.patches if isinstance(patch, Rectangle)]
    assert {bar.get_width() for bar in bars if bar.get_facecolor()[-1] == 0} == {sign * 55.0, sign * 3.0}
    assert not any(bar.get_hatch() for bar in bars)


def _panel(figure: Figure) -> Axes:
    axes = figure.subplots()
    assert isinstance(axes, Axes)
    return axes


def test_names_stand_at_the_ends_of_lines_and_apart() -> None:
    figure = sheet(3.0, 4.0)
    axes = _panel(figure)
    curves = [
        Curve(name, [(0, 1.0), (100, end)]) for name, end in (("min", 5.0), ("avg", 5.1), ("pref", 5.0), ("a", 0.0))
    ]
    draw_curves(axes, [*curves, Curve("nothing", [])])
    name_ends(figure, {axes: [*curves, Curve("nothing", [])]})
    assert {text.get_text() for text in _notes(figure)} == {"min", "avg", "pref", "a"}
    _apart_and_inside(figure)
    assert axes.get_ylim()[0] == 0, "no axis is cut off"
    assert axes.get_ylim()[1] > 5.1


def test_a_band_is_within_the_axes() -> None:
    axes = _panel(sheet(3.0, 4.0))
    draw_curves(axes, [Curve("here", [(0, 1.0), (1, 2.0)], spread=[(0.5, 3.0), (1.0, 9.0)])])
    assert axes.get_ylim()[1] > 9.0


def test_a_diamond_has_a_word() -> None:
    figure = sheet(3.0, 4.0)
    mark_printed(_panel(figure), 50, 3.0, "paper 3")
    assert [text.get_text() for text in _notes(figure)] == ["paper 3"]


def test_every_panel_of_a_grid_has_its_words() -> None:
    figure = sheet(5.0)
    curve = Curve("here", [(0, 1.0), (100, 2.0)])
    draw_multiples(
        figure,
        {"wait, s": {"fcfs": [curve], "easy": [curve]}, "use, %": {"fcfs": [curve], "easy": [curve]}},
        "x",
        (0, 100),
    )
    upper_left, upper_right, lower_left, _ = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["fcfs", "easy", "", ""]
    assert (upper_left.get_ylabel(), lower_left.get_ylabel(), lower_left.get_xlabel()) == ("wait, s", "use, %", "x")
    assert upper_left.get_ylim() == upper_right.get_ylim()
    assert [text.get_text() for text in _notes(figure)] == ["here", "here"]


def test_what_users_have_named_is_no_formula_and_has_the_glyphs_of_the_font() -> None:
    name = "a $\\nope$ of 日"
    figure = sheet(3.0)
    say(figure, name, name)
    workload = replace(Workload.generate("lublin", seed=1, jobs=5), name=name)
    for drawn in (figure, draw_workload(workload)):
        assert png(drawn)
        assert drawn.get_suptitle().startswith("a $\\nope$ of ?")


def test_a_long_finding_is_not_cut_off() -> None:
    figure = sheet(3.0, 6.0)
    draw_curves(_panel(figure), [Curve("here", [(0, 1.0), (1, 2.0)])])
    say(figure, "A finding of many words " * 6, "A note of many words " * 12)
    figure.draw_without_rendering()
    for text in (figure._suptitle, figure._supxlabel):  # type: ignore[attr-defined]  # matplotlib has no public way
        assert text.get_window_extent().x1 <= figure.bbox.x1
