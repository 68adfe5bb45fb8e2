"""What was measured, and its JSON form."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final, TextIO, TypeAlias

from ..harness import pictures
from ..harness.goals import written
from ..harness.progress import scaled
from . import catalogue
from .catalogue import MOST_LAG_S, Program

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from matplotlib.axes import Axes
    from rich.table import Table


@dataclass(frozen=True)
class Resize:
    """A grow or a shrink in the middle of a run: its kind, nodes and seconds."""

    kind: str
    nodes: int
    seconds: float


@dataclass
class Series:
    """One benchmark on 1, 2, … emulated nodes.

    Attributes:
        program: Which.
        problem: Its arguments.
        unit: What tasks are.
        rate: Tasks per second that a node is held to.
        share: How much of a core a node uses.
        runs_s: Seconds of each round, by nodes.
        lag_s: The furthest that a worker fell behind its pace, by nodes.
        verified: Whether every result was the known one; None if none is known.
        resizes: What was resized in a run of its own.
        failure: Why it is not complete; empty if it is.
    """

    program: Program
    problem: Sequence[str]
    unit: str = ""
    rate: float = 0.0
    share: float = 0.0
    runs_s: dict[int, list[float]] = field(default_factory=dict)
    lag_s: dict[int, float] = field(default_factory=dict)
    verified: bool | None = None
    resizes: list[Resize] = field(default_factory=list)
    failure: str = ""

    @property
    def seconds(self) -> dict[int, float]:
        """Median of the rounds by nodes."""
        return {nodes: median(runs) for nodes, runs in sorted(self.runs_s.items())}

    def speedup(self, nodes: int) -> float | None:
        """Return the time on one node over that on ``nodes``."""
        seconds = self.seconds
        return seconds[1] / seconds[nodes] if 1 in seconds and nodes in seconds else None

    def late(self, nodes: int) -> bool:
        """Tell whether the machine, not the emulated nodes, decided."""
        return self.lag_s.get(nodes, 0.0) > MOST_LAG_S

    def as_json(self) -> dict[str, object]:
        """Return the JSON form; seconds, tasks per second."""
        return {
            "benchmark": self.program.name,
            "problem": " ".join(self.problem),
            "unit": self.unit,
            "rate_per_node": self.rate,
            "share_of_a_core": self.share,
            "verified": self.verified,
            "nodes": {
                str(nodes): {
                    "seconds": seconds,
                    "runs_s": self.runs_s[nodes],
                    "speedup": self.speedup(nodes),
                    "worst_lag_s": self.lag_s[nodes],
                    "trusted": not self.late(nodes),
                }
                for nodes, seconds in self.seconds.items()
            },
            "resizes": [
                {"kind": resize.kind, "nodes": resize.nodes, "seconds": resize.seconds} for resize in self.resizes
            ],
            "failure": self.failure,
        }


@dataclass
class Results:
    """Everything that a run found out.

    Attributes:
        cores: Cores that were there.
        share: How much of them the emulated nodes were to use.
        rounds: How often everything was run.
        series: By benchmark.
        ended: Whether everything was measured.
    """

    cores: int
    share: float
    rounds: int
    series: dict[str, Series] = field(default_factory=dict)
    ended: bool = False

    @property
    def complete(self) -> bool:
        """Whether nothing failed, and no result was wrong."""
        return self.ended and all(not each.failure and each.verified is not False for each in self.series.values())

    def as_json(self, provenance: Mapping[str, object]) -> dict[str, object]:
        """Return the content of the JSON file."""
        return {
            "benchmark": "scaling",
            "emulated": "each node is a place whose worker is held to a rate",
            "share": self.share,
            "cores": self.cores,
            "ended": self.ended,
            "rounds": self.rounds,
            "series": [series.as_json() for series in self.series.values()],
            "provenance": dict(provenance),
        }


Published: TypeAlias = "Mapping[str, Mapping[str, Mapping[int, float]]]"


# The table at the end ------------------------------------------------------------------------------------------------

_WIDEST: Final = 400
_LEAST_WIDTH: Final = 80


def emulation(results: Results) -> str:
    """Say what is emulated, in one line."""
    return (
        f"emulated nodes (each is a place whose worker is held to a rate; all together use at most "
        f"{100 * results.share:.0f} % of {results.cores} cores)"
    )


def title(series: Series) -> str:
    """Name a series: benchmark, problem, pace of a node."""
    pace = f"{scaled(series.rate)} {series.unit}/s a node ({100 * series.share:.1f} % of a core)"
    return f"{series.program.title} {' '.join(series.problem)}, {pace}"


def row(series: Series, nodes: int, published: Published) -> list[str]:
    """Return the cells of a number of nodes: nodes, time, speed-up, efficiency, the paper's, remark."""
    speedup = series.speedup(nodes)
    program, size, _ = series.program.paper
    theirs = catalogue.efficiency(published.get(program, {}).get(size, {}), nodes)
    return [
        str(nodes),
        written(series.seconds[nodes], "s"),
        "-" if speedup is None else f"{speedup:.2f}",
        "-" if speedup is None else f"{100 * speedup / nodes:.1f} %",
        "" if theirs is None else f"{100 * theirs:.1f} %",
        f"the machine was late by {written(series.lag_s[nodes], 's')}" if series.late(nodes) else "",
    ]


def show_results(results: Results, published: Published, stream: TextIO | None = None) -> None:
    """Write the table and its remarks to standard output."""
    from rich.console import Console
    from rich.measure import Measurement
    from rich.text import Text

    console = Console(file=stream or sys.stdout, highlight=False)
    shown = [series for series in results.series.values() if series.seconds]
    tables = [_table(series, published) for series in shown]
    # a line that is too long for the terminal is better than one that is cut
    widths = [Measurement.get(console, console.options.update(max_width=_WIDEST), each).maximum for each in tables]
    console.width = max(_LEAST_WIDTH, *widths, *(len(title(series)) for series in results.series.values()))
    console.print(Text("Strong scaling on EMULATED nodes", style="bold"))
    for series, each in zip(shown, tables, strict=True):
        console.print(Text(title(series)))
        console.print(each)
    for remark in remarks(results, published):
        console.print(Text(remark), soft_wrap=True)


def _table(series: Series, published: Published) -> Table:
    from rich.table import Table

    table = Table()
    for name in ("nodes", "time", "speed-up", "efficiency", *(["the paper's"] if published else [])):
        table.add_column(name, justify="right", no_wrap=True)
    if doubtful := any(series.late(nodes) for nodes in series.seconds):
        table.add_column("", no_wrap=True)
    for nodes in series.seconds:
        *cells, theirs, remark = row(series, nodes, published)
        table.add_row(*cells, *([theirs] if published else []), *([remark] if doubtful else []))
    return table


def remarks(results: Results, published: Published) -> list[str]:
    """Return the lines below the table."""
    lines = [emulation(results), "efficiency: speed-up over one node of the same run, divided by the nodes"]
    if published:
        sizes = [
            f"{each.program.title} {catalogue.spoken_problem(each.program.paper[1], each.program.paper[2])}"
            for each in results.series.values()
        ]
        lines.append(f"the paper's: its own nodes (48 workers each) and problems, {', '.join(sizes)}")
    for series in results.series.values():
        for resize in series.resizes:
            sign = "+" if resize.kind == "grow" else "-"
            lines.append(f"{series.program.title}: {sign}{resize.nodes} nodes took {written(resize.seconds, 's')}")
        if series.verified is False:
            lines.append(f"{series.program.title}: WRONG RESULT")
        if series.failure:
            lines.append(f"{series.program.title} FAILED: {series.failure}")
    if any(series.late(nodes) for series in results.series.values() for nodes in series.seconds):
        lines.append(
            f"a worker that is late by more than {MOST_LAG_S} s was held up by this machine: do not trust that line; "
            "give a smaller --share, or stop what else runs"
        )
    return lines


# The picture, in the manner of the paper's figure 6: running time over nodes, a panel per benchmark ------------------

_OURS: Final = pictures.COLOURS[0]
_THEIRS: Final = pictures.COLOURS[1]
_TICKS: Final = (1, 2, 4, 8, 16)


def draw_figure(results: Results, published: Published, path: Path) -> None:
    """Draw all series; the ending of ``path`` tells the kind of file."""
    shown = [series for series in results.series.values() if series.seconds]
    figure, panels = pictures.new_picture(2.9 * max(len(shown), 2), 4.4, 1, max(len(shown), 1))
    for index, series in enumerate(shown):
        axes = panels[0][index]
        _ours(axes, series)
        _theirs(axes, series, published)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(_TICKS, [str(nodes) for nodes in _TICKS])
        axes.set_xlim(0.85, 26)
        axes.set_ylim(top=1.7 * axes.get_ylim()[1])
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        pictures.dress_axes(axes, series.program.title, "nodes", "" if index else "running time, s")
    best = {series.program.title: _last(series) for series in shown}
    figure.suptitle(
        "Strong scaling on EMULATED nodes; efficiency "
        + ", ".join(f"{title} {100 * share:.0f} % on {nodes}" for title, (nodes, share) in best.items()),
        x=0.01,
        ha="left",
        fontsize=11,
        weight="bold",
    )
    rounds = "1 run" if results.rounds == 1 else f"medians of {results.rounds} runs"
    note = f"Filled: {rounds} on {emulation(results)}; dotted: ideal."
    if published:
        note += "\nHollow: the paper's times on its own nodes (48 workers each), for its own, larger problems."
    figure.supxlabel(note, fontsize=8, color=pictures.INK)
    figure.savefig(path, dpi=150)


def _last(series: Series) -> tuple[int, float]:
    nodes = max(series.seconds)
    return nodes, (series.speedup(nodes) or 0.0) / nodes


def _ours(axes: Axes, series: Series) -> None:
    seconds = series.seconds
    axes.plot(list(seconds), list(seconds.values()), color=_OURS, marker="o", markersize=5, linewidth=1.4, zorder=3)
    first = min(seconds)
    ideal = [seconds[first] * first / nodes for nodes in (first, max(seconds))]
    axes.plot([first, max(seconds)], ideal, color=pictures.INK, linestyle=":", linewidth=1)
    label = " ".join(series.problem).lstrip("-")
    axes.annotate(label, (first, seconds[first]), (4, 6), textcoords="offset points", fontsize=8, color=_OURS)


def _theirs(axes: Axes, series: Series, published: Published) -> None:
    program, _, unit = series.program.paper
    for size, times in published.get(program, {}).items():
        nodes = sorted(times)
        axes.plot(
            nodes,
            [times[count] for count in nodes],
            color=_THEIRS,
            marker="o",
            markersize=5,
            markerfacecolor="none",
            linewidth=0.7,
            alpha=0.9,
        )
        axes.annotate(
            catalogue.spoken_problem(size, unit),
            (nodes[0], times[nodes[0]]),
            (3, 6),
            textcoords="offset points",
            fontsize=8,
            color=_THEIRS,
        )
