"""When simulated jobs write checkpoints, and how they get on between them.

A job computes for an interval, then stands still while it writes what it has done. What is written is done for good,
whatever the size at which the job goes on: its work is counted in parts of the whole, not in node-seconds. After its
last part it writes nothing any more.
"""

from __future__ import annotations

import math
from typing import Final, Literal, TypeAlias

import msgspec

Rule: TypeAlias = Literal["fixed", "young", "daly"]

_ROUNDING: Final = 1e-9
"""So small a part of an interval is none."""


class CheckpointPlan(msgspec.Struct, frozen=True):
    """When jobs write checkpoints. Times in seconds.

    Attributes:
        cost_s: How long a job stands still for one.
        rule: ``fixed``: after ``every_s`` of computing. ``young`` and ``daly``: after what is best for a job whose
            nodes fail every ``mtbf_s`` / nodes, so that a job that grows writes more often.
        every_s: The interval of ``fixed``.
        mtbf_s: Mean time between failures of one node, for the other two.

    Raises:
        ValueError: A time is out of range, or the rule's interval would be zero.
    """

    cost_s: float
    rule: Rule = "fixed"
    every_s: float = 0.0
    mtbf_s: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.cost_s < math.inf:
            raise ValueError(f"a checkpoint takes {self.cost_s} s, must not be negative, and finite")
        if self.rule == "fixed" and not 0 < self.every_s < math.inf:
            raise ValueError(f"an interval of {self.every_s} s between checkpoints, must be positive and finite")
        if self.rule != "fixed" and not (self.cost_s > 0 and 0 < self.mtbf_s < math.inf):
            raise ValueError(f"{self.rule} needs checkpoints that take time, and nodes that fail")

    def interval_s(self, nodes: int) -> float:
        """Seconds of computing on ``nodes`` nodes between two checkpoints."""
        if self.rule == "fixed":
            return self.every_s
        best = young_s if self.rule == "young" else daly_s
        return best(self.cost_s, self.mtbf_s / nodes)

    def with_checkpoints_s(self, computing_s: float, nodes: int) -> float:
        """How long so much computing takes on ``nodes`` nodes with its checkpoints."""
        return computing_s + self.cost_s * max(0, math.ceil(computing_s / self.interval_s(nodes) - _ROUNDING) - 1)


def young_s(cost_s: float, mtbf_s: float) -> float:
    """The best interval, to first order: sqrt(2 cost mtbf) [Young, CACM 17(9), 1974, p. 531]."""
    return math.sqrt(2.0 * cost_s * mtbf_s)


def daly_s(cost_s: float, mtbf_s: float) -> float:
    """The best interval, to higher order [Daly, FGCS 22(3), 2006, equation 37]."""
    if cost_s >= 2.0 * mtbf_s:
        return mtbf_s
    share = cost_s / (2.0 * mtbf_s)
    return young_s(cost_s, mtbf_s) * (1.0 + math.sqrt(share) / 3.0 + share / 9.0) - cost_s


class Rhythm:
    """Where a running job is between two checkpoints; without a plan it writes none.

    Attributes:
        plan: When it writes.
    """

    __slots__ = ("_computed_s", "_writing_s", "plan")

    def __init__(self, plan: CheckpointPlan | None) -> None:
        self.plan = plan
        self._computed_s = 0.0  # since the last checkpoint
        self._writing_s: float | None = None  # what is left of the checkpoint under way

    def computing_s(self, elapsed_s: float, nodes: int) -> float:
        """How much of the next ``elapsed_s`` it computes, on so many nodes."""
        if (plan := self.plan) is None:
            return elapsed_s
        rest_s = elapsed_s - (self._writing_s or 0.0)
        ahead_s = self._ahead_s(plan.interval_s(nodes))
        if rest_s <= ahead_s:
            return max(0.0, rest_s)
        rest_s -= ahead_s
        interval_s = plan.interval_s(nodes)
        cycle_s = interval_s + plan.cost_s
        cycles = math.floor(rest_s / cycle_s)
        return ahead_s + cycles * interval_s + max(0.0, rest_s - cycles * cycle_s - plan.cost_s)

    def elapsed_s(self, computing_s: float, nodes: int) -> float:
        """How long it takes to compute for so long on so many nodes."""
        if (plan := self.plan) is None or computing_s <= 0:
            return computing_s
        interval_s = plan.interval_s(nodes)
        left_s = computing_s - self._ahead_s(interval_s)
        checkpoints = max(0, math.ceil(left_s / interval_s - _ROUNDING))
        return (self._writing_s or 0.0) + computing_s + checkpoints * plan.cost_s

    def advance(self, elapsed_s: float, nodes: int) -> tuple[int, float, float]:
        """Let time pass on so many nodes.

        Returns:
            How many checkpoints were completed; how long ago the last of them was (0 if none was); and for how long
            it has computed when that was begun.
        """
        if (plan := self.plan) is None:
            return 0, 0.0, 0.0
        interval_s = plan.interval_s(nodes)
        ahead_s = 0.0 if self._writing_s is not None else self._ahead_s(interval_s)
        first_s = ahead_s + (plan.cost_s if self._writing_s is None else self._writing_s)
        if elapsed_s + _ROUNDING < first_s:
            if self._writing_s is not None:
                self._writing_s -= elapsed_s
            elif elapsed_s < ahead_s:
                self._computed_s += elapsed_s
            else:
                self._computed_s += ahead_s
                self._writing_s = first_s - elapsed_s
            return 0, 0.0, 0.0
        cycle_s = interval_s + plan.cost_s
        more = math.floor((elapsed_s - first_s) / cycle_s + _ROUNDING)
        ago_s = max(0.0, elapsed_s - first_s - more * cycle_s)
        self._computed_s = min(ago_s, interval_s)
        self._writing_s = cycle_s - ago_s if ago_s > interval_s else None
        return 1 + more, ago_s, ahead_s + more * interval_s

    @property
    def written_s(self) -> float:
        """How long it has been at the checkpoint under way."""
        return 0.0 if self.plan is None or self._writing_s is None else self.plan.cost_s - self._writing_s

    def _ahead_s(self, interval_s: float) -> float:
        """How long it computes before it begins the next checkpoint, once the one under way is done."""
        return interval_s if self._writing_s is not None else max(0.0, interval_s - self._computed_s)
