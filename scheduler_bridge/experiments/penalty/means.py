"""Waits by scenario, policy and class, over the workloads."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from scheduler_bridge.experiments.sweep import Row


class Waits:
    """Mean waits in minutes over those workloads in which the class has users."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            self._rows.setdefault((row.cell.trace, row.cell.policy), []).append(row)

    def workloads(self) -> int:
        """How many there are of a scenario."""
        return max((len({row.cell.seed for row in rows}) for rows in self._rows.values()), default=0)

    def each(self, scenario: str, policy: str, name: str) -> list[float]:
        """The waits of a class, or of ``all`` jobs, by workload."""
        column = "wait_min" if name == "all" else f"{name}_wait_min"
        found = (row.figures[column] for row in self._rows.get((scenario, policy), ()))
        return [value for value in found if value is not None]

    def get(self, scenario: str, policy: str, name: str) -> float | None:
        """Their mean; None: the class is empty in all workloads."""
        values = self.each(scenario, policy, name)
        return statistics.fmean(values) if values else None

    def users(self, scenario: str, policy: str, name: str) -> float:
        """How many users the class has, on average."""
        rows = self._rows.get((scenario, policy), ())
        return statistics.fmean(row.figures[f"{name}_users"] or 0.0 for row in rows) if rows else 0.0
