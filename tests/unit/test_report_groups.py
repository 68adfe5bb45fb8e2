"""Groups of bars: hatched, named in place, printed values hollow beside ours."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from matplotlib.patches import Rectangle

from scheduler_bridge.report.groups import Bar, draw_groups, looks_of
from scheduler_bridge.report.sheet import sheet


def test_series_are_told_apart_without_colour() -> None:
    looks = looks_of("abcdefg")
    assert len({look.hatch for look in looks.values()}) == len({look.color for look in looks.values()}) == 7


def test_bars_have_spreads_printed_values_and_names_within_the_axes() -> None:
    axes = sheet(3.0, 4.0).subplots()
    groups = [[Bar("easy", 4.0)], [Bar("easy", 2.0, (1.0, 3.0), 9.0), Bar("a policy of a long name", 8.0)]]
    draw_groups(axes, groups, looks_of(["easy", "a policy of a long name"]), named=1)
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert [bar.get_height() for bar in bars] == [4.0, 2.0, 8.0]
    assert bars[0].get_x() + bars[0].get_width() / 2 == pytest.approx(0), "a single bar stands in the middle"
    spread, printed = axes.lines
    assert list(np.asarray(spread.get_ydata())) == [1.0, 3.0]
    assert (printed.get_marker(), printed.get_markerfacecolor(), list(np.asarray(printed.get_ydata()))) == (
        "D",
        "white",
        [9.0],
    )
    assert [text.get_text() for text in axes.texts] == ["easy", "a policy of a long name"]
    axes.figure.canvas.draw()
    inside = axes.get_window_extent()
    assert all(text.get_window_extent().y1 <= inside.y1 for text in axes.texts)


def test_a_figure_says_once_what_its_diamonds_are() -> None:
    figure = sheet(3.0, 4.0)
    one, other = figure.subplots(1, 2)
    draw_groups(one, [[Bar("easy", 4.0)]], looks_of(["easy"]))
    assert not figure.texts
    for axes in (one, other):
        draw_groups(axes, [[Bar("easy", 4.0, None, 3.0)]], looks_of(["easy"]))
    assert [text.get_text() for text in figure.texts] == ["◇ as the paper prints it"]
