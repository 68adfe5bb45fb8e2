"""What a policy decides. Sizes are node counts; which nodes is the scheduler core's choice."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from scheduler_bridge.model import Reason, Reservation


class Start(msgspec.Struct, frozen=True, gc=False):
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


class Share(msgspec.Struct, frozen=True):
    """Start a waiting job on all nodes of running ones, the mates, which give it so many cores of each.

    Attributes:
        job_id: The waiting job.
        nodes: On how many nodes it starts.
        mates: The running jobs.
        cores: What each mate gives of each of its nodes.
        free_nodes: So many of the nodes are free ones, of which it gets all cores.
        reason: Why.
    """

    job_id: int
    nodes: int
    mates: tuple[int, ...]
    cores: int
    free_nodes: int
    reason: Reason


class Reserve(msgspec.Struct, frozen=True, gc=False):
    """Nobody may start in a way that delays this reservation; it holds until the next pass."""

    reservation: Reservation


Decision: TypeAlias = Start | Share | Grow | Shrink | Reserve
