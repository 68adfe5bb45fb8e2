"""What was measured: rates per round, their medians, ratios and verdicts, and the JSON form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..harness.goals import OURS, Figures, Verdict, judge
from .contender import Measure


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
