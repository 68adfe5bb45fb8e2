"""The comparison engine: everybody is asked in turn, round by round; figures become medians, ratios and verdicts.

A question has a catalogue of what is asked and derives a ``Comparison``, which says how one measure is carried out and
what the table has beside the figures. ``carry_out`` does what is the same for all: contenders that are ended whatever
happens, progress, the table, the picture, the JSON file and the exit code.
"""

from __future__ import annotations

import itertools
import operator
import os
import sys
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TextIO, TypeAlias, cast

from apgas.provenance import version

from ..harness.errors import BadUsage
from ..harness.measurement import ResultFile, gather_provenance
from .child import END_S, TERM_S, Child, ContenderFailed, kill_marked
from .command_line import RunProgress, check_rounds, interruptible
from .display import COLOURS, INK, PALE, Sheet, Unit, check_picture, ratio_written, show_sheets, written

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Goals and figures ---------------------------------------------------------------------------------------------------

Bound: TypeAlias = Literal["<=", ">=", "<"]

_HOLDS: Final = {"<=": operator.le, ">=": operator.ge, "<": operator.lt}
OURS: Final = "ours"


@dataclass(frozen=True)
class Goal:
    """A bound on our figure.

    Attributes:
        bound: How the figure lies to the limit.
        limit: A multiple of the figure of ``against``; or a figure, if there is no contender to compare with.
        against: The contender, or the group of contenders, to compare with; None: none.
    """

    bound: Bound
    limit: float
    against: str | None = None

    def spoken(self, labels: Mapping[str, str], unit: Unit) -> str:
        """Write the goal for people: ``<= 4x raw socket``."""
        if self.against is None:
            return f"{self.bound} {written(self.limit, unit)}"
        return f"{self.bound} {self.limit:g}x {labels[self.against]}"


@dataclass(frozen=True)
class GoalVerdict:
    """What became of a goal.

    Attributes:
        reached: What stands where the goal has its limit; None: not known, because one of the two was not measured.
        met: Whether it was met; None: not known.
    """

    goal: Goal
    reached: float | None
    met: bool | None

    def spoken(self, unit: Unit) -> str:
        """Write the verdict for people: ``met, 3.1x``."""
        if self.reached is None:
            return "not known"
        reached = written(self.reached, unit) if self.goal.against is None else ratio_written(self.reached)
        return f"{'met' if self.met else 'MISSED'}, {reached}"


def judge(goal: Goal, medians: Mapping[str, float]) -> GoalVerdict:
    """Judge a goal by the figures of all contenders."""
    ours = medians.get(OURS)
    reached = ours if goal.against is None else ratio(ours, medians.get(goal.against))
    return GoalVerdict(goal, reached, None if reached is None else bool(_HOLDS[goal.bound](reached, goal.limit)))


def ratio(ours: float | None, theirs: float | None) -> float | None:
    """Return ours over theirs; None if one is missing or theirs is 0."""
    return None if ours is None or not theirs else ours / theirs


@dataclass(frozen=True)
class Quantity:
    """Something that is measured of every contender.

    Attributes:
        key: Its name in the answers.
        title: Its name for people.
        goals: What ours should be.
    """

    key: str
    title: str
    unit: Unit
    goals: tuple[Goal, ...] = ()


@dataclass(frozen=True)
class Line:
    """One quantity of one measure: the figures of all contenders.

    Attributes:
        rounds: Figures by contender, one a round.
        groups: Contenders by group, for goals against the best (highest) of a group. A group has the name of none of
            its members, or that of the only one.
    """

    measure: str
    quantity: Quantity
    labels: Mapping[str, str]
    rounds: dict[str, list[float]]
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def medians(self) -> dict[str, float]:
        """Median of the rounds by contender."""
        return {name: median(values) for name, values in self.rounds.items() if values}

    @property
    def ratios(self) -> dict[str, float]:
        """Ours over theirs, by contender."""
        medians = self.medians
        found = {name: ratio(medians.get(OURS), value) for name, value in medians.items() if name != OURS}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def verdicts(self) -> list[GoalVerdict]:
        """What became of the goals."""
        medians = self.medians
        best = {
            group: max(medians[name] for name in members if name in medians)
            for group, members in self.groups.items()
            if any(name in medians for name in members)
        }
        return [judge(goal, {**medians, **best}) for goal in self.quantity.goals]

    def goals_spoken(self) -> list[str]:
        """Write the goals for people."""
        names = {group: f"the best of {group}" for group in self.groups} | dict(self.labels)
        return [goal.spoken(names, self.quantity.unit) for goal in self.quantity.goals]

    def goal_cells(self) -> list[str]:
        """Return the last two cells of a row: the goals, and what became of each."""
        verdicts = [verdict.spoken(self.quantity.unit) for verdict in self.verdicts]
        return ["\n".join(self.goals_spoken()), "\n".join(verdicts)]

    def as_json(self) -> dict[str, object]:
        """Return the JSON form; figures in s, bytes, 1/s and shares of 1."""
        return {
            "measure": self.measure,
            "what": self.quantity.title,
            "unit": self.quantity.unit,
            "medians": self.medians,
            "ratios": self.ratios,
            "goals": [
                {"goal": goal, "reached": verdict.reached, "met": verdict.met}
                for goal, verdict in zip(self.goals_spoken(), self.verdicts, strict=True)
            ],
            "runs": {name: list(values) for name, values in self.rounds.items() if values},
        }


def draw_bars(axes: Axes, title: str, line: Line) -> None:
    """Draw a bar for each contender with its figure, ours in colour, and how many times theirs ours is."""
    medians, ratios = line.medians, line.ratios
    most = max(medians.values())
    colours = [COLOURS[0] if name == OURS else PALE for name in medians]
    axes.barh(range(len(medians)), list(medians.values()), color=colours, height=0.72)
    axes.set_yticks(range(len(medians)), [line.labels[name] for name in medians], color=INK, fontsize=9)
    axes.invert_yaxis()
    axes.set_title(title, loc="left", fontsize=10, color=INK)
    axes.set_xlim(0, 1.3 * most)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color(PALE)
    for position, (name, figure) in enumerate(medians.items()):
        beside = f"   (ours {ratio_written(ratios[name])})" if name in ratios else ""
        text = f"{written(figure, line.quantity.unit)}{beside}"
        axes.text(figure + 0.01 * most, position, text, va="center", fontsize=8.5, color=INK)


# The contenders of a measure: processes that run at the same time ----------------------------------------------------


class Contenders:
    """Processes that run side by side and end side by side, at once if an error ends them; a context manager."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._children: list[Child] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for child in self._children:
            child.finish() if kind is None else child.terminate()
        for child in self._children:
            child.end(END_S if kind is None else TERM_S)
        self._children.clear()

    def start(self, command: Sequence[str], env: Mapping[str, str], ready_s: float | None = None) -> Child:
        """Start one, and wait until it is ready if ``ready_s`` says for how long at the most.

        Raises:
            ContenderFailed: It did not become ready; it has been ended.
        """
        child = Child(command, env, self._stage.next_mark())
        self._children.append(child)
        if ready_s is not None:
            try:
                child.answer(ready_s)
            except ContenderFailed:
                self._end(child)
                raise
        return child

    def ask(self, child: Child, command: Mapping[str, object], limit_s: float) -> dict[str, Any]:
        """Send a command and return the answer, as ``ask_together`` does with one contender."""
        return self.ask_together({child: command}, limit_s)[0]

    def ask_together(self, commands: Mapping[Child, Mapping[str, object]], limit_s: float) -> list[dict[str, Any]]:
        """Send each contender its command, so that they work at the same time, and return the answers.

        Raises:
            ContenderFailed: One has not answered within ``limit_s``, or with an error; all of them have been ended.
        """
        try:
            for child, command in commands.items():
                child.send(command)
            return [child.answer(limit_s) for child in commands]
        except ContenderFailed:
            for child in commands:  # an answer that is still to come would be taken for that to the next command
                self._end(child)
            raise

    def _end(self, child: Child) -> None:
        self._children.remove(child)
        child.end(patience_s=0)


class Stage(ExitStack):
    """What a comparison runs on; a context manager that leaves no process and no file behind.

    Attributes:
        folder: Where files may be put that are not needed afterwards; ``name`` is how its name begins.
        progress: Where progress is shown.
    """

    def __init__(self, name: str, progress: RunProgress) -> None:
        super().__init__()
        self.progress = progress
        self._mark = uuid.uuid4().hex
        self._numbers = itertools.count()
        folder = tempfile.TemporaryDirectory(prefix=f"{name}-", ignore_cleanup_errors=True)
        self.folder = Path(self.enter_context(folder))
        # an interrupt may come between the start of a process and our taking note of it
        self.callback(kill_marked, self._mark)

    def next_mark(self) -> str:
        """Return what the processes of the next contender carry in their environment."""
        return f"{self._mark}.{next(self._numbers)}."


# A comparison --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Turn:
    """What one contender is asked once a round.

    ``ask`` returns what ``quantities`` are read off, and may raise ``ContenderFailed``; progress calls it ``label``.
    """

    contender: str
    label: str
    ask: Callable[[], Mapping[str, object]]
    quantities: Sequence[Quantity] = ()


@dataclass(kw_only=True)
class Comparison(ABC):
    """What is asked in one run, and what was found out so far.

    Attributes:
        name: As in ``python -m benchmarks.<name>``.
        title: Stands above the table.
        packages: Packages whose versions belong to the provenance.
        essential: Without a figure of these contenders the run is not complete.
        rounds: How often everybody is asked.
        failures: What went wrong, by measure and contender.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()
    essential: ClassVar[tuple[str, ...]] = (OURS,)

    rounds: int
    lines: list[Line] = field(default_factory=list)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    ended: bool = False

    @property
    def seed(self) -> object:
        """What seeds there are, for the provenance."""
        return None

    @property
    @abstractmethod
    def steps(self) -> int:
        """How many steps the run has, to estimate the time left."""

    @abstractmethod
    def measure(self, stage: Stage) -> None:
        """Measure everything; what is measured when this is interrupted is kept."""

    @abstractmethod
    def sheets(self) -> Sequence[Sheet]:
        """Return the tables."""

    @abstractmethod
    def remarks(self) -> Sequence[str]:
        """Return the lines below the tables: how to read them, who is missing, what failed."""

    def draw(self, machine: str) -> Figure:
        """Draw the picture; ``machine`` names the processor.

        Raises:
            NotImplementedError: There is none.
        """
        raise NotImplementedError(f"{self.name} has no picture")

    @property
    def complete(self) -> bool:
        """Whether nothing that is essential is missing."""
        return self.ended and not any(name in self.essential for _, name in self.failures)

    def as_json(self) -> dict[str, object]:
        """Return the content of the JSON file, without the provenance."""
        return {
            "benchmark": self.name,
            "ended": self.ended,
            "rounds": self.rounds,
            "lines": [line.as_json() for line in self.lines],
        }

    def failures_as_json(self) -> list[dict[str, str]]:
        """Return the JSON form of what went wrong."""
        return [
            {"measure": measure, "contender": name, "reason": reason}
            for (measure, name), reason in self.failures.items()
        ]

    def expect(
        self,
        measure: str,
        quantities: Sequence[Quantity],
        labels: Mapping[str, str],
        groups: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Make room for the lines of a measure, so that they appear even without an answer."""
        self.lines += [
            Line(measure, quantity, labels, {name: [] for name in labels}, groups or {}) for quantity in quantities
        ]

    def add(self, measure: str, quantities: Sequence[Quantity], contender: str, answer: Mapping[str, object]) -> None:
        """Take the answer of a contender in one round; what is no number makes no figure."""
        for line in self.lines:
            value = answer.get(line.quantity.key)
            if line.measure == measure and line.quantity in quantities and isinstance(value, (int, float)):
                line.rounds[contender].append(float(value))

    def take_turns(self, stage: Stage, measure: str, turns: Sequence[Turn], rounds: int | None = None) -> None:
        """Ask A B C A B C ..., so that what else happens on the machine disturbs all alike.

        Who fails is not asked again in this measure, and the others go on.
        """
        rounds = rounds or self.rounds
        for number in range(rounds):
            for turn in turns:
                stage.progress.step(f"round {number + 1} of {rounds}, {turn.label}")
                if (measure, turn.contender) in self.failures:
                    continue
                try:
                    answer = turn.ask()
                except ContenderFailed as error:
                    self.failures[measure, turn.contender] = str(error)
                else:
                    self.add(measure, turn.quantities, turn.contender, answer)

    def as_page(self, provenance: Mapping[str, Any], page: Path, figure: Path | None) -> str:
        """Return the content of a page in Markdown, which shows the picture if that is a file."""
        versions = ", ".join(f"{name} {known}" for name, known in provenance["versions"].items())
        machine = f"{provenance['cpu']}, {provenance['cores']} cores, {provenance['mpi']}"
        parts = [
            f"# {self.title}",
            f"`python -m benchmarks.{self.name}` has measured this on {machine}, {versions}.",
            *(part for sheet in self.sheets() for part in (sheet.name, sheet.as_markdown()) if part),
        ]
        if figure is not None:
            parts.append(f"![{self.title}]({os.path.relpath(figure, page.parent)})")
        parts.append("\n".join(f"- {remark}" for remark in self.remarks()))
        return "\n\n".join(parts) + "\n"

    def show(self, stream: TextIO | None = None) -> None:
        """Write the tables and the remarks to standard output."""
        show_sheets(self.title, self.sheets(), self.remarks(), stream)


def medians_of(rounds: int, kind: str = " interleaved") -> str:
    """Say of how many rounds the figures are the medians."""
    return "medians of 1 round" if rounds == 1 else f"medians of {rounds}{kind} rounds"


def carry_out(
    comparison: Comparison, json: Path | None, quiet: bool, figure: Path | None = None, page: Path | None = None
) -> int:
    """Measure, and show and write what was found out.

    Args:
        comparison: What to measure.
        json: Where the result goes, if anywhere; after an error, what had been measured.
        quiet: Whether to leave progress out.
        figure: Where the picture goes, if anywhere; its suffix decides the kind of file.
        page: Where tables, remarks and picture go as Markdown, if anywhere.

    Returns:
        The exit code: 0 measured (goals may be missed), 1 something essential could not be measured.

    Raises:
        BadUsage: A file cannot be written, or there are no rounds.
    """
    check_rounds(comparison.rounds)
    check_picture(figure)
    if page is not None and not page.parent.is_dir():
        raise BadUsage(f"--page {page}", "there is no such folder", "give a file in a folder that exists")
    target = ResultFile(json)
    target.reserve(comparison.as_json())
    with (
        interruptible(),
        RunProgress(comparison.steps, quiet) as progress,
        Stage(comparison.name, progress) as stage,
    ):
        try:
            comparison.measure(stage)
        except BaseException:  # above all an interrupt: what was measured is worth keeping
            target.write({"error": "the run did not end", **comparison.as_json()})
            raise
    comparison.ended = True
    found = gather_provenance((), comparison.seed)
    versions = cast("dict[str, str]", found["versions"])
    versions |= {name: known for name in comparison.packages if (known := version(name))}
    target.write({**comparison.as_json(), "provenance": found})
    comparison.show()
    if figure is not None:
        comparison.draw(str(found["cpu"])).savefig(figure, dpi=150)
    if page is not None:
        page.write_text(comparison.as_page(found, page, figure), encoding="utf-8")
    name_files(json, figure, page)
    return 0 if comparison.complete else 1


def name_files(json: Path | None, figure: Path | None, page: Path | None = None) -> None:
    """Say where the files are."""
    for name, file in (("result file", json), ("figure", figure), ("page", page)):
        if file is not None:
            sys.stdout.write(f"{name}: {file}\n")
