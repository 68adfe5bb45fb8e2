"""Who shares nodes with a new job: the running jobs that suffer least, whose nodes are as many as it needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mate:
    """A running job that could give cores of all its nodes to a new one.

    Attributes:
        job_id: Which job.
        nodes: How many nodes it has: its weight [2019 paper, section 3.2.3].
        penalty: Its slowdown if it does, estimated from requested times [equation 4].
    """

    job_id: int
    nodes: int
    penalty: float


def penalty(wait_s: float, increase_s: float, requested_s: float) -> float:
    """The slowdown of a job that waited, and runs longer than it asked for, by so many seconds [equation 4]."""
    return (wait_s + increase_s + requested_s) / requested_s


def choose(mates: Iterable[Mate], nodes: int, *, at_most: int, free_nodes: int = 0) -> tuple[Mate, ...]:
    """Choose the mates with the smallest sum of penalties whose nodes are exactly as many as needed [equations 1-3].

    Args:
        mates: The candidates; each is under the limit for penalties already.
        nodes: The nodes that the new job needs.
        at_most: How many mates it may have.
        free_nodes: So many free nodes may make up for missing ones; at least one mate gives its nodes all the same.

    Returns:
        The mates, smallest penalty first; nobody if no choice fits. Among equal choices, the one whose mates come
        first by penalty and id.
    """
    ranked = sorted((m for m in mates if m.nodes <= nodes), key=lambda mate: (mate.penalty, mate.job_id))
    candidates = _useful(ranked, at_most)
    best: tuple[float, tuple[Mate, ...]] = (math.inf, ())

    def extend(chosen: tuple[Mate, ...], first: int, missing: int, total: float) -> None:
        nonlocal best
        for index in range(first, len(candidates)):
            mate = candidates[index]
            if total + mate.penalty >= best[0]:
                return  # those that follow cost as much or more
            left = missing - mate.nodes
            if 0 <= left <= free_nodes:
                best = (total + mate.penalty, (*chosen, mate))
            elif left > 0 and len(chosen) + 1 < at_most:
                extend((*chosen, mate), index + 1, left, total + mate.penalty)

    if at_most > 0:
        extend((), 0, nodes, 0.0)
    return best[1]


def _useful(ranked: Sequence[Mate], at_most: int) -> list[Mate]:
    """Leave out who can be in no best choice: of those with equally many nodes, only the first ``at_most`` can."""
    met: dict[int, int] = {}
    found = []
    for mate in ranked:
        met[mate.nodes] = met.get(mate.nodes, 0) + 1
        if met[mate.nodes] <= at_most:
            found.append(mate)
    return found
