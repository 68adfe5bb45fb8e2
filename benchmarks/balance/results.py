"""What was found out: a figure per round, medians, verdicts, and the table."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TextIO

from ..harness.goals import OURS, Verdict, judge, written
from .catalogue import Measure, Quantity


@dataclass
class Line:
    """One line of the table.

    Attributes:
        measure: The measure that it belongs to.
        key: Its name there.
        quantity: What it shows.
        rounds: Figures, one a round.
    """

    measure: str
    key: str
    quantity: Quantity
    rounds: list[float] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict | None:
        """What became of its goal, if it has one."""
        goal = self.quantity.goal
        return None if goal is None else judge(goal, {OURS: median(self.rounds)} if self.rounds else {})


@dataclass
class Results:
    """Everything that a run found out.

    Attributes:
        rounds: How many rounds were asked for.
        lines: The lines of the table.
        failures: What went wrong, by measure.
        ended: Whether everything was measured.
    """

    rounds: int
    lines: list[Line] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    ended: bool = False

    def expect(self, measure: Measure) -> None:
        """Make room for the lines of a measure."""
        self.lines += [Line(measure.name, key, quantity) for key, quantity in measure.quantities.items()]

    def add(self, measure: Measure, found: Mapping[str, float]) -> None:
        """Take the figures of a round."""
        for line in self.lines:
            if line.measure == measure.name and line.key in found:
                line.rounds.append(found[line.key])

    def as_json(self, provenance: Mapping[str, object]) -> dict[str, object]:
        """Return the content of the JSON file; figures in s and shares of 1."""
        return {
            "benchmark": "balance",
            "ended": self.ended,
            "rounds": self.rounds,
            "lines": [_as_json(line) for line in self.lines],
            "failures": dict(self.failures),
            "provenance": dict(provenance),
        }


def _as_json(line: Line) -> dict[str, object]:
    verdict = line.verdict
    goal = None if verdict is None else verdict.goal.spoken({}, line.quantity.unit)
    return {
        "measure": line.measure,
        "key": line.key,
        "what": line.quantity.title,
        "unit": line.quantity.unit,
        "median": median(line.rounds) if line.rounds else None,
        "goal": goal,
        "met": None if verdict is None else verdict.met,
        "runs": line.rounds,
    }


def rows(results: Results) -> Sequence[tuple[str, str, str, str, str]]:
    """Return the cells of the table: what, median, from lowest to highest, goal, verdict."""
    found = []
    for line in results.lines:
        unit, verdict = line.quantity.unit, line.verdict
        figures = [written(value, unit) for value in (min(line.rounds), max(line.rounds))] if line.rounds else []
        middle = written(median(line.rounds), unit) if line.rounds else "-"
        goal = "" if verdict is None else verdict.goal.spoken({}, unit)
        met = "" if verdict is None or verdict.met is None else "met" if verdict.met else "MISSED"
        found.append((line.quantity.title, middle, " to ".join(figures), goal, met))
    return found


def show_results(results: Results, path: Path | None, stream: TextIO | None = None) -> None:
    """Write the table, what failed, and where the JSON file is, to standard output."""
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream or sys.stdout, highlight=False, soft_wrap=True)
    table = Table(title="What balancing costs", title_justify="left", title_style="bold")
    table.add_column("what", style="bold")
    for name in ("median", "rounds", "goal"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for *cells, met in rows(results):
        table.add_row(*map(Text, cells), Text(met, style="green" if met == "met" else "bold red"))
    # a line that is too long for the terminal is better than one that is cut
    console.width = max(Measurement.get(console, console.options.update(max_width=400), table).maximum, 80)
    console.print(table)
    rounds = "1 round" if results.rounds == 1 else f"{results.rounds} rounds, the bare kernels interleaved"
    console.print(Text(f"medians of {rounds}; rates of a machine that does other things, too, say little: see CPU"))
    for name, reason in results.failures.items():
        console.print(Text(f"{name} FAILED: {reason}"))
    if path is not None:
        console.print(Text(f"result file: {path}"))
