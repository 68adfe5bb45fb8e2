"""Figures, goals and tables: how samples become numbers, what they should be, and how people see them."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, assert_never

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


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


# Figures: how samples become one number, and how a number is written for people --------------------------------------

Unit: TypeAlias = Literal["s", "1/s", "B/s", "bytes", "share", "count", "ratio"]

_RATES: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_TIMES: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that at least ``share`` of all samples do not exceed (nearest rank).

    Raises:
        ValueError: There is no sample, or ``share`` is not in (0, 1].
    """
    if not samples or not 0 < share <= 1:
        raise ValueError(f"no percentile {share} of {len(samples)} samples")
    return sorted(samples)[math.ceil(share * len(samples)) - 1]


def of_samples(samples: Sequence[float]) -> dict[str, float]:
    """Return the figures of one round of times in seconds: ``median_s``, ``p99_s``, ``samples``."""
    return {"median_s": median(samples), "p99_s": percentile(samples, 0.99), "samples": len(samples)}


def written(value: float, unit: Unit) -> str:
    """Write a figure with three digits and its unit."""
    match unit:
        case "s":
            scale, name = next((pair for pair in _TIMES if value >= 0.9995 * pair[0]), _TIMES[-1])
            return f"{_three(value / scale)} {name}"
        case "1/s":
            for scale, name in _RATES:
                if value >= 0.9995 * scale:
                    return f"{value / scale:.3g} {name}/s"
            return f"{_three(value)} /s"
        case "B/s":
            return f"{_three(value / 1e9)} GB/s"
        case "bytes":
            return f"{_three(value / 2**20)} MiB"
        case "count":
            return f"{value:.3g}"
        case "share":
            return f"{100 * value:.3f} %" if value < 0.01 else f"{_three(100 * value)} %"
        case "ratio":
            return f"{value:.3f}"
        case _:
            assert_never(unit)


def ratio_written(ratio: float) -> str:
    """Write a ratio: 0.31x, 3.1x, 31x."""
    return f"{_three(ratio) if ratio >= 100 else f'{ratio:.2g}'}x"


def _three(value: float) -> str:
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f}"


# Tables of figures and goals, as people see them ---------------------------------------------------------------------

WIDEST: Final = 400
MIN_WIDTH: Final = 80


def coloured(verdicts: str) -> Text:
    """Return what became of goals, with colours."""
    from rich.text import Text

    text = Text(verdicts)
    text.highlight_words(["MISSED"], "bold red")
    text.highlight_words(["met"], "green")
    return text


def print_whole(console: Console, table: Table, remarks: Iterable[str], path: Path | None) -> None:
    """Print a table, remarks below it, and where the result file is; a line too long is better than one that is cut."""
    from rich.measure import Measurement
    from rich.text import Text

    console.width = max(Measurement.get(console, console.options.update(max_width=WIDEST), table).maximum, MIN_WIDTH)
    console.print(table)
    for remark in remarks:
        console.print(Text(remark), soft_wrap=True)
    if path is not None:
        console.print(Text(f"result file: {path}"), soft_wrap=True)
