"""The picture of the model: four panels; needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...harness import pictures
from .table import conditions, graph_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from .machine import Job, Machine
    from .sweep import Point, Sweep

_NAMES: Final = {"none": "stealing alone", "tree": "reports up a tree", "home": "reports to place 0 (the runtime)"}


def draw(sweep: Sweep, points: Mapping[Job, Point], machine: Machine, base: Job, path: Path) -> None:
    """Draw the runs of ``sweep``; the ending of ``path`` tells the kind of file."""
    figure, panels = pictures.new(9.6, 7.0, 2, 2)
    _efficiency(panels[0][0], sweep, points)
    _times(panels[0][1], sweep, points)
    _messages(panels[1][0], sweep, points)
    _choices(panels[1][1], sweep, points)
    figure.suptitle(f"SIMULATED: {finding(sweep, points)}", x=0.01, ha="left", fontsize=11, weight="bold")
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
    text = f"stealing costs {100 * (1 - alone.balance):.1f} % on {alone.job.places:,} places"
    if not ends["home"]:
        return text
    home = ends["home"][-1]
    return f"{text}; reports of all to place 0 cost {100 * (1 - home.balance):.0f} % on {home.job.places:,}"


def _series(sweep: Sweep, points: Mapping[Job, Point], finish: str) -> list[Point]:
    return [points[job] for job in sweep.sizes if job.finish == finish]


def _by_places(axes: Axes, sweep: Sweep) -> None:
    places = sorted({job.places for job in sweep.sizes})
    axes.set_xscale("log")
    axes.set_xticks(places, [_short(count) for count in places], rotation=0)
    axes.minorticks_off()


def _short(count: int) -> str:
    return f"{count // 1000}k" if count >= 1000 and count % 1000 == 0 else f"{count:,}"


def _efficiency(axes: Axes, sweep: Sweep, points: Mapping[Job, Point]) -> None:
    for index, (finish, name) in enumerate(_NAMES.items()):
        series = _series(sweep, points, finish)
        axes.plot(
            [point.job.places for point in series],
            [100 * point.efficiency for point in series],
            color=pictures.COLOURS[index],
            marker=pictures.MARKERS[index],
            # the first two nearly coincide
            linewidth=5 if finish == "none" else 1.5,
            markersize=9 if finish == "none" else 5,
            alpha=0.4 if finish == "none" else 1.0,
            label=name,
        )
    _by_places(axes, sweep)
    axes.set_ylim(0, 103)
    axes.legend(fontsize=8, frameon=False, loc="lower left")
    pictures.dress(axes, "Efficiency, the end included", "places", "%")


def _times(axes: Axes, sweep: Sweep, points: Mapping[Job, Point]) -> None:
    alone = _series(sweep, points, "none")
    reached = [point for point in alone if point.spread_s is not None]
    spread = [1e3 * (point.spread_s or 0.0) for point in reached]
    _line(axes, 0, [point.job.places for point in reached], spread, "until 99 % have had work")
    ends = [1e3 * point.end_s for point in alone]
    _line(axes, 1, [point.job.places for point in alone], ends, "last task to result")
    _by_places(axes, sweep)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    pictures.dress(axes, "Times to spread and to end (stealing alone)", "places", "ms")


def _messages(axes: Axes, sweep: Sweep, points: Mapping[Job, Point]) -> None:
    alone = _series(sweep, points, "none")
    places = [point.job.places for point in alone]
    _line(axes, 0, places, [point.messages for point in alone], "messages")
    _line(axes, 1, places, [point.steals for point in alone], "steals")
    _by_places(axes, sweep)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    pictures.dress(axes, "Per place (stealing alone)", "places")


def _line(axes: Axes, index: int, across: Sequence[float], upwards: Sequence[float], name: str) -> None:
    axes.plot(across, upwards, color=pictures.COLOURS[index], marker=pictures.MARKERS[index], label=name)


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
    pictures.dress(axes, f"Compute lost on {places:,} places, by w and by graph", "% of the time up to the last task")
    axes.grid(visible=False)
