"""Table and figure of a sweep."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Final, TextIO

from ...harness import pictures
from ...harness.goals import written
from ...harness.progress import scaled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from .engine import Job, Machine
    from .sweep import Point, Sweep


# The table at the end ------------------------------------------------------------------------------------------------

_WIDEST: Final = 400
_FINISH: Final = {
    "home": "reports go to place 0, as in the runtime",
    "tree": "reports go up a tree, which the runtime does not have",
    "none": "no reports: the stealing alone",
}


def conditions(machine: Machine, base: Job) -> str:
    """Return what the figures depend on, in one line."""
    return (
        f"{base.work_s:g} s of work per place, calls of {1e3 * machine.call_s:g} ms, latency "
        f"{1e6 * machine.latency_s:g} µs, {1e6 * machine.message_s:g} µs of CPU per message and end"
    )


def graph_name(job: Job) -> str:
    """Name the lifeline graph of a job."""
    return "ring" if job.lifelines == "ring" else f"{job.lifelines} {job.radix}"


def row(name: str, point: Point) -> list[str]:
    """Return the cells of a run."""
    return [
        name,
        f"{100 * point.efficiency:.1f} %",
        f"{100 * point.balance:.1f} %",
        f"{point.steals:.1f}",
        f"{point.messages:.0f}",
        scaled(point.home_messages),
        "-" if point.spread_s is None else written(point.spread_s, "s"),
        written(point.end_s, "s"),
    ]


def show_table(
    sweep: Sweep, points: Mapping[Job, Point], machine: Machine, base: Job, stream: TextIO | None = None
) -> None:
    """Write the table to standard output."""
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

    console = Console(file=stream or sys.stdout, highlight=False, soft_wrap=True)
    table = Table(title="SIMULATED: the balancer on many places", title_justify="left", title_style="bold")
    table.add_column("places", no_wrap=True)
    for name in ("efficiency", "to last task", "steals/place", "messages/place", "at place 0", "spread", "end"):
        table.add_column(name, justify="right", no_wrap=True)
    for finish in dict.fromkeys(job.finish for job in sweep.sizes):
        _section(table, _FINISH[finish], [(f"{j.places:,}", points[j]) for j in sweep.sizes if j.finish == finish])
    at = sweep.steals[0].places
    _section(table, f"{at:,} places, w =", [(str(job.random_steals), points[job]) for job in sweep.steals])
    _section(table, f"{at:,} places, lifelines", [(graph_name(job), points[job]) for job in sweep.graphs])
    # a line that is too long for the terminal is better than one that is cut
    console.width = max(Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum, 80)
    console.print(table)
    console.print(f"simulated: {conditions(machine, base)}; w = {base.random_steals}, {graph_name(base)} unless said")
    console.print("spread: until 99 % of the places have had work; end: from the last task to the result on place 0")


def _section(table: object, title: str, rows: Sequence[tuple[str, Point]]) -> None:
    from rich.table import Table

    assert isinstance(table, Table)
    table.add_section()
    table.add_row(title, style="dim")
    for name, point in rows:
        table.add_row(*row(name, point))


# The picture of the model: four panels; needs matplotlib -------------------------------------------------------------

_NAMES: Final = {"none": "stealing alone", "tree": "reports up a tree", "home": "reports to place 0 (the runtime)"}


def draw_figure(sweep: Sweep, points: Mapping[Job, Point], machine: Machine, base: Job, path: Path) -> None:
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
