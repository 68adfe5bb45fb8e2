"""How fast the kernels are, beside the same algorithms in C and what others offer: ``python -m benchmarks.kernels``."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from apgas.errors import extras_named

with extras_named():
    import typer

    from ..compare import command_line, display
    from ..compare.child import ContenderFailed
    from ..compare.display import Sheet, ratio_written, written
    from ..compare.engine import OURS, Comparison, Line, Stage, Turn, carry_out, draw_bars, medians_of
    from .catalogue import MEASURES, Absent, Contender, Measure, Setting, Work

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROUNDS: Final = 5
_QUICK_ROUNDS: Final = 2


def _command(
    rounds: Annotated[
        int | None, typer.Option(help="How often everybody works; medians are shown.", show_default="5, quick: 2")
    ] = None,
    measures: Annotated[str, typer.Option(help="What to measure, as a,b.", show_default=",".join(MEASURES))] = "",
    quick: command_line.Quick = False,
    json: command_line.Json = None,
    figure: command_line.Figure = None,
    quiet: command_line.Quiet = False,
) -> int:
    """Measure the kernels on one core, beside the same algorithms in C and what others offer.

    Example: python -m benchmarks.kernels --measures uts,nqueens
    """
    if rounds is None:
        rounds = _QUICK_ROUNDS if quick else _ROUNDS
    names = command_line.chosen("--measures", measures, MEASURES) or MEASURES
    asked = Kernels(rounds=rounds, quick=quick, measures=[MEASURES[name] for name in names])
    return carry_out(asked, json, quiet, figure)


main = partial(command_line.main, f"python -m {__package__}", _command)


@dataclass(kw_only=True)
class Kernels(Comparison):
    """The kernels beside their references, each in this thread; all figures are amounts per CPU-second."""

    name = "kernels"
    title = "What the kernels do"
    packages: ClassVar[tuple[str, ...]] = ("igraph", "networkit", "networkx")

    quick: bool
    measures: Sequence[Measure]

    def __post_init__(self) -> None:
        for measure in self.measures:
            labels = {contender.name: contender.label for contender in measure.contenders}
            groups: dict[str, list[str]] = {}
            for contender in measure.contenders:
                if contender.group:
                    groups.setdefault(contender.group, []).append(contender.name)
            self.expect(measure.name, measure.quantities, labels, groups)

    @property
    def steps(self) -> int:
        """One for each contender and round."""
        return self.rounds * sum(len(measure.contenders) for measure in self.measures)

    def measure(self, stage: Stage) -> None:
        """Let the contenders of each measure work in turn."""
        setting = Setting(self.quick, stage.folder)
        for measure in self.measures:
            stage.progress.begin(measure.name, f"{measure.title(self.quick)}, rounds: {self.rounds}")
            turns = []
            for contender in measure.contenders:
                stage.progress.note(f"preparing {contender.label}")
                try:
                    work = _prepared(contender, setting)
                except Absent as reason:
                    self.failures[measure.name, contender.name] = str(reason)
                except Exception as error:  # noqa: BLE001 - whatever failed, the others go on
                    self.failures[measure.name, contender.name] = _spoken(error)
                else:
                    turns.append(Turn(contender.name, contender.label, partial(_rates, work), measure.quantities))
            self.take_turns(stage, measure.name, turns)

    def sheets(self) -> list[Sheet]:
        """Return one table: a block per quantity, a line per contender."""
        titles = {measure.name: measure.title(self.quick) for measure in self.measures}
        heads = ("kernel", "contender", "rate", "ours is", "goal", "reached")
        return [Sheet(heads, "llrrll", [_block(titles[line.measure], line) for line in self.lines if line.medians])]

    def remarks(self) -> list[str]:
        """Say how to read the table, and who is missing."""
        labels = {(each.name, one.name): one.label for each in self.measures for one in each.contenders}
        return [
            f"{medians_of(self.rounds)}, per CPU-second of one core; ratios: ours over theirs",
            *(measure.rule for measure in self.measures),
            *(f"{labels[key]} ({key[0]}): {reason}" for key, reason in self.failures.items()),
        ]

    def as_json(self) -> dict[str, object]:
        """Return the content of the JSON file."""
        titles = {measure.name: measure.title(self.quick) for measure in self.measures}
        return super().as_json() | {
            "quick": self.quick,
            "lines": [
                line.as_json() | {"what": f"{titles[line.measure]}: {line.quantity.title}", "unit": "per CPU-second"}
                for line in self.lines
            ],
            "not_measured": self.failures_as_json(),
            "notes": [measure.rule for measure in self.measures],
        }

    def draw(self, machine: str) -> Figure:
        """Draw the first quantity of every measure."""
        lines = [
            (f"{measure.title(self.quick)}: {line.quantity.title} per CPU-second", line)
            for measure in self.measures
            for line in self.lines
            if line.measure == measure.name and line.quantity == measure.quantities[0] and line.medians
        ]
        bars = [len(line.medians) for _, line in lines]
        height = _BAR_INCHES * sum(bars) + 0.55 * len(lines) + 0.5
        ratios = [count + 0.8 for count in bars]
        figure, panels = display.new_picture(_WIDTH_INCHES, height, len(lines), 1, height_ratios=ratios)
        for (title, line), (axes,) in zip(lines, panels, strict=True):
            draw_bars(axes, title, line)
        note = f"one core of {machine}; medians of {self.rounds} interleaved rounds"
        figure.supxlabel(note, fontsize=8, color=display.INK)
        return figure


def _prepared(contender: Contender, setting: Setting) -> Work:
    """Return the work of a contender; ours has done a small one, so that nothing is compiled later."""
    if contender.name == OURS:
        contender.prepare(Setting(True, setting.folder))()
    return contender.prepare(setting)


def _rates(work: Work) -> Mapping[str, float]:
    """Do the work once; return the amounts per CPU-second of this thread."""
    began_s = time.thread_time()
    try:
        amounts = work()
    except Exception as error:
        raise ContenderFailed(_spoken(error)) from error
    seconds = time.thread_time() - began_s
    return {key: amount / seconds for key, amount in amounts.items()}


def _spoken(error: Exception) -> str:
    return f"FAILED: {type(error).__name__}: {error}"


def _block(title: str, line: Line) -> list[list[str]]:
    """Return the rows of a line: contender, rate, how many times as fast we are, goals, verdicts."""
    medians, ratios = line.medians, line.ratios
    rows = [
        [
            "",
            line.labels[name],
            written(rate, line.quantity.unit),
            ratio_written(ratios[name]) if name in ratios else "",
            "",
            "",
        ]
        for name, rate in medians.items()
    ]
    rows[0] = [f"{title}:\n{line.quantity.title}", *rows[0][1:4], *line.goal_cells()]
    return rows


# The picture: what each contender does per CPU-second, a panel per kernel --------------------------------------------

_BAR_INCHES: Final = 0.32
_WIDTH_INCHES: Final = 8.0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
