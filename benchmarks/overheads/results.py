"""What was measured: figures per round, their medians, ratios and verdicts, and the JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..harness.goals import OURS, Figures, Quantity, Verdict, judge
from .catalogue import FLOORS, LABELS, Case, Measure


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
