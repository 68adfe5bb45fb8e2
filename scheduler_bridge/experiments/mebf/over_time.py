"""Utilization over time [figure 11]: by four hours, from the beginning of the workload on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scheduler_bridge.sim import JobRecord

STEP_H: Final = 4
HOURS: Final = tuple(range(0, 96, STEP_H))
"""At which hours the steps begin. 1,000 jobs arrive within two days [D: what follows is as long]."""
_STEP_S: Final = 3600.0 * STEP_H


def column(hour: int) -> str:
    """The name of the figure of the step that begins at this hour."""
    return f"utilization_from_{hour}_h"


def utilizations(records: Iterable[JobRecord], nodes: int) -> dict[str, float]:
    """The node-seconds on which jobs computed, in percent of those of all ``nodes`` nodes, by step."""
    busy = [0.0] * len(HOURS)
    for record in records:
        for from_s, to_s, held in record.spans():
            first, last = int(from_s // _STEP_S), int(to_s // _STEP_S)
            for step in range(first, min(last + 1, len(busy))):
                inside_s = min(to_s, (step + 1) * _STEP_S) - max(from_s, step * _STEP_S)
                busy[step] += inside_s * held
    return {column(hour): 100 * seconds / (nodes * _STEP_S) for hour, seconds in zip(HOURS, busy, strict=True)}
