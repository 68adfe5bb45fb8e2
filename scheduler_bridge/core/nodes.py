"""Which node is free, held by which job, or out of service."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final


class NodeState(StrEnum):
    """What a node is doing. A lost node is out of service while a job still holds it."""

    FREE = "free"
    HELD = "held"
    DOWN = "down"
    LOST = "lost"


class NodeStep(StrEnum):
    """What happens to a node."""

    TAKE = "take"
    RELEASE = "release"
    FAIL = "fail"
    RETURN = "return"


TRANSITIONS: Final[Mapping[tuple[NodeState, NodeStep], NodeState]] = {
    (NodeState.FREE, NodeStep.TAKE): NodeState.HELD,
    (NodeState.HELD, NodeStep.RELEASE): NodeState.FREE,
    (NodeState.FREE, NodeStep.FAIL): NodeState.DOWN,
    (NodeState.HELD, NodeStep.FAIL): NodeState.LOST,
    (NodeState.LOST, NodeStep.RELEASE): NodeState.DOWN,
    (NodeState.LOST, NodeStep.RETURN): NodeState.HELD,
    (NodeState.DOWN, NodeStep.RETURN): NodeState.FREE,
}


class NodePool:
    """The nodes of the cluster. Always hands out the free nodes that were named first.

    Args:
        nodes: All nodes, in the order of preference.

    Raises:
        ValueError: A node is named twice.
    """

    def __init__(self, nodes: Sequence[str]) -> None:
        self._names: list[str] = []
        self._rank: dict[str, int] = {}
        self._state: dict[str, NodeState] = {}
        self._owner: dict[str, int] = {}
        self._heap: list[int] = []  # ranks; entries of nodes that are not free any more are skipped when met
        self._count: dict[NodeState, int] = dict.fromkeys(NodeState, 0)
        for node in nodes:
            if node in self._rank:
                raise ValueError(f"node {node!r} is named twice")
            self._add(node)

    def _add(self, node: str) -> None:
        self._rank[node] = len(self._names)
        self._names.append(node)
        self._state[node] = NodeState.FREE
        self._count[NodeState.FREE] += 1
        heapq.heappush(self._heap, self._rank[node])

    def _step(self, node: str, step: NodeStep) -> None:
        before = self._state[node]
        if (after := TRANSITIONS.get((before, step))) is None:
            raise RuntimeError(f"node {node!r} is {before}, cannot {step}; owner {self._owner.get(node)}")
        self._state[node] = after
        self._count[before] -= 1
        self._count[after] += 1
        if after is NodeState.FREE:
            heapq.heappush(self._heap, self._rank[node])

    @property
    def names(self) -> Sequence[str]:
        """All nodes."""
        return self._names

    @property
    def free(self) -> int:
        """How many nodes can be taken."""
        return self._count[NodeState.FREE]

    @property
    def in_service(self) -> int:
        """How many nodes are free or held, and not out of service."""
        return self._count[NodeState.FREE] + self._count[NodeState.HELD]

    @property
    def held(self) -> int:
        """How many nodes jobs hold, those out of service included."""
        return self._count[NodeState.HELD] + self._count[NodeState.LOST]

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, node: object) -> bool:
        return node in self._rank

    def state(self, node: str) -> NodeState:
        """The state of a known node."""
        return self._state[node]

    def owner(self, node: str) -> int | None:
        """The job that holds the node."""
        return self._owner.get(node)

    def strangers(self, job_id: int, nodes: Iterable[str]) -> list[str]:
        """Those of ``nodes`` that the job does not hold."""
        owner = self._owner
        return [node for node in nodes if owner.get(node) != job_id]

    def take(self, job_id: int, count: int) -> tuple[str, ...]:
        """Give the ``count`` first free nodes to a job.

        Raises:
            RuntimeError: There are not as many.
        """
        if count > self.free:
            raise RuntimeError(f"job {job_id} is to get {count} nodes, {self.free} are free")
        taken: list[str] = []
        while len(taken) < count:
            node = self._names[heapq.heappop(self._heap)]
            if self._state[node] is NodeState.FREE:
                self._step(node, NodeStep.TAKE)
                self._owner[node] = job_id
                taken.append(node)
        return tuple(taken)

    def release(self, job_id: int, nodes: Iterable[str]) -> None:
        """Take nodes back from a job.

        Raises:
            RuntimeError: The job does not hold one of them.
        """
        for node in nodes:
            if self._owner.get(node) != job_id:
                raise RuntimeError(f"job {job_id} gives back {node!r}, which job {self._owner.get(node)} holds")
            del self._owner[node]
            self._step(node, NodeStep.RELEASE)

    def fail(self, node: str) -> int | None:
        """Take a node out of service; returns the job that holds it. Without effect if it is out already."""
        if self._state[node] in (NodeState.FREE, NodeState.HELD):
            self._step(node, NodeStep.FAIL)
        return self._owner.get(node)

    def restore(self, node: str) -> None:
        """Put a node into service (again); a new one joins at the end. Without effect if it is in service."""
        if node not in self._rank:
            self._add(node)
        elif self._state[node] in (NodeState.DOWN, NodeState.LOST):
            self._step(node, NodeStep.RETURN)
