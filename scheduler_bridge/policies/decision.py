"""What a policy decides. Sizes are node counts; which nodes is the scheduler core's choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from scheduler_bridge.model import Reservation


@dataclass(frozen=True, slots=True)
class Start:
    """Start a waiting job on ``nodes`` nodes."""

    job_id: int
    nodes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Grow:
    """Give ``nodes`` free nodes to a running malleable job."""

    job_id: int
    nodes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Shrink:
    """Take ``nodes`` nodes from a running malleable job."""

    job_id: int
    nodes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reserve:
    """Nobody may start in a way that delays this reservation; it holds until the next pass."""

    reservation: Reservation


Decision: TypeAlias = Start | Grow | Shrink | Reserve
