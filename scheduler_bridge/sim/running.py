"""A job while it runs in the simulator: its progress, and what happens to it that the scheduler does not see."""

from __future__ import annotations

import math
from typing import Final, Literal, TypeAlias

import msgspec

from scheduler_bridge.sim.failures import Risk
from scheduler_bridge.sim.models import SimJob

_ROUNDING: Final = 1e-9
"""What is this close to the end of a step is there."""

ALL: Final = -1

SharingModel: TypeAlias = Literal["ideal", "worst"]


class Run(msgspec.Struct):
    """A job that was told to start. ``version`` outdates what was predicted before a change of speed."""

    sim: SimJob
    nodes: tuple[str, ...]
    left_s: float
    told_s: float
    rate: float = 0.0
    since_s: float = 0.0
    version: int = 0
    orders: int = 0
    wishes: int = 0
    cores: tuple[int, ...] = ()
    """The cores of each of its nodes that it uses; empty: all."""
    told_cores: tuple[int, ...] = ()
    computes_s: float = 0.0
    """When its start-up is over."""
    growing: tuple[float, int] | None = None
    """Since when how many nodes are held for it that it does not use yet."""
    killed: bool = False
    over: bool = False
    begun: bool = False
    risk: Risk | None = None
    """What it would lose with a node; None: it writes no checkpoints and has lost nothing."""
    arriving: tuple[str, ...] = ()
    """The nodes that are held for it while it grows."""
    dead: tuple[str, ...] = ()
    """The nodes that it has lost."""

    def left_at(self, now: float) -> float:
        """How much of its runtime is left."""
        elapsed_s = now - self.since_s
        if self.risk is not None:
            elapsed_s = self.risk.rhythm.computing_s(elapsed_s, self.risk.nodes)
        return max(0.0, self.left_s - self.rate * elapsed_s)

    def takes_s(self, work_s: float) -> float:
        """How long the next part of its runtime takes, as long as its speed stays the same."""
        computing_s = work_s / self.rate
        return computing_s if self.risk is None else self.risk.rhythm.elapsed_s(computing_s, self.risk.nodes)

    def next_point_s(self, from_s: float) -> float:
        """When, from ``from_s`` on, it can be resized."""
        steps = self.sim.steps
        if not steps or self.rate <= 0:
            return from_s
        step_s = self.sim.runtime_s / steps
        left_s = self.left_at(from_s)
        to_next_s = left_s - math.floor(left_s / step_s + _ROUNDING) * step_s
        if self.risk is not None:
            point_s = self.since_s + self.takes_s(self.left_s - left_s + max(0.0, to_next_s))
            return max(from_s, point_s)  # it may be there since it began to write a checkpoint
        return from_s + max(0.0, to_next_s) / self.rate


class Change(msgspec.Struct, frozen=True):
    """The job's speed changes: the scheduler does not see that.

    ``nodes`` 0: it stands still; ``ALL``: it uses all that it has then.
    """

    job_id: int
    nodes: int


class Wish(msgspec.Struct, frozen=True):
    """The job has come to where it asks for nodes."""

    job_id: int


class Release(msgspec.Struct, frozen=True):
    """The jobs that a job comes after have ended: it is submitted, and cancelled at once if there is a ``reason``."""

    sim: SimJob
    reason: str


def without(nodes: tuple[str, ...], released: tuple[str, ...]) -> tuple[str, ...]:
    """The nodes that are left, in their order; mostly the last ones are released."""
    if nodes[-len(released) :] == released:
        return nodes[: -len(released)]
    gone = set(released)
    return tuple(node for node in nodes if node not in gone)


def share(cores: tuple[int, ...], cores_per_node: int, model: SharingModel) -> float:
    """How fast a job is with ``cores`` of its nodes, compared with all of them [2019 paper, section 3.4]."""
    if model == "worst":
        return min(cores) / cores_per_node
    return sum(cores) / (len(cores) * cores_per_node)
