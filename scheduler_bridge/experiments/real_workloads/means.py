"""Means over seeds of what was simulated."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Final

from scheduler_bridge.experiments.real_workloads.cells import COLUMNS, RIGID, STRATEGIES
from scheduler_bridge.experiments.sweep import Row

HIGHER_IS_BETTER: Final = frozenset({"utilization"})


class MeanTable:
    """Means over seeds, by workload, policy and share of malleable jobs."""

    def __init__(self, rows: Iterable[Row]) -> None:
        found: dict[tuple[str, str, int], list[Row]] = {}
        for row in rows:
            found.setdefault((row.cell.trace, row.cell.policy, row.cell.share), []).append(row)
        self._rows = found
        self._means = {
            (*key, column): _mean(row.figures[column] for row in of) for key, of in found.items() for column in COLUMNS
        }

    def keys(self) -> list[tuple[str, str, int]]:
        """What there is: workload, policy, share."""
        return list(self._rows)

    def seeds(self, trace: str, policy: str, share: int) -> int:
        """How many simulations the mean is of."""
        return len(self._rows.get((trace, policy, share), ()))

    def most_seeds(self, trace: str) -> int:
        """How many simulations the means of a workload are of, at most."""
        return max((len(rows) for (name, *_), rows in self._rows.items() if name == trace), default=0)

    def shares(self, trace: str) -> list[int]:
        """The shares of malleable jobs in percent, without 0."""
        return sorted({share for name, _, share in self._rows if name == trace and share})

    def get(self, trace: str, policy: str, share: int, measure: str) -> float | None:
        """The mean; None: nothing was simulated, or there is no such number."""
        return self._means.get((trace, policy, share, measure))

    def spread(self, trace: str, policy: str, share: int, measure: str) -> tuple[float, float] | None:
        """Quartiles: over jobs, the mean of the seeds; of utilization, over the seeds."""
        if f"{measure}_q25" in COLUMNS:
            low, high = (self.get(trace, policy, share, f"{measure}_{end}") for end in ("q25", "q75"))
            return None if low is None or high is None else (low, high)
        values = [row.figures[measure] for row in self._rows.get((trace, policy, share), ())]
        known = [value for value in values if value is not None]
        if len(known) < 2:
            return None
        quarters = statistics.quantiles(known, n=4, method="inclusive")
        return quarters[0], quarters[2]

    def rigid(self, trace: str, measure: str) -> float | None:
        """The mean without malleable jobs."""
        return self.get(trace, RIGID, 0, measure)

    def choose(self, trace: str, policy: str, share: str, measure: str) -> tuple[str, int, float] | None:
        """A mean, by a policy or ``best`` (of the strategies) and a share or ``any`` (the best): which one it is."""
        names = STRATEGIES if policy == "best" else (policy,)
        shares = self.shares(trace) if share == "any" else [int(share)]
        found = [
            (name, percent, value)
            for percent in shares
            for name in names
            if (value := self.get(trace, name, percent, measure)) is not None
        ]
        sign = -1 if measure in HIGHER_IS_BETTER else 1
        return min(found, key=lambda one: sign * one[2], default=None)


def change(before: float | None, after: float | None) -> float | None:
    """From one mean to another, in percent; None: there is none, or nothing to compare with."""
    return None if not before or after is None else 100 * (after / before - 1)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
