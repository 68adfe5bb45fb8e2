"""Goals: what a figure of ours should be, in itself or beside another contender's of the same run."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal, TypeAlias

from .figures import Unit, ratio_written, written

Bound: TypeAlias = Literal["<=", ">=", "<"]

_HOLDS: Final = {"<=": operator.le, ">=": operator.ge, "<": operator.lt}
OURS: Final = "ours"


@dataclass(frozen=True)
class Goal:
    """A bound on our figure.

    Attributes:
        bound: How the figure lies to the limit.
        limit: A multiple of the figure of ``against``; or a figure, if there is nobody to compare with.
        against: The contender to compare with; None: nobody.
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
class Verdict:
    """What became of a goal.

    Attributes:
        goal: The goal.
        reached: What stands where the goal has its limit; None: not known.
        met: Whether it was met; None: not known, for somebody was not measured.
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


@dataclass(frozen=True)
class Quantity:
    """Something that is measured of every contender.

    Attributes:
        key: Its name in the answers.
        title: Its name for people.
        unit: Its unit.
        goals: What ours should be.
        ours_only: Whether nobody else can tell.
    """

    key: str
    title: str
    unit: Unit
    goals: tuple[Goal, ...] = ()
    ours_only: bool = False


def judge(goal: Goal, medians: Mapping[str, float]) -> Verdict:
    """Judge a goal by the figures of all contenders."""
    ours = medians.get(OURS)
    reached = ours if goal.against is None else ratio(ours, medians.get(goal.against))
    return Verdict(goal, reached, None if reached is None else bool(_HOLDS[goal.bound](reached, goal.limit)))


def ratio(ours: float | None, theirs: float | None) -> float | None:
    """Return ours over theirs; None if one is missing or theirs is 0."""
    return None if ours is None or not theirs else ours / theirs


@dataclass(frozen=True)
class Figures:
    """One quantity of several contenders.

    Attributes:
        quantity: What was measured.
        rounds: Figures by contender, one a round.
    """

    quantity: Quantity
    rounds: Mapping[str, Sequence[float]]

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
