"""What was measured: rates per round, their medians, ratios and verdicts, and the JSON form."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO, TypeAlias

from ..harness import pictures
from ..harness.goals import OURS, Figures, Quantity, Verdict, coloured, judge, print_whole, ratio_written, written

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Line(Figures):
    """One quantity of one measure, evaluated: amounts per CPU-second.

    Attributes:
        measure: The measure.
    """

    measure: Measure

    @property
    def verdicts(self) -> list[Verdict]:
        """What became of the goals."""
        medians = self.medians
        best: dict[str, float] = {}
        for contender in self.measure.contenders:
            if contender.group and contender.name in medians:
                best[contender.group] = max(best.get(contender.group, 0.0), medians[contender.name])
        # a group has the name of none of its members, or that of the only one
        return [judge(goal, {**medians, **best}) for goal in self.quantity.goals]

    @property
    def labels(self) -> dict[str, str]:
        """Names for people of contenders and groups."""
        groups = {contender.group: f"the best of {contender.group}" for contender in self.measure.contenders}
        return groups | {contender.name: contender.label for contender in self.measure.contenders}


@dataclass
class Results:
    """Everything that a run found out.

    Attributes:
        rounds: How many rounds were asked for.
        quick: Whether small problems were taken.
        measures: What was asked for.
        missing: Why a contender did not take part, by measure and contender.
        ended: Whether everything was measured.
    """

    rounds: int
    quick: bool
    measures: Sequence[Measure] = ()
    missing: dict[tuple[str, str], str] = field(default_factory=dict)
    ended: bool = False
    _rates: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)

    def add(self, measure: Measure, contender: str, amounts: Mapping[str, float], seconds: float) -> None:
        """Take what a contender did in one round."""
        for quantity in measure.quantities:
            if quantity.key in amounts:
                rates = self._rates.setdefault((measure.name, quantity.key, contender), [])
                rates.append(amounts[quantity.key] / seconds)

    @property
    def lines(self) -> list[Line]:
        """The quantities of all measures, in order."""
        return [
            Line(
                quantity,
                {
                    each.name: self._rates.get((measure.name, quantity.key, each.name), [])
                    for each in measure.contenders
                },
                measure,
            )
            for measure in self.measures
            for quantity in measure.quantities
        ]

    @property
    def complete(self) -> bool:
        """Whether every kernel of ours was measured."""
        return self.ended and not any(name == OURS for _, name in self.missing)

    def as_json(self, provenance: Mapping[str, object]) -> dict[str, object]:
        """Return the content of the JSON file; all figures are amounts per CPU-second."""
        return {
            "benchmark": "kernels",
            "ended": self.ended,
            "rounds": self.rounds,
            "quick": self.quick,
            "lines": [self._line(line) for line in self.lines],
            "not_measured": [
                {"measure": measure, "contender": name, "reason": reason}
                for (measure, name), reason in self.missing.items()
            ],
            "notes": [measure.rule for measure in self.measures],
            "provenance": dict(provenance),
        }

    def _line(self, line: Line) -> dict[str, object]:
        return {
            "measure": line.measure.name,
            "what": f"{line.measure.title(self.quick)}: {line.quantity.title}",
            "unit": "per CPU-second",
            "medians": line.medians,
            "ratios": line.ratios,
            "goals": [
                {"goal": each.goal.spoken(line.labels, line.quantity.unit), "reached": each.reached, "met": each.met}
                for each in line.verdicts
            ],
            "runs": {name: list(values) for name, values in line.rounds.items() if values},
        }


# What is measured: contenders that do a measured amount of work in one thread, and what a measure asks of them -------

Amounts: TypeAlias = Mapping[str, float]
Work: TypeAlias = Callable[[], Amounts]
"""Does the work once, in the calling thread, and returns how much of what was done."""


class Absent(Exception):
    """A contender cannot take part; the text says why."""


@dataclass(frozen=True)
class Setting:
    """What contenders are prepared for.

    Attributes:
        quick: Whether small problems will do.
        folder: Where files may be put that are not needed afterwards.
    """

    quick: bool
    folder: Path


@dataclass(frozen=True)
class Contender:
    """Somebody who does the work.

    Attributes:
        name: Short name, "ours" for us.
        label: Name for people.
        prepare: Loads and compiles what is needed, and returns the work; may raise ``Absent``.
        group: Goals may be set against the best of a group.
    """

    name: str
    label: str
    prepare: Callable[[Setting], Work]
    group: str = ""


@dataclass(frozen=True)
class Measure:
    """One kernel beside its references; all amounts are told per CPU-second.

    Attributes:
        name: What ``--measures`` calls it.
        title: Says for people what is computed.
        quantities: What is read off the amounts; the first is drawn in the figure.
        contenders: Who takes part, ours first.
        rule: What a rate counts.
    """

    name: str
    title: Callable[[bool], str]
    quantities: tuple[Quantity, ...]
    contenders: tuple[Contender, ...]
    rule: str


# The table at the end: a block per measure, a line per contender and quantity ----------------------------------------


def rows(line: Line) -> list[list[str]]:
    """Return the cells of a block: contender, rate, how many times as fast we are, goals, verdicts."""
    unit = line.quantity.unit
    medians, ratios = line.medians, line.ratios
    cells = [
        [
            contender.label,
            written(medians[contender.name], unit),
            ratio_written(ratios[contender.name]) if contender.name in ratios else "",
            "",
            "",
        ]
        for contender in line.measure.contenders
        if contender.name in medians
    ]
    if cells:
        verdicts = line.verdicts
        cells[0][3] = "\n".join(verdict.goal.spoken(line.labels, unit) for verdict in verdicts)
        cells[0][4] = "\n".join(verdict.spoken(unit) for verdict in verdicts)
    return cells


def remarks(results: Results) -> list[str]:
    """Return the lines below the table: how to read it, and who is missing."""
    rounds = "1 round" if results.rounds == 1 else f"{results.rounds} interleaved rounds"
    lines = [f"medians of {rounds}, per CPU-second of one core; ratios: ours over theirs"]
    lines += [measure.rule for measure in results.measures]
    labels = {(each.name, one.name): one.label for each in results.measures for one in each.contenders}
    return lines + [f"{labels[key]} ({key[0]}): {reason}" for key, reason in results.missing.items()]


def show_results(results: Results, path: Path | None, stream: TextIO | None = None) -> None:
    """Write the table, the remarks, and where the JSON file is, to standard output."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream or sys.stdout, highlight=False)
    table = Table(title="What the kernels do", title_justify="left", title_style="bold")
    table.add_column("kernel", style="bold")
    table.add_column("contender")
    table.add_column("rate", justify="right", no_wrap=True)
    table.add_column("ours is", justify="right", no_wrap=True)
    table.add_column("goal", no_wrap=True)
    table.add_column("reached", no_wrap=True)
    for line in results.lines:
        title = f"{line.measure.title(results.quick)}:\n{line.quantity.title}"
        for number, (*cells, verdicts) in enumerate(rows(line)):
            table.add_row(Text(title if number == 0 else ""), *map(Text, cells), coloured(verdicts))
        table.add_section()
    print_whole(console, table, remarks(results), path)


# The picture: what each contender does per CPU-second, a panel per kernel; needs matplotlib --------------------------

_OURS: Final = "#1f6f8b"
_BAR_INCHES: Final = 0.32
_WIDTH_INCHES: Final = 8.0


def draw_figure(results: Results, path: Path, machine: str) -> None:
    """Draw the first quantity of every measure.

    Args:
        results: What was measured.
        path: Where to; the ending tells the kind of file.
        machine: The processor, for the line at the bottom.
    """
    lines = [line for line in results.lines if line.quantity == line.measure.quantities[0] and line.medians]
    bars = [len(line.medians) for line in lines]
    height = _BAR_INCHES * sum(bars) + 0.55 * len(lines) + 0.5
    figure, panels = pictures.new_picture(
        _WIDTH_INCHES, height, len(lines), 1, height_ratios=[count + 0.8 for count in bars]
    )
    for line, (axes,) in zip(lines, panels, strict=True):
        _draw_panel(axes, line, results.quick)
    figure.supxlabel(
        f"one core of {machine}; medians of {results.rounds} interleaved rounds", fontsize=8, color=pictures.INK
    )
    figure.savefig(path, dpi=150)


def _draw_panel(axes: Axes, line: Line, quick: bool) -> None:
    medians, ratios = line.medians, line.ratios
    shown = [contender for contender in line.measure.contenders if contender.name in medians]
    rates = [medians[contender.name] for contender in shown]
    colours = [_OURS if contender.name == OURS else pictures.PALE for contender in shown]
    axes.barh(range(len(shown)), rates, color=colours, height=0.72)
    axes.set_yticks(range(len(shown)), [contender.label for contender in shown], color=pictures.INK, fontsize=9)
    axes.invert_yaxis()
    axes.set_title(
        f"{line.measure.title(quick)}: {line.quantity.title} per CPU-second",
        loc="left",
        fontsize=10,
        color=pictures.INK,
    )
    axes.set_xlim(0, 1.3 * max(rates))
    axes.set_xticks([])
    axes.tick_params(length=0)
    for name in ("top", "right", "bottom"):
        axes.spines[name].set_visible(False)
    axes.spines["left"].set_color(pictures.PALE)
    for position, (contender, rate) in enumerate(zip(shown, rates, strict=True)):
        text = written(rate, line.quantity.unit)
        if contender.name in ratios:
            text += f"   (ours {ratio_written(ratios[contender.name])})"
        axes.text(rate + 0.01 * max(rates), position, text, va="center", fontsize=8.5, color=pictures.INK)
