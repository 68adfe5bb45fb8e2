"""What was measured: figures per round, their medians, ratios and verdicts, and the JSON form."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from ..harness.goals import OURS, Figures, Quantity, Verdict, coloured, judge, print_whole, ratio_written, written
from .catalogue import FLOORS, LABELS, PEERS, Case, Measure


@dataclass(frozen=True)
class Line(Figures):
    """One line of the table, evaluated.

    Attributes:
        measure: The measure that it belongs to.
    """

    measure: str

    @property
    def floor(self) -> str | None:
        """The contender that stands for what the machine can do."""
        return next((name for name in self.rounds if name in FLOORS), None)

    @property
    def verdicts(self) -> list[Verdict]:
        """What became of the goals."""
        return [judge(goal, self.medians) for goal in self.quantity.goals]


@dataclass
class Results:
    """Everything that a run found out.

    Attributes:
        rounds: How many rounds were asked for.
        missing: Why a contender did not take part, by contender.
        failures: What went wrong, by measure and contender.
        notes: What the reader should know.
        ended: Whether everything was measured.
    """

    rounds: int
    missing: dict[str, str] = field(default_factory=dict)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    ended: bool = False
    _lines: dict[tuple[str, str], tuple[Quantity, dict[str, list[float]]]] = field(default_factory=dict)

    def expect(self, measure: Measure) -> None:
        """Make room for the lines of a measure, so that they appear even if nobody answers."""
        for case in measure.cases:
            for quantity in case.quantities:
                rounds: dict[str, list[float]] = {name: [] for name in case.contenders}
                self._lines[measure.name, quantity.title] = (quantity, rounds)
        if measure.note:
            self.notes.append(measure.note)

    def add(self, measure: Measure, case: Case, contender: str, answer: Mapping[str, object]) -> None:
        """Take the answer of a contender in one round."""
        for quantity in case.quantities:
            value = answer.get(quantity.key)
            if isinstance(value, (int, float)):
                self._lines[measure.name, quantity.title][1][contender].append(float(value))

    @property
    def lines(self) -> list[Line]:
        """The lines of the table, in the order of the catalogue."""
        return [Line(quantity, rounds, measure) for (measure, _), (quantity, rounds) in self._lines.items()]

    @property
    def complete(self) -> bool:
        """Whether we and the floors have a figure wherever they should."""
        return self.ended and not any(name == OURS or name in FLOORS for _, name in self.failures)

    def as_json(self, provenance: Mapping[str, object]) -> dict[str, object]:
        """Return the content of the JSON file; figures in s, bytes, 1/s and shares of 1."""
        return {
            "benchmark": "overheads",
            "ended": self.ended,
            "rounds": self.rounds,
            "lines": [_line(line) for line in self.lines],
            "not_measured": dict(self.missing),
            "failures": [
                {"measure": measure, "contender": name, "reason": reason}
                for (measure, name), reason in self.failures.items()
            ],
            "notes": list(self.notes),
            "provenance": dict(provenance),
        }


def _line(line: Line) -> dict[str, object]:
    return {
        "measure": line.measure,
        "what": line.quantity.title,
        "unit": line.quantity.unit,
        "medians": line.medians,
        "ratios": line.ratios,
        "floor": line.floor,
        "goals": [
            {"goal": verdict.goal.spoken(LABELS, line.quantity.unit), "reached": verdict.reached, "met": verdict.met}
            for verdict in line.verdicts
        ],
        "runs": {name: list(values) for name, values in line.rounds.items() if values},
    }


# The table at the end ------------------------------------------------------------------------------------------------


def columns(results: Results) -> list[str]:
    """Return the peers that have a figure somewhere, in the order of the catalogue."""
    return [name for name in PEERS if any(line.rounds.get(name) for line in results.lines)]


def row(line: Line, peers: list[str]) -> list[str]:
    """Return the cells of a line: what, ours, floor, each of ``peers``, goals, verdicts."""
    unit = line.quantity.unit
    floor = "" if line.floor is None else _cell(line, line.floor, f" {LABELS[line.floor]}")
    verdicts = line.verdicts
    return [
        line.quantity.title,
        written(line.medians[OURS], unit) if OURS in line.medians else "-",
        floor,
        *(_cell(line, name) for name in peers),
        "\n".join(verdict.goal.spoken(LABELS, unit) for verdict in verdicts),
        "\n".join(verdict.spoken(unit) for verdict in verdicts),
    ]


def _cell(line: Line, name: str, suffix: str = "") -> str:
    if name not in line.medians:
        return "-" if name in line.rounds else ""
    text = written(line.medians[name], line.quantity.unit) + suffix
    return f"{text}\n({ratio_written(line.ratios[name])})" if name in line.ratios else text


def remarks(results: Results) -> list[str]:
    """Return the lines below the table: who is missing, what failed, how to read it."""
    rounds = "1 round" if results.rounds == 1 else f"{results.rounds} interleaved rounds"
    lines = [f"medians of {rounds}; in brackets: ours over theirs", *results.notes]
    lines += [f"{LABELS[name]}: {reason}" for name, reason in results.missing.items()]
    failed: dict[tuple[str, str], list[str]] = {}
    for (measure, name), reason in results.failures.items():
        failed.setdefault((name, reason), []).append(measure)
    return lines + [
        f"{LABELS[name]} FAILED in {', '.join(measures)}: {reason}" for (name, reason), measures in failed.items()
    ]


def show_results(results: Results, path: Path | None, stream: TextIO | None = None) -> None:
    """Write the table, the remarks, and where the JSON file is, to standard output."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream or sys.stdout, highlight=False)
    peers = columns(results)
    table = Table(title="What the runtime costs", title_justify="left", title_style="bold", show_lines=True)
    table.add_column("what", style="bold")
    for name in ("ours", "floor", *(LABELS[peer] for peer in peers)):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("goal", no_wrap=True)
    table.add_column("reached", no_wrap=True)
    for line in results.lines:
        *cells, verdicts = row(line, peers)
        table.add_row(*map(Text, cells), coloured(verdicts))
    print_whole(console, table, remarks(results), path)
