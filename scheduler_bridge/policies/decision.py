"""What a policy decides. Sizes are node counts; which nodes is the scheduler core's choice."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from scheduler_bridge.model import Reason, Reservation


class Start(msgspec.Struct, frozen=True):
    """Start a waiting job on ``nodes`` nodes."""

    job_id: int
    nodes: int
    reason: Reason


class Grow(msgspec.Struct, frozen=True):
    """Give ``nodes`` free nodes to a running malleable job."""

    job_id: int
    nodes: int
    reason: Reason


class Shrink(msgspec.Struct, frozen=True):
    """Take ``nodes`` nodes from a running malleable job."""

    job_id: int
    nodes: int
    reason: Reason


class Reserve(msgspec.Struct, frozen=True):
    """Nobody may start in a way that delays this reservation; it holds until the next pass."""

    reservation: Reservation


Decision: TypeAlias = Start | Grow | Shrink | Reserve
