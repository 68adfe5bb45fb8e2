"""Means over seeds of what was simulated, and changes against static backfill."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from scheduler_bridge.experiments.sd_policy.cells import LIMITS, STATIC
from scheduler_bridge.experiments.sweep import Row


class Means:
    """Means over seeds, by workload and policy."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            self._rows.setdefault((row.cell.trace, row.cell.policy), []).append(row)

    def known(self) -> list[tuple[str, str]]:
        """What there is: workload, policy."""
        return list(self._rows)

    def seeds(self, trace: str, policy: str) -> int:
        """How many simulations the means are of."""
        return len(self._rows.get((trace, policy), ()))

    def get(self, trace: str, policy: str, measure: str) -> float | None:
        """A mean; None: nothing was simulated."""
        values = [row.figures[measure] for row in self._rows.get((trace, policy), ())]
        known = [value for value in values if value is not None]
        return statistics.fmean(known) if known else None

    def change(self, trace: str, policy: str, measure: str, before: str = STATIC) -> float | None:
        """The mean against that of another policy, in percent."""
        first, then = self.get(trace, before, measure), self.get(trace, policy, measure)
        return None if not first or then is None else 100 * (then / first - 1)

    def best(self, trace: str, measure: str) -> str | None:
        """The limit with the smallest mean, under the ideal model; None: one of them was not simulated."""
        values = {limit: self.get(trace, limit, measure) for limit in LIMITS}
        known = {limit: value for limit, value in values.items() if value is not None}
        return min(known, key=lambda limit: known[limit]) if len(known) == len(LIMITS) else None
