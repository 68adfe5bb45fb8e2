"""Strong scaling on emulated nodes: places whose one worker each is held to a rate; and what all scaling shares."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from ..compare import display
from ..compare.child import ContenderFailed, environment
from ..compare.display import Sheet, written
from ..compare.engine import OURS, Comparison, Contenders, Stage, Turn
from ..harness.measurement import cores
from ..harness.progress import scaled
from .catalogue import MOST_LAG_S, Program, Published, efficiency, one_node_s, spoken_problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_START_S: Final = 120.0
"""Enough to start and to compile the kernel."""
_CALIBRATIONS: Final = 3
_BENCHMARKS: Final = __package__.rpartition(".")[0]


@dataclass
class Series:
    """One benchmark on 1, 2, … nodes.

    Attributes:
        unit: What tasks are.
        rate: Tasks per second that an emulated node is held to; 0: to none.
        share: How much of a core it uses.
        runs_s: Seconds of each round, by nodes.
        lag_s: The furthest that a worker fell behind its pace, by nodes.
        copies: Tasks per second of as many programs that compute alone at the same time, by nodes, each round.
        verified: Whether every result was the known one; None if none is known.
        resizes: What was resized in a run of its own, in the middle of it: kind, nodes and seconds.
    """

    program: Program
    problem: Sequence[str]
    unit: str = ""
    rate: float = 0.0
    share: float = 0.0
    runs_s: dict[int, list[float]] = field(default_factory=dict)
    lag_s: dict[int, float] = field(default_factory=dict)
    tasks: int = 0
    copies: dict[int, list[float]] = field(default_factory=dict)
    verified: bool | None = None
    resizes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def seconds(self) -> dict[int, float]:
        """Median of the rounds by nodes."""
        return {nodes: median(runs) for nodes, runs in sorted(self.runs_s.items())}

    def speedup(self, nodes: int) -> float | None:
        """Return the time on one node over that on ``nodes``."""
        seconds = self.seconds
        return seconds[1] / seconds[nodes] if 1 in seconds and nodes in seconds else None

    def speed_cells(self, nodes: int) -> list[str]:
        """Write speed-up and efficiency for people."""
        speedup = self.speedup(nodes)
        return ["-", "-"] if speedup is None else [f"{speedup:.2f}", f"{100 * speedup / nodes:.1f} %"]

    def late(self, nodes: int) -> bool:
        """Return whether the machine, not the emulated nodes, decided."""
        return self.lag_s.get(nodes, 0.0) > MOST_LAG_S

    @property
    def title(self) -> str:
        """Benchmark, problem, pace of a node."""
        pace = f"{scaled(self.rate)} {self.unit}/s a node ({100 * self.share:.1f} % of a core)"
        return f"{self.program.title} {' '.join(self.problem)}, {pace}"

    def as_json(self) -> dict[str, object]:
        """Return the JSON form; seconds, tasks per second."""
        pace = {"rate_per_node": self.rate, "share_of_a_core": self.share}
        return {
            "benchmark": self.program.name,
            "problem": " ".join(self.problem),
            "unit": self.unit,
            "tasks": self.tasks,
            **(
                pace if self.rate else {"copies_tasks_per_s": {str(nodes): runs for nodes, runs in self.copies.items()}}
            ),
            "verified": self.verified,
            "nodes": {
                str(nodes): {
                    "seconds": seconds,
                    "runs_s": self.runs_s[nodes],
                    "speedup": self.speedup(nodes),
                    **({"worst_lag_s": self.lag_s[nodes], "trusted": not self.late(nodes)} if self.rate else {}),
                }
                for nodes, seconds in self.seconds.items()
            },
            "resizes": self.resizes,
        }


@dataclass(kw_only=True)
class Scaling(Comparison):
    """Every benchmark on 1, 2, ... emulated nodes, in turn; a benchmark that fails once is left out from then on.

    Attributes:
        nodes: On how many nodes, ascending.
        share: How much of the cores all nodes together may use.
        least_s: Least seconds on one node.
        quick: Whether to take small problems and to leave the resizes out.
    """

    name = "scaling"
    title = "Strong scaling on EMULATED nodes"
    what: ClassVar[str] = "measuring what a core does, then on emulated nodes"
    unit: ClassVar[str] = "nodes"

    programs: Sequence[Program]
    nodes: Sequence[int]
    share: float
    least_s: float
    quick: bool
    published: Published = field(default_factory=dict)
    cores: int = field(default_factory=cores)
    series: dict[str, Series] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Number of runs."""
        return len(self.programs) * (1 + self.rounds * len(self.nodes) + self.resizes)

    @property
    def resizes(self) -> bool:
        """Whether there is a run with resizes."""
        return not self.quick and self.nodes[-1] >= 2

    @property
    def complete(self) -> bool:
        """Whether nothing failed, and no result was wrong."""
        return super().complete and all(series.verified is not False for series in self.series.values())

    def measure(self, stage: Stage) -> None:
        """Run everything."""
        runs = count()
        for program in self.programs:
            problem = program.option, program.quick if self.quick else program.usual
            series = self.series[program.name] = Series(program, problem)
            stage.progress.begin(program.name, self.what)
            try:
                self._measure(stage, series, partial(_jobs, stage, runs, series))
            except ContenderFailed as error:
                self.failures[program.name, OURS] = str(error)

    def _measure(self, stage: Stage, series: Series, jobs: Jobs) -> None:
        stage.progress.step("what a core does")
        # CPU seconds, not the time, so that what else runs does not make the nodes slower
        (full,) = jobs(1, 1, ["--repeat", str(_CALIBRATIONS)], _START_S)
        cpu_s = full["cpu_s"]
        one_s = one_node_s(cpu_s, self.nodes[-1], self.cores, self.share, self.least_s)
        series.unit, series.tasks = full["unit"], full["tasks"]
        series.rate, series.share = series.tasks / one_s, cpu_s / one_s
        pace = ["--rate", repr(series.rate)]

        def paced(nodes: int) -> Mapping[str, object]:
            (result,) = jobs(1, nodes, pace, _START_S + 5 * one_s)
            series.runs_s.setdefault(nodes, []).append(result["seconds"])
            lag_s = result["statistics"]["worst_lag_s"]
            series.lag_s[nodes] = max(lag_s, series.lag_s.get(nodes, 0.0))
            return result

        turns = [Turn(OURS, f"{nodes} nodes, {one_s / nodes:.0f} s", partial(paced, nodes)) for nodes in self.nodes]
        self.take_turns(stage, series.program.name, turns)
        if self.resizes and (series.program.name, OURS) not in self.failures:
            self._resize(stage, series, jobs, pace, one_s)

    def _resize(self, stage: Stage, series: Series, jobs: Jobs, pace: list[str], one_s: float) -> None:
        """Double the nodes in the middle of a run, then give them back.

        A quarter of the most nodes begins, so that the run lasts longer than the resizes.
        """
        nodes = max(1, self.nodes[-1] // 4)
        whole_s = one_s / nodes
        stage.progress.step(f"{nodes} nodes grow to {2 * nodes} and back")
        orders = f"{0.1 * whole_s:.2f}:+{nodes},{0.4 * whole_s:.2f}:-{nodes}"
        (result,) = jobs(1, nodes, [*pace, "--orders", orders], _START_S + 5 * one_s)
        series.resizes = [
            {"kind": record["kind"], "nodes": record["n"], "seconds": record["seconds"]}
            for record in result["resizes"]
            if record["outcome"] == "done"
        ]

    @property
    def _shown(self) -> list[Series]:
        return [series for series in self.series.values() if series.seconds]

    @property
    def emulation(self) -> str:
        """What is emulated, in one line."""
        return (
            f"emulated nodes (each is a place whose worker is held to a rate; all together use at most "
            f"{100 * self.share:.0f} % of {self.cores} cores)"
        )

    def sheets(self) -> list[Sheet]:
        """Return a table per benchmark."""
        return [self._sheet(series) for series in self._shown]

    def _sheet(self, series: Series) -> Sheet:
        """Return nodes, time, speed-up, efficiency, the paper's where it is at hand, remarks where there are any."""
        doubtful = any(series.late(nodes) for nodes in series.seconds)
        program, size, _ = series.program.paper
        published = self.published.get(program, {}).get(size, {})
        rows = []
        for nodes, seconds in series.seconds.items():
            theirs = efficiency(published, nodes)
            row = [str(nodes), written(seconds, "s"), *series.speed_cells(nodes)]
            if self.published:
                row.append("" if theirs is None else f"{100 * theirs:.1f} %")
            if doubtful:
                late = f"the machine was late by {written(series.lag_s[nodes], 's')}"
                row.append(late if series.late(nodes) else "")
            rows.append(row)
        heads = ["nodes", "time", "speed-up", "efficiency", *(["the paper's"] if self.published else [])]
        align = "r" * len(heads)
        return Sheet([*heads, ""] if doubtful else heads, f"{align}l" if doubtful else align, [rows], series.title)

    def remarks(self) -> list[str]:
        """Say how to read the tables, what the resizes took, what failed, and what not to trust."""
        lines = [
            self.emulation,
            f"efficiency: speed-up over one of the {self.unit} of the same run, divided by their number",
        ]
        if self.published:
            sizes = [
                f"{each.program.title} {spoken_problem(each.program.paper[1], each.program.paper[2])}"
                for each in self.series.values()
            ]
            lines.append(f"the paper's: its own nodes (48 workers each) and problems, {', '.join(sizes)}")
        for name, series in self.series.items():
            for resize in series.resizes:
                change = f"{'+' if resize['kind'] == 'grow' else '-'}{resize['nodes']}"
                lines.append(f"{series.program.title}: {change} nodes took {written(resize['seconds'], 's')}")
            if series.verified is False:
                lines.append(f"{series.program.title}: WRONG RESULT")
            if (name, OURS) in self.failures:
                lines.append(f"{series.program.title} FAILED: {self.failures[name, OURS]}")
        if any(series.late(nodes) for series in self.series.values() for nodes in series.seconds):
            lines.append(
                f"a worker that is late by more than {MOST_LAG_S} s was held up by this machine: do not trust that "
                "line; give a smaller --share, or stop what else runs"
            )
        return lines

    def as_json(self) -> dict[str, object]:
        """Return the content of the JSON file."""
        return {
            "benchmark": self.name,
            "emulated": "each node is a place whose worker is held to a rate",
            "share": self.share,
            "cores": self.cores,
            "ended": self.ended,
            "rounds": self.rounds,
            "series": [
                {**series.as_json(), "failure": self.failures.get((name, OURS), "")}
                for name, series in self.series.items()
            ],
        }

    def draw(self, machine: str) -> Figure:  # noqa: ARG002 - emulated nodes are no machine's
        """Draw the running time over the nodes, a panel per benchmark, in the manner of the paper's figure 6."""
        shown = self._shown
        most = max(_PUBLISHED_NODES, *self.nodes)
        ticks = [1 << power for power in range(most.bit_length())]
        figure, panels = display.new_picture(2.9 * max(len(shown), 2), 4.4, 1, max(len(shown), 1))
        for index, series in enumerate(shown):
            axes = panels[0][index]
            _ours(axes, series)
            self._draw_beside(axes, series)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks(ticks, [str(nodes) for nodes in ticks])
            axes.set_xlim(0.85, 1.6 * most)
            axes.set_ylim(top=1.7 * axes.get_ylim()[1])
            axes.yaxis.set_major_formatter("{x:g}")
            axes.minorticks_off()
            display.dress_axes(axes, series.program.title, self.unit, "" if index else "running time, s")
        best = {series.program.title: _last(series) for series in shown}
        figure.suptitle(
            f"{self.title}; efficiency "
            + ", ".join(f"{title} {100 * share:.0f} % on {nodes}" for title, (nodes, share) in best.items()),
            x=0.01,
            ha="left",
            fontsize=11,
            weight="bold",
        )
        rounds = "1 run" if self.rounds == 1 else f"medians of {self.rounds} runs"
        figure.supxlabel(self._drawn(rounds), fontsize=8, color=display.INK)
        return figure

    def _draw_beside(self, axes: Axes, series: Series) -> None:
        """Draw what a benchmark is compared with."""
        program, _, unit = series.program.paper
        color = display.COLOURS[1]
        for size, times in self.published.get(program, {}).items():
            nodes, took_s = zip(*sorted(times.items()), strict=True)
            axes.plot(nodes, took_s, "o-", color=color, markersize=5, markerfacecolor="none", linewidth=0.7, alpha=0.9)
            text, first = spoken_problem(size, unit), (nodes[0], took_s[0])
            axes.annotate(text, first, (3, 6), textcoords="offset points", fontsize=8, color=color)

    def _drawn(self, rounds: str) -> str:
        """Say what is drawn."""
        note = f"Filled: {rounds} on {self.emulation}; dotted: ideal."
        if self.published:
            note += "\nHollow: the paper's times on its own nodes (48 workers each), for its own, larger problems."
        return note


# The runs of a benchmark ---------------------------------------------------------------------------------------------

Jobs: TypeAlias = Callable[[int, int, Sequence[str], float], list[dict[str, Any]]]
"""Runs a number of equal jobs at the same time, each on a number of nodes, with more options, within a number of
seconds, and returns their JSON results."""


def _jobs(
    stage: Stage, runs: Iterator[int], series: Series, copies: int, nodes: int, options: Sequence[str], limit_s: float
) -> list[dict[str, Any]]:
    """Run a benchmark to its end, ``copies`` times at once, and return the JSON results.

    Raises:
        ContenderFailed: One did not end, or not well.
    """
    paths = [stage.folder / f"{series.program.name}-{next(runs)}.json" for _ in range(copies)]
    benchmark = [sys.executable, "-m", f"{_BENCHMARKS}.{series.program.name}", *series.problem, "--workers", "1"]
    command = ["mpiexec", "-n", str(nodes), *benchmark, *options, "--quiet", "--json"]
    with Contenders(stage) as running:
        children = [running.start([*command, str(path)], environment(stage.folder)) for path in paths]
        for child in children:
            child.line(limit_s)  # the result, in one line
    results: list[dict[str, Any]] = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    for result in results:
        if "error" in result:
            raise ContenderFailed(str(result["error"]))
        if result["verified"] is not None:
            series.verified = result["verified"] and series.verified is not False
    return results


# The picture ---------------------------------------------------------------------------------------------------------

_OURS: Final = display.COLOURS[0]
_PUBLISHED_NODES: Final = 16
"""On how many nodes the paper's programs ran at most."""


def _last(series: Series) -> tuple[int, float]:
    nodes = max(series.seconds)
    return nodes, (series.speedup(nodes) or 0.0) / nodes


def _ours(axes: Axes, series: Series) -> None:
    seconds = series.seconds
    axes.plot(list(seconds), list(seconds.values()), color=_OURS, marker="o", markersize=5, linewidth=1.4, zorder=3)
    first = min(seconds)
    ideal = [seconds[first] * first / nodes for nodes in (first, max(seconds))]
    axes.plot([first, max(seconds)], ideal, color=display.INK, linestyle=":", linewidth=1)
    label = " ".join(series.problem).lstrip("-")
    axes.annotate(label, (first, seconds[first]), (4, 6), textcoords="offset points", fontsize=8, color=_OURS)
