"""What a policy decides. Sizes are node counts; which nodes is the scheduler core's choice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    """Nobody may start in a way that delays this reservation; it holds until the next pass, or longer: ``Stand``."""

    reservation: Reservation


class Stand(msgspec.Struct, frozen=True, gc=False):
    """What the last pass promised stands, but for the jobs that start or get another reservation: comes first."""


Decision: TypeAlias = Start | Share | Grow | Shrink | Reserve | Stand


def in_full(decisions: Sequence[Decision], before: Iterable[Reservation]) -> list[Decision]:
    """Name every reservation, those that stand, too.

    Args:
        decisions: What a policy decided.
        before: What was promised before.
    """
    if not decisions or not isinstance(decisions[0], Stand):
        return list(decisions)
    promises = {promise.job_id: promise for promise in before}
    for decision in decisions:
        if isinstance(decision, Start | Share):
            promises.pop(decision.job_id, None)
    named = {decision.reservation.job_id: decision for decision in decisions if isinstance(decision, Reserve)}
    standing = {job_id: Reserve(promise) for job_id, promise in promises.items()}
    others = [decision for decision in decisions if not isinstance(decision, Stand | Reserve)]
    return [*{**standing, **named}.values(), *others]
