"""Who shares nodes with a new job: the running jobs that suffer least, whose nodes are as many as it needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
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
    by_nodes = _useful(mates, nodes, at_most)
    if at_most == 2 and free_nodes == 0:
        return _pair(by_nodes, nodes)
    candidates = sorted([mate for some in by_nodes.values() for mate in some], key=_rank)
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


def _rank(mate: Mate) -> tuple[float, int]:
    return mate.penalty, mate.job_id


def _useful(mates: Iterable[Mate], nodes: int, at_most: int) -> dict[int, list[Mate]]:
    """Leave out who can be in no best choice: of those with equally many nodes, only the first ``at_most`` can."""
    by_nodes: dict[int, list[Mate]] = {}
    for mate in mates:
        if mate.nodes <= nodes:
            by_nodes.setdefault(mate.nodes, []).append(mate)
    for size, some in by_nodes.items():
        if len(some) > 1:
            by_nodes[size] = sorted(some, key=_rank)[:at_most]
    return by_nodes


def _pair(by_nodes: Mapping[int, Sequence[Mate]], nodes: int) -> tuple[Mate, ...]:
    """The best choice of one or two, the usual case, without a search."""
    choices: list[tuple[Mate, ...]] = [(by_nodes[nodes][0],)] if nodes in by_nodes else []
    for size, some in by_nodes.items():
        other = by_nodes.get(nodes - size, ())
        if 2 * size < nodes and other:
            choices.append((some[0], other[0]) if _rank(some[0]) < _rank(other[0]) else (other[0], some[0]))
        elif 2 * size == nodes and len(some) > 1:
            choices.append((some[0], some[1]))
    return min(choices, key=lambda chosen: (sum([m.penalty for m in chosen]), [_rank(m) for m in chosen]), default=())
