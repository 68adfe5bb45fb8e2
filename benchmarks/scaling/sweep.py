"""The command ``python -m benchmarks.scaling model``: the runs of a picture, what is kept of them, the table."""

from __future__ import annotations

import json as json_module
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..compare import command_line, display
from ..compare.display import Sheet, written
from ..compare.engine import Comparison, Stage, carry_out
from ..harness.errors import BadUsage
from ..harness.measurement import ResultFile
from ..harness.progress import scaled
from .model import Computation, Job, Machine, Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


STEALS: Final = (0, 1, 2, 3, 5, 8)
RADICES: Final = (2, 4, 8, 16, 32)
MOST_PLACES: Final = 1_000_000
_STEP: Final = 4


@dataclass(kw_only=True)
class Sweep(Comparison):
    """The runs of one picture: by number of places, for each kind of finish; by random steals; by lifeline graph.

    Attributes:
        places: Numbers of places, ascending.
        base: What all runs have, but for the number of places.
        at: On how many places random steals and graphs are varied; in jobs of up to as many all goes to place 0
            itself, too.
        path: Where what came out is written after each run, if anywhere.
        points: What came out, also of earlier runs, which are not repeated.
    """

    name = "scaling model"
    title = "SIMULATED: the balancer on many places"

    rounds: int = 1
    places: Sequence[int]
    base: Job
    at: int
    machine: Machine = field(default_factory=Machine)
    path: Path | None = None
    points: dict[Job, Computation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        trees = [replace(self.base, places=count) for count in self.places]
        self.sizes = [*trees, *(replace(job, finish="home") for job in trees if job.places <= self.at)]
        still = replace(self.base, places=self.at, finish="none")
        self.steals = [replace(still, random_steals=steals) for steals in STEALS]
        self.graphs = [replace(still, radix=radix) for radix in RADICES if radix <= self.at]
        self.graphs += [replace(still, lifelines=kind, radix=4) for kind in ("kautz", "random")]
        self.graphs.append(replace(still, lifelines="ring"))

    @property
    def left(self) -> list[Job]:
        """What is still to be run, each once, small ones first."""
        jobs = sorted(dict.fromkeys((*self.sizes, *self.steals, *self.graphs)), key=lambda job: job.places)
        return [job for job in jobs if job not in self.points]

    @property
    def steps(self) -> int:
        """One for each run."""
        return len(self.left)

    @property
    def seed(self) -> int:
        """The seed of the choice of victims."""
        return self.base.seed

    def measure(self, stage: Stage) -> None:
        """Run what is left; what has come out is kept whatever ends this."""
        left = self.left
        for number, job in enumerate(left):
            spoken = f"{job.places:,} places, w {job.random_steals}, {graph_name(job)}, reports: {job.finish}"
            stage.progress.begin("model", f"{spoken}, run {number + 1} of {len(left)}")
            stage.progress.step(spoken)

            def note(share: float, now_s: float, spoken: str = spoken) -> None:
                stage.progress.note(f"{spoken}, at {now_s:.2f} s, {100 * share:.0f} %")

            self.points[job] = Model(job, self.machine, note).run()
            ResultFile(self.path).reserve(self.as_json())

    def as_json(self) -> dict[str, object]:
        """Return the content of the JSON file; seconds are those of the model."""
        return {
            "benchmark": self.name,
            "simulated": True,
            "machine": asdict(self.machine),
            "runs": [asdict(point) for point in self.points.values()],
        }

    def series(self, finish: str) -> list[Computation]:
        """Return what came out by number of places."""
        return [self.points[job] for job in self.sizes if job.finish == finish]

    def sheets(self) -> list[Sheet]:
        """Return the table: a section with trees and one without, one for w, one for the graphs."""
        at = f"{self.at:,} places, the stealing alone"
        sections = [
            [[_FINISH[finish]], *(_row(f"{point.job.places:,}", point) for point in self.series(finish))]
            for finish in _FINISH
        ]
        sections.append([[f"{at}, w ="], *(_row(str(job.random_steals), self.points[job]) for job in self.steals)])
        sections.append([[f"{at}, lifelines"], *(_row(graph_name(job), self.points[job]) for job in self.graphs)])
        return [Sheet(_HEADS, "l" + "r" * (len(_HEADS) - 1), sections)]

    def remarks(self) -> list[str]:
        """Return the lines below the table."""
        return [
            f"simulated: {self._conditions}; {self._usual}",
            "spread: until 99 % of the places have had work; end: from the last task to the result on place 0",
            "collecting: the part of it from the end of the finish on",
            "epoch: in the same job, from the commit of a grow by one place until all have entered the new epoch",
        ]

    @property
    def _conditions(self) -> str:
        """What the figures depend on, in one line."""
        return (
            f"{self.base.work_s:g} s of work per place, calls of {1e3 * self.machine.call_s:g} ms, latency "
            f"{1e6 * self.machine.latency_s:g} µs, {1e6 * self.machine.message_s:g} µs of CPU per message and end"
        )

    @property
    def _usual(self) -> str:
        return f"w = {self.base.random_steals}, {graph_name(self.base)} unless said"

    def draw(self, machine: str) -> Figure:  # noqa: ARG002 - it was simulated
        """Draw four panels."""
        figure, panels = display.new_picture(9.6, 7.0, 2, 2)
        for axes, panel in zip(panels.flat, (_efficiency, _times, _messages, _choices), strict=True):
            panel(axes, self)
        title = f"SIMULATED: {self.finding()}".replace(" %", "\N{NO-BREAK SPACE}%")
        figure.suptitle(textwrap.fill(title, 90), x=0.01, ha="left", fontsize=11, weight="bold")
        note = f"discrete-event simulation, no measurement: {self._conditions};\n{self._usual}"
        figure.supxlabel(note, fontsize=8, color=display.INK)
        return figure

    def finding(self) -> str:
        """Return what the picture says, in one line."""
        trees, homes = map(self.series, _FINISH)
        lost = [f"{100 * (1 - series[-1].efficiency):.1f} %" for series in (trees, homes) if series]
        text = f"{lost[0]} of the time is lost on {trees[-1].job.places:,} places, the end included"
        return f"{text}; by place 0 itself {lost[1]} on {homes[-1].job.places:,}" if homes else text


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
    counts = parse_places(_QUICK if quick else places)
    base = Job(places=2, work_s=0.5 if quick else work, seed=seed)
    asked = Sweep(places=counts, base=base, at=min(at, counts[-1]), path=json)
    asked.points = _earlier(json, asked.machine)
    return carry_out(asked, json, quiet, figure)


main = partial(command_line.main, PROGRAM, _command)


def _earlier(path: Path | None, machine: Machine) -> dict[Job, Computation]:
    """Return the runs that the result file holds already, and that need not be repeated.

    Raises:
        BadUsage: There is something else in it.
    """
    if path is None or not path.is_file():
        return {}
    try:
        content = json_module.loads(path.read_text(encoding="utf-8"))
        if content.get("benchmark") != Sweep.name or content.get("machine") != asdict(machine):
            return {}
        points = [Computation.from_json(run) for run in content["runs"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadUsage(f"--json {path}", "it holds something else", "give another --json, or remove the file") from None
    return {point.job: point for point in points}


# The table at the end ------------------------------------------------------------------------------------------------

_FINISH: Final = {"tree": "all by trees (the runtime)", "home": "all by place 0 itself"}
"""How reports, results and news travel."""
_HEADS: Final = (
    *("places", "efficiency", "to last task", "steals/place", "messages/place", "at place 0"),
    *("spread", "end", "collecting", "epoch"),
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


# The panels of the picture; they need matplotlib ---------------------------------------------------------------------


def _by_places(axes: Axes, sweep: Sweep) -> None:
    places = sorted({job.places for job in sweep.sizes})
    axes.set_xscale("log")
    axes.set_xticks(places, [_short(count) for count in places], rotation=0)
    axes.minorticks_off()


def _short(count: int) -> str:
    return f"{count // 1000}k" if count >= 1000 and count % 1000 == 0 else f"{count:,}"


def _efficiency(axes: Axes, sweep: Sweep) -> None:
    for index, finish in enumerate(_FINISH):
        series = sweep.series(finish)
        beside = (0, 11) if finish == "tree" else (8, -13)
        _line(axes, index, series, [100 * point.efficiency for point in series], _FINISH[finish], beside)
    _by_places(axes, sweep)
    axes.set_ylim(0, 112)
    display.dress_axes(axes, "Compute, of the time up to the result", "places", "%")


def _times(axes: Axes, sweep: Sweep) -> None:
    trees, homes = map(sweep.series, _FINISH)
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


def _messages(axes: Axes, sweep: Sweep) -> None:
    trees = sweep.series("tree")
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


def _choices(axes: Axes, sweep: Sweep) -> None:
    rows = [(f"w = {job.random_steals}", sweep.points[job]) for job in sweep.steals]
    rows += [(graph_name(job), sweep.points[job]) for job in sweep.graphs]
    lost = [100 * (1 - point.balance) for _, point in rows]
    colours = [display.COLOURS[0]] * len(sweep.steals) + [display.COLOURS[2]] * len(sweep.graphs)
    axes.barh(range(len(rows)), lost, color=colours, height=0.7)
    for position, ((_, point), share) in enumerate(zip(rows, lost, strict=True)):
        text = f"{share:.2f} %, {point.messages:,.0f} messages"
        axes.text(share + 0.01 * max(lost), position, text, va="center", fontsize=7.5, color=display.INK)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.6 * max(lost))
    worst, _ = min(rows, key=lambda _row: _row[1].balance)
    title = f"Lost to stealing on {sweep.at:,} places: most with {worst}"
    display.dress_axes(axes, title, "% of the time up to the last task")
    axes.grid(visible=False)
