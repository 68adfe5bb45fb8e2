"""The command ``python -m benchmarks.scaling model``: the runs of a picture, what is kept of them, the table."""

from __future__ import annotations

import json as json_module
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..compare import command_line, display
from ..compare.display import Sheet, written
from ..compare.engine import name_files
from ..harness.errors import BadUsage
from ..harness.measurement import ResultFile, gather_provenance
from ..harness.progress import scaled
from .model import Computation, Job, Machine, Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes


STEALS: Final = (0, 1, 2, 3, 5, 8)
RADICES: Final = (2, 4, 8, 16, 32)
MOST_PLACES: Final = 1_000_000
_STEP: Final = 4


@dataclass(frozen=True)
class Sweep:
    """The runs of one picture.

    Attributes:
        sizes: By number of places, for each kind of finish.
        steals: By number of random steals.
        graphs: By lifeline graph.
    """

    sizes: tuple[Job, ...]
    steals: tuple[Job, ...]
    graphs: tuple[Job, ...]

    @property
    def jobs(self) -> tuple[Job, ...]:
        """All runs, each once, small ones first."""
        return tuple(sorted(dict.fromkeys((*self.sizes, *self.steals, *self.graphs)), key=lambda job: job.places))


def sweep_of(places: Sequence[int], base: Job, at: int) -> Sweep:
    """Return the runs for ``places``; w and the graphs are varied ``at`` a number of places.

    In jobs of up to as many places all goes to place 0 itself, too. ``base`` is all but the number of places.
    """
    still = replace(base, places=at, finish="none")
    hypercubes = tuple(replace(still, radix=radix) for radix in RADICES if radix <= at)
    others = [replace(still, lifelines="kautz", radix=4), replace(still, lifelines="random", radix=4)]
    trees = tuple(replace(base, places=count, finish="tree") for count in places)
    return Sweep(
        sizes=(*trees, *(replace(job, finish="home") for job in trees if job.places <= at)),
        steals=tuple(replace(still, random_steals=steals) for steals in STEALS),
        graphs=(*hypercubes, *others, replace(still, lifelines="ring")),
    )


def parse_places(text: str) -> tuple[int, ...]:
    """Parse ``16,64,1000`` or ``16..100000``, which goes up in steps of 4 times.

    Raises:
        BadUsage: That makes no numbers of places.
    """
    try:
        found = sorted({count for part in text.split(",") for count in _range(part)})
    except ValueError:
        found = []
    if not found or found[0] < 2 or found[-1] > MOST_PLACES:
        raise BadUsage(
            f"--places {text}",
            f"these are no numbers of places from 2 to {MOST_PLACES:,}",
            "give them like --places 16,1000 or --places 16..4096",
        )
    return tuple(found)


def _range(part: str) -> Iterator[int]:
    first, dots, last = part.partition("..")
    count, most = int(first), int(last if dots else first)
    while count < most:
        yield count
        count *= _STEP
    yield most


def as_json(points: Sequence[Computation], machine: Machine, provenance: Mapping[str, object]) -> dict[str, object]:
    """Return the content of the JSON file; seconds are those of the model."""
    return {
        "benchmark": "scaling model",
        "simulated": True,
        "machine": asdict(machine),
        "runs": [asdict(point) for point in points],
        "provenance": dict(provenance),
    }


# The command ---------------------------------------------------------------------------------------------------------

PROGRAM: Final = f"python -m {__package__} model"
_AT: Final = 1024
_QUICK: Final = "16,64"


def _command(
    places: Annotated[str, typer.Option(help="Numbers of places: 16,100 or 16..100000 (in steps of 4 times).")] = (
        "16..4096"
    ),
    work: Annotated[float, typer.Option(help="Seconds of work per place.")] = 10.0,
    at: Annotated[
        int, typer.Option(help="Places of the runs that vary w and the graph, and the most without trees.")
    ] = _AT,
    seed: Annotated[int, typer.Option(help="Seed of the choice of victims.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Few places and little work: a look.")] = False,
    json: Annotated[
        Path | None, typer.Option(help="Write the result there; runs that it holds are not repeated.")
    ] = None,
    figure: command_line.Figure = None,
    quiet: command_line.Quiet = False,
) -> int:
    """Simulate the balancer on many places: a discrete-event simulation of its real state machines.

    Example: python -m benchmarks.scaling model --places 16..4096 --figure model.png
    """
    if not work > 0:
        raise BadUsage(f"--work {work:g}", "there must be work", "give a positive number of seconds")
    if at < 2:
        raise BadUsage(f"--at {at}", "there must be at least 2 places", f"give --at {_AT}")
    display.check_picture(figure)
    counts = parse_places(_QUICK if quick else places)
    base = Job(places=2, work_s=0.5 if quick else work, seed=seed)
    chosen = sweep_of(counts, base, min(at, counts[-1]))
    return _run(chosen, base, Machine(), json, figure, quiet)


main = partial(command_line.main, PROGRAM, _command)


def _run(chosen: Sweep, base: Job, machine: Machine, path: Path | None, figure: Path | None, quiet: bool) -> int:
    points = _earlier(path, machine)
    target = ResultFile(path)
    found = gather_provenance((), base.seed)
    left = [job for job in chosen.jobs if job not in points]
    with command_line.interruptible(), command_line.RunProgress(len(left), quiet) as progress:
        for number, job in enumerate(left):
            progress.begin("model", f"{_spoken(job)}, run {number + 1} of {len(left)}")
            progress.step(_spoken(job))

            def note(share: float, now_s: float, job: Job = job) -> None:
                progress.note(f"{_spoken(job)}, at {now_s:.2f} s, {100 * share:.0f} %")

            points[job] = Model(job, machine, note).run()
            target.write(as_json(list(points.values()), machine, found))
    display.show_sheets("SIMULATED: the balancer on many places", [sheet_of(chosen, points)], remarks(machine, base))
    if figure is not None:
        draw_figure(chosen, points, machine, base, figure)
    name_files(path, figure)
    return 0


def _spoken(job: Job) -> str:
    return f"{job.places:,} places, w {job.random_steals}, {graph_name(job)}, reports: {job.finish}"


def _earlier(path: Path | None, machine: Machine) -> dict[Job, Computation]:
    """Return the runs that the result file holds already, and that need not be repeated.

    Raises:
        BadUsage: There is something else in it.
    """
    if path is None or not path.is_file():
        ResultFile(path).reserve()
        return {}
    try:
        content = json_module.loads(path.read_text(encoding="utf-8"))
        if content.get("benchmark") != "scaling model" or content.get("machine") != asdict(machine):
            return {}
        points = [Computation.from_json(run) for run in content["runs"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadUsage(f"--json {path}", "it holds something else", "give another --json, or remove the file") from None
    return {point.job: point for point in points}


# The table at the end ------------------------------------------------------------------------------------------------

_FINISH: Final = {"tree": "all by trees (the runtime)", "home": "all by place 0 itself"}
"""How reports, results and news travel."""


def conditions(machine: Machine, base: Job) -> str:
    """Return what the figures depend on, in one line."""
    return (
        f"{base.work_s:g} s of work per place, calls of {1e3 * machine.call_s:g} ms, latency "
        f"{1e6 * machine.latency_s:g} µs, {1e6 * machine.message_s:g} µs of CPU per message and end"
    )


def graph_name(job: Job) -> str:
    """Name the lifeline graph of a job."""
    return "ring" if job.lifelines == "ring" else f"{job.lifelines} {job.radix}"


def _row(name: str, point: Computation) -> list[str]:
    alone = point.job.finish == "none"
    ends = (None, None, None) if alone else (point.end_s, point.collect_s, point.news_s)
    return [
        name,
        "-" if alone else f"{100 * point.efficiency:.1f} %",
        f"{100 * point.balance:.1f} %",
        f"{point.steals:.1f}",
        f"{point.messages:.0f}",
        scaled(point.home_messages),
        *("-" if each is None else written(each, "s") for each in (point.spread_s, *ends)),
    ]


def sheet_of(sweep: Sweep, points: Mapping[Job, Computation]) -> Sheet:
    """Return the table: a section with trees and one without, one for w, one for the graphs."""
    at = f"{sweep.steals[0].places:,} places, the stealing alone"
    sections = [
        [[_FINISH[finish]], *(_row(f"{job.places:,}", points[job]) for job in sweep.sizes if job.finish == finish)]
        for finish in _FINISH
    ]
    sections.append([[f"{at}, w ="], *(_row(str(job.random_steals), points[job]) for job in sweep.steals)])
    sections.append([[f"{at}, lifelines"], *(_row(graph_name(job), points[job]) for job in sweep.graphs)])
    heads = (
        "places",
        "efficiency",
        "to last task",
        "steals/place",
        "messages/place",
        "at place 0",
        "spread",
        "end",
        "collecting",
        "epoch",
    )
    return Sheet(heads, "lrrrrrrrrr", sections)


def remarks(machine: Machine, base: Job) -> list[str]:
    """Return the lines below the table."""
    return [
        f"simulated: {conditions(machine, base)}; w = {base.random_steals}, {graph_name(base)} unless said",
        "spread: until 99 % of the places have had work; end: from the last task to the result on place 0",
        "collecting: the part of it from the end of the finish on",
        "epoch: in the same job, from the commit of a grow by one place until all have entered the new epoch",
    ]


# The picture of the model: four panels; needs matplotlib -------------------------------------------------------------


def draw_figure(sweep: Sweep, points: Mapping[Job, Computation], machine: Machine, base: Job, path: Path) -> None:
    """Draw the runs of ``sweep``; the suffix of ``path`` decides the kind of file."""
    figure, panels = display.new_picture(9.6, 7.0, 2, 2)
    _efficiency(panels[0][0], sweep, points)
    _times(panels[0][1], sweep, points)
    _messages(panels[1][0], sweep, points)
    _choices(panels[1][1], sweep, points)
    title = f"SIMULATED: {finding(sweep, points)}".replace(" %", "\N{NO-BREAK SPACE}%")
    figure.suptitle(textwrap.fill(title, 90), x=0.01, ha="left", fontsize=11, weight="bold")
    figure.supxlabel(
        f"discrete-event simulation, no measurement: {conditions(machine, base)};\n"
        f"w = {base.random_steals}, {graph_name(base)} unless said",
        fontsize=8,
        color=display.INK,
    )
    figure.savefig(path, dpi=150)


def finding(sweep: Sweep, points: Mapping[Job, Computation]) -> str:
    """Return what the picture says, in one line."""
    trees, homes = (_series(sweep, points, finish) for finish in _FINISH)
    lost = [f"{100 * (1 - series[-1].efficiency):.1f} %" for series in (trees, homes) if series]
    text = f"{lost[0]} of the time is lost on {trees[-1].job.places:,} places, the end included"
    return f"{text}; by place 0 itself {lost[1]} on {homes[-1].job.places:,}" if homes else text


def _series(sweep: Sweep, points: Mapping[Job, Computation], finish: str) -> list[Computation]:
    return [points[job] for job in sweep.sizes if job.finish == finish]


def _by_places(axes: Axes, sweep: Sweep) -> None:
    places = sorted({job.places for job in sweep.sizes})
    axes.set_xscale("log")
    axes.set_xticks(places, [_short(count) for count in places], rotation=0)
    axes.minorticks_off()


def _short(count: int) -> str:
    return f"{count // 1000}k" if count >= 1000 and count % 1000 == 0 else f"{count:,}"


def _efficiency(axes: Axes, sweep: Sweep, points: Mapping[Job, Computation]) -> None:
    for index, finish in enumerate(_FINISH):
        series = _series(sweep, points, finish)
        beside = (0, 11) if finish == "tree" else (8, -13)
        _line(axes, index, series, [100 * point.efficiency for point in series], _FINISH[finish], beside)
    _by_places(axes, sweep)
    axes.set_ylim(0, 112)
    display.dress_axes(axes, "Compute, of the time up to the result", "places", "%")


def _times(axes: Axes, sweep: Sweep, points: Mapping[Job, Computation]) -> None:
    trees, homes = (_series(sweep, points, finish) for finish in _FINISH)
    _line(axes, 0, trees, [point.spread_s for point in trees], "99 % have worked", (-38, 3), scale=1e3)
    _line(axes, 1, trees, [point.end_s for point in trees], "last task to result", (-10, 2), scale=1e3)
    _line(axes, 2, trees, [point.news_s for point in trees], "news of an epoch", (-12, 8), scale=1e3)
    _line(axes, 3, homes, [point.news_s for point in homes], "news, by place 0 itself", (-10, 0), scale=1e3)
    _by_places(axes, sweep)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    last = trees[-1]
    title = f"{last.job.places:,} places: the end takes {_seconds(last.end_s)}, an epoch {_seconds(last.news_s or 0.0)}"
    display.dress_axes(axes, title, "places", "ms")


def _messages(axes: Axes, sweep: Sweep, points: Mapping[Job, Computation]) -> None:
    trees = _series(sweep, points, "tree")
    _line(axes, 0, trees, [point.messages for point in trees], "messages", (-8, 4))
    _line(axes, 1, trees, [point.steals for point in trees], "steals", (-4, -16))
    _by_places(axes, sweep)
    axes.set_ylim(bottom=0)
    title = "Messages and steals per place"
    if len(trees) > 1 and trees[0].messages:
        more, wider = trees[-1].messages / trees[0].messages, trees[-1].job.places / trees[0].job.places
        title = f"{more:.1f} times the messages of a place on {wider:,.0f} times the places"
    display.dress_axes(axes, title, "places", "per place")


def _line(
    axes: Axes,
    index: int,
    series: Sequence[Computation],
    values: Sequence[float | None],
    name: str,
    beside: tuple[float, float],
    scale: float = 1.0,
) -> None:
    known = [(each.job.places, scale * value) for each, value in zip(series, values, strict=True) if value is not None]
    color, marker = display.COLOURS[index], display.MARKERS[index]
    axes.plot([places for places, _ in known], [value for _, value in known], color=color, marker=marker)
    for end in known[-1:]:
        axes.annotate(name, end, beside, textcoords="offset points", ha="right", va="center", fontsize=8.5, color=color)


def _seconds(value_s: float) -> str:
    return f"{value_s:.1f} s" if value_s >= 1 else f"{1000 * value_s:.0f} ms"


def _choices(axes: Axes, sweep: Sweep, points: Mapping[Job, Computation]) -> None:
    rows = [(f"w = {job.random_steals}", points[job]) for job in sweep.steals]
    rows += [(graph_name(job), points[job]) for job in sweep.graphs]
    lost = [100 * (1 - point.balance) for _, point in rows]
    colours = [display.COLOURS[0]] * len(sweep.steals) + [display.COLOURS[2]] * len(sweep.graphs)
    axes.barh(range(len(rows)), lost, color=colours, height=0.7)
    for position, ((_, point), share) in enumerate(zip(rows, lost, strict=True)):
        text = f"{share:.2f} %, {point.messages:,.0f} messages"
        axes.text(share + 0.01 * max(lost), position, text, va="center", fontsize=7.5, color=display.INK)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.6 * max(lost))
    places = sweep.steals[0].places
    worst, _ = min(rows, key=lambda _row: _row[1].balance)
    title = f"Lost to stealing on {places:,} places: most with {worst}"
    display.dress_axes(axes, title, "% of the time up to the last task")
    axes.grid(visible=False)
