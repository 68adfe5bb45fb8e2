"""The picture of the model: four panels; needs matplotlib."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from ...harness import pictures
from .table import conditions, graph_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from .engine import Job, Machine
    from .sweep import Point, Sweep

_NAMES: Final = {"none": "stealing alone", "tree": "reports up a tree", "home": "reports to place 0 (the runtime)"}


def draw(sweep: Sweep, points: Mapping[Job, Point], machine: Machine, base: Job, path: Path) -> None:
    """Draw the runs of ``sweep``; the ending of ``path`` tells the kind of file."""
    figure, panels = pictures.new_picture(9.6, 7.0, 2, 2)
    _balance(panels[0][0], sweep, points)
    _times(panels[0][1], sweep, points)
    _messages(panels[1][0], sweep, points)
    _choices(panels[1][1], sweep, points)
    title = f"SIMULATED: {finding(sweep, points)}".replace(" %", "\N{NO-BREAK SPACE}%")
    figure.suptitle(textwrap.fill(title, 90), x=0.01, ha="left", fontsize=11, weight="bold")
    figure.supxlabel(
        f"discrete-event simulation, no measurement: {conditions(machine, base)};\n"
        f"w = {base.random_steals}, {graph_name(base)} unless said",
        fontsize=8,
        color=pictures.INK,
    )
    figure.savefig(path, dpi=150)


def finding(sweep: Sweep, points: Mapping[Job, Point]) -> str:
    """Return what the picture says, in one line."""
    ends = {finish: _series(sweep, points, finish) for finish in _NAMES}
    alone = ends["none"][-1]
    text = f"stealing loses {100 * (1 - alone.balance):.1f} % of the compute on {alone.job.places:,} places"
    if not ends["home"]:
        return text
    home = ends["home"][-1]
    return f"{text}; with reports to place 0, {100 * (1 - home.balance):.0f} % are lost on {home.job.places:,}"


def _series(sweep: Sweep, points: Mapping[Job, Point], finish: str) -> list[Point]:
    return [points[job] for job in sweep.sizes if job.finish == finish]


def _by_places(axes: Axes, sweep: Sweep) -> None:
    places = sorted({job.places for job in sweep.sizes})
    axes.set_xscale("log")
    axes.set_xticks(places, [_short(count) for count in places], rotation=0)
    axes.minorticks_off()


def _short(count: int) -> str:
    return f"{count // 1000}k" if count >= 1000 and count % 1000 == 0 else f"{count:,}"


def _balance(axes: Axes, sweep: Sweep, points: Mapping[Job, Point]) -> None:
    for index, (finish, name) in enumerate(_NAMES.items()):
        series = _series(sweep, points, finish)
        axes.plot(
            [point.job.places for point in series],
            [100 * point.balance for point in series],
            color=pictures.COLOURS[index],
            marker=pictures.MARKERS[index],
            # the first two nearly coincide
            linewidth=5 if finish == "none" else 1.5,
            markersize=9 if finish == "none" else 5,
            alpha=0.4 if finish == "none" else 1.0,
        )
        if series:
            # the third one leaves them at the right
            end, beside, side = {"none": (0, 9, "left"), "tree": (0, -11, "left"), "home": (-1, -12, "right")}[finish]
            point = series[end]
            _name(axes, name, (point.job.places, 100 * point.balance), (0, beside), index, side)
    _by_places(axes, sweep)
    axes.set_ylim(0, 112)
    pictures.dress_axes(axes, "Compute, of the time up to the last task", "places", "%")


def _times(axes: Axes, sweep: Sweep, points: Mapping[Job, Point]) -> None:
    alone = _series(sweep, points, "none")
    reached = [point for point in alone if point.spread_s is not None]
    spread = [1e3 * (point.spread_s or 0.0) for point in reached]
    _line(axes, 0, [point.job.places for point in reached], spread, "until 99 % have had work", (-4, -28))
    ends = [1e3 * point.end_s for point in alone]
    _line(axes, 1, [point.job.places for point in alone], ends, "last task to result", (-10, 0))
    _by_places(axes, sweep)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    title = "Times to spread and to end (stealing alone)"
    if alone and ends[-1] > 0:
        title = f"The end takes {_seconds(ends[-1] / 1e3)} on {alone[-1].job.places:,} places"
    pictures.dress_axes(axes, title, "places", "ms")


def _messages(axes: Axes, sweep: Sweep, points: Mapping[Job, Point]) -> None:
    alone = _series(sweep, points, "none")
    places = [point.job.places for point in alone]
    _line(axes, 0, places, [point.messages for point in alone], "messages", (-8, 4))
    _line(axes, 1, places, [point.steals for point in alone], "steals", (-4, -16))
    _by_places(axes, sweep)
    axes.set_ylim(bottom=0)
    title = "Messages and steals per place (stealing alone)"
    if len(alone) > 1 and alone[0].messages:
        more, wider = alone[-1].messages / alone[0].messages, places[-1] / places[0]
        title = f"{more:.1f} times the messages of a place on {wider:,.0f} times the places"
    pictures.dress_axes(axes, title, "places", "per place")


def _line(
    axes: Axes, index: int, across: Sequence[float], upwards: Sequence[float], name: str, beside: tuple[float, float]
) -> None:
    axes.plot(across, upwards, color=pictures.COLOURS[index], marker=pictures.MARKERS[index])
    if across:
        _name(axes, name, (across[-1], upwards[-1]), beside, index)


def _name(
    axes: Axes, name: str, end: tuple[float, float], beside: tuple[float, float], index: int, side: str = "right"
) -> None:
    """Write the name of a line beside one of its ends."""
    color = pictures.COLOURS[index]
    axes.annotate(name, end, beside, textcoords="offset points", ha=side, va="center", fontsize=8.5, color=color)


def _seconds(value_s: float) -> str:
    return f"{value_s:.1f} s" if value_s >= 1 else f"{1000 * value_s:.0f} ms"


def _choices(axes: Axes, sweep: Sweep, points: Mapping[Job, Point]) -> None:
    rows = [(f"w = {job.random_steals}", points[job]) for job in sweep.steals]
    rows += [(graph_name(job), points[job]) for job in sweep.graphs]
    lost = [100 * (1 - point.balance) for _, point in rows]
    colours = [pictures.COLOURS[0]] * len(sweep.steals) + [pictures.COLOURS[2]] * len(sweep.graphs)
    axes.barh(range(len(rows)), lost, color=colours, height=0.7)
    for position, ((_, point), share) in enumerate(zip(rows, lost, strict=True)):
        text = f"{share:.2f} %, {point.messages:,.0f} messages"
        axes.text(share + 0.01 * max(lost), position, text, va="center", fontsize=7.5, color=pictures.INK)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.6 * max(lost))
    places = sweep.steals[0].places
    worst, _ = min(rows, key=lambda row: row[1].balance)
    title = f"Compute lost on {places:,} places: most with {worst}"
    pictures.dress_axes(axes, title, "% of the time up to the last task")
    axes.grid(visible=False)
