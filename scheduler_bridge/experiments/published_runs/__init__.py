"""The 240 real runs of the 2024 paper on 32 nodes, replayed in the simulator."""

from __future__ import annotations

from scheduler_bridge.experiments.published_runs.compare import Cell, Comparison, compare
from scheduler_bridge.experiments.published_runs.data import BadReferenceError, Reference, RunKey, read_reference
from scheduler_bridge.experiments.published_runs.model import Costs, Measures, measured, simulated

__all__ = [
    "BadReferenceError",
    "Cell",
    "Comparison",
    "Costs",
    "Measures",
    "Reference",
    "RunKey",
    "compare",
    "measured",
    "read_reference",
    "simulated",
]
