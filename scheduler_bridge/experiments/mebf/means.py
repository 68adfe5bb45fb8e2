"""Means over twins of what was simulated, and changes against EASY with rigid jobs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Final

from scheduler_bridge.experiments.mebf.cells import EBF, GROUPS
from scheduler_bridge.experiments.sweep import Row

EVENTS: Final = ("shrinks", "expands", "backfills")
"""The events that Table 5 divides."""
EXPAND_SIZES: Final = {f"expands_{low}_to_{high}": str(low) if low == high else f"{low}-{high}" for low, high in GROUPS}
"""The expands that figure 6 divides, and the sizes of their jobs."""


class Means:
    """Means over seeds."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows: dict[tuple[str, str, int], list[Row]] = {}
        for row in rows:
            self._rows.setdefault((row.cell.trace, row.cell.policy, row.cell.share), []).append(row)

    def known(self) -> list[tuple[str, str, int]]:
        """What there is: variant, policy, share."""
        return list(self._rows)

    def twins(self) -> int:
        """How many there are."""
        return len({row.cell.seed for rows in self._rows.values() for row in rows})

    def get(self, variant: str, policy: str, measure: str = "turnaround_s", share: int = 100) -> float | None:
        """A mean; of EASY, whose jobs are rigid, that of the variant's size and load."""
        key = (" ".join(variant.split()[:2]), EBF, 0) if policy == EBF else (variant, policy, share)
        values = [value for row in self._rows.get(key, ()) if (value := row.figures[measure]) is not None]
        return statistics.fmean(values) if values else None

    def gain(self, variant: str, policy: str, measure: str = "turnaround_s", share: int = 100) -> float | None:
        """The change against EASY in percent."""
        before, after = self.get(variant, EBF, measure), self.get(variant, policy, measure, share)
        return None if not before or after is None else 100 * (after / before - 1)

    def shares(self, variant: str, policy: str, names: Sequence[str], share: int = 100) -> list[float]:
        """How numbers of events divide, in percent; empty: there are none."""
        counts = [self.get(variant, policy, name, share) or 0.0 for name in names]
        total = sum(counts)
        return [100 * count / total for count in counts] if total else []
