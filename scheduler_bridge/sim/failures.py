"""Nodes that fail and are repaired, what becomes of the jobs on them, and the checkpoints that they write.

A job that loses a node ends, as under the live scheduler, and is submitted again where it is to be run again: it waits
behind those that wait already, and goes on from its last checkpoint, or from the beginning. A resilient one goes on
without the node, unless that is its first one, where its place 0 is; it does again what the lost node had done since
the last checkpoint.

Node-seconds of a job are useful, lost, or spent on checkpoints or restarts. [D] Lost is what was computed since the
last checkpoint, on all nodes or on the one that a resilient job loses; of a job that is not run again, everything.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from scheduler_bridge.core.events import Event, GrowCompleted, NodeDown, NodeUp, ResizeFailed, ShrinkCompleted

Spans: TypeAlias = list[tuple[float, float, float]]
"""(from, to, nodes), nodes as a mean."""


class FaultTolerance(msgspec.Struct, frozen=True):
    """What becomes of a job that loses a node. Times in seconds.

    Attributes:
        requeue: It is submitted again, if it ends.
        attempts: It is run so often at most; None: until it ends in another way.
        resilient: It goes on without the node, unless that is its first one.
        checkpoints: When it writes what it has done; None: never.
        restart_s: What passes before it computes when it is run again or goes on without a node.

    Raises:
        ValueError: A number is out of range.
    """

    requeue: bool = True
    attempts: int | None = None
    resilient: bool = False
    checkpoints: CheckpointPlan | None = None
    restart_s: float = 0.0

    def __post_init__(self) -> None:
        if self.attempts is not None and self.attempts < 1:
            raise ValueError(f"attempts is {self.attempts}, must be at least 1")
        if not 0 <= self.restart_s < math.inf:
            raise ValueError(f"a restart takes {self.restart_s} s, must not be negative, and finite")

    @property
    def at_risk(self) -> bool:
        """Whether a job's work is accounted for from the beginning."""
        return self.resilient or self.checkpoints is not None

    def takes_s(self, computing_s: float, nodes: int) -> float:
        """How long that takes, with a restart and the checkpoints on ``nodes`` nodes."""
        return self.restart_s + Rhythm(self.checkpoints).elapsed_s(computing_s, nodes)

    def requeues(self, restarts: int) -> bool:
        """Whether a job that was restarted so often is run again."""
        return self.requeue and (self.attempts is None or restarts + 1 < self.attempts)


class Losses(msgspec.Struct):
    """What failures, and provision for them, cost a job. Times in seconds.

    Attributes:
        failures: How often it lost a node.
        restarts: How often it was submitted again.
        checkpoints: How many it completed.
        waited_s: How long it waited after its first start.
        waits_from_s: Since when it waits to be run again; None: it does not.
        lost: When how many nodes computed what was lost.
        checkpointing: When how many nodes wrote checkpoints.
        restarting: When how many nodes restarted.
    """

    failures: int = 0
    restarts: int = 0
    checkpoints: int = 0
    waited_s: float = 0.0
    waits_from_s: float | None = None
    lost: Spans = msgspec.field(default_factory=list)
    checkpointing: Spans = msgspec.field(default_factory=list)
    restarting: Spans = msgspec.field(default_factory=list)

    def wait_over(self, now: float) -> None:
        """It is run again, or not any more."""
        if self.waits_from_s is not None:
            self.waited_s += now - self.waits_from_s
            self.waits_from_s = None

    def spent_node_s(self) -> float:
        """Node-seconds that were of no use to the job."""
        return node_s(self.lost) + node_s(self.checkpointing) + node_s(self.restarting)


class Risk:
    """What a running job would lose with a node.

    Args:
        left_s: What was left of its runtime at the last checkpoint of an earlier run, or at the beginning.

    Attributes:
        kept_s: What was left of its runtime at the last checkpoint, or when it began.
        from_s: Since when it computes what is not kept.
        booked_node_s: What of its node-seconds since then is in the account already.
        nodes: On how many nodes it computes.
        weight: The same, of shared ones their part.
    """

    __slots__ = ("_restarts_s", "booked_node_s", "from_s", "kept_s", "losses", "nodes", "rhythm", "tolerance", "weight")

    def __init__(self, tolerance: FaultTolerance, losses: Losses, left_s: float) -> None:
        self.tolerance = tolerance
        self.losses = losses
        self.rhythm = Rhythm(tolerance.checkpoints)
        self.kept_s = left_s
        self.from_s = 0.0
        self.booked_node_s = 0.0
        self.nodes = 0
        self.weight = 0.0
        self._restarts_s: float | None = None  # since when

    def begin(self, now: float, nodes: int, *, again: bool) -> float:
        """The job begins; return how long it restarts."""
        self.from_s, self.nodes, self.weight = now, nodes, float(nodes)
        return self.restart(now) if again else 0.0

    def restart(self, now: float) -> float:
        """The job restarts, if that takes time; return how long."""
        if self.tolerance.restart_s > 0:
            self._restarts_s = now
        return self.tolerance.restart_s

    def restarted(self, now: float) -> None:
        """The restart is over, or cut short."""
        if self._restarts_s is not None:
            self._spend(self.losses.restarting, self._restarts_s, now, (now - self._restarts_s) * self.weight)
            self._restarts_s = None

    def resized(self, now: float, nodes: int, weight: float) -> None:
        """Its size changes, ``weight`` being its part of shared nodes, but it does not compute yet."""
        if self._restarts_s is not None:
            self.restarted(now)
            self._restarts_s = now
        self.nodes, self.weight = nodes, weight

    def advance(self, left_s: float, rate: float, since_s: float, now: float) -> float:
        """Let the job go on at ``rate`` from ``since_s``, when ``left_s`` was left, to ``now``; return what is left."""
        if rate <= 0 or now <= since_s:
            return left_s
        elapsed_s = now - since_s
        computing_s = self.rhythm.computing_s(elapsed_s, self.nodes)
        writing_s = elapsed_s - computing_s
        completed, ago_s, computed_s = self.rhythm.advance(elapsed_s, self.nodes)
        if self.rhythm.plan is not None and writing_s > 0:
            self._spend(self.losses.checkpointing, since_s, now, writing_s * self.weight)
        if completed:
            self.losses.checkpoints += completed
            self.kept_s = max(0.0, left_s - rate * computed_s)
            self.from_s = now - ago_s
            self.booked_node_s = self.rhythm.written_s * self.weight
        return max(0.0, left_s - rate * computing_s)

    def lose(self, held_node_s: float, now: float, part: float = 1.0) -> None:
        """A part of what is not kept is lost; the job has held ``held_node_s`` since ``from_s``."""
        self.losses.failures += 1
        lost_node_s = max(0.0, held_node_s - self.booked_node_s) * part
        self._spend(self.losses.lost, self.from_s, now, lost_node_s)

    def _spend(self, spans: Spans, from_s: float, to_s: float, node_seconds: float) -> None:
        if to_s > from_s and node_seconds > 0:
            spans.append((from_s, to_s, node_seconds / (to_s - from_s)))
            self.booked_node_s += node_seconds


def node_s(spans: Iterable[tuple[float, float, float]]) -> float:
    """Node-seconds of spans."""
    return sum([(to_s - from_s) * nodes for from_s, to_s, nodes in spans])


def as_it_is(
    event: GrowCompleted | ShrinkCompleted, nodes: Sequence[str], dead: Sequence[str]
) -> GrowCompleted | ShrinkCompleted | ResizeFailed:
    """What becomes of an order to a job on ``nodes`` that has lost ``dead`` since it was given."""
    failed = ResizeFailed(event.job_id, event.order, "nodes were lost")
    if isinstance(event, GrowCompleted):
        gained = tuple(node for node in event.nodes if node not in dead)
        return GrowCompleted(event.job_id, event.order, gained) if gained else failed
    count, free = len(event.nodes), nodes[1:]
    if len(free) < count:
        return failed
    asked = [node for node in event.nodes if node in free]
    others = [node for node in reversed(free) if node not in asked]
    return ShrinkCompleted(event.job_id, event.order, tuple(asked + others[: count - len(asked)]))


def random_failures(
    nodes: Sequence[str], *, mtbf_s: float, repair_s: float, until_s: float, seed: int
) -> list[tuple[float, Event]]:
    """Draw failures of single nodes, exponential in time, each with a repair of ``repair_s``; all in seconds.

    A node does not fail while it is down. All nodes are back at the end, so that every job can be held again.

    Args:
        nodes: The nodes.
        mtbf_s: Mean time between failures of one node.
        repair_s: How long a node is out of service.
        until_s: No failure begins later; from 0 on.
        seed: Determines everything.

    Raises:
        ValueError: A time is not positive.
    """
    if not (mtbf_s > 0 and repair_s > 0):
        raise ValueError(f"mtbf_s is {mtbf_s} and repair_s {repair_s}, both must be positive")
    found: list[tuple[float, Event]] = []
    for node in nodes:
        rng = random.Random(f"{seed} failures {node}")
        time_s = rng.expovariate(1 / mtbf_s)
        while time_s <= until_s:
            found += [(time_s, NodeDown(node)), (time_s + repair_s, NodeUp(node))]
            time_s += repair_s + rng.expovariate(1 / mtbf_s)
    found.sort(key=lambda item: item[0])
    return found


def earliest_end_s(jobs: Iterable[tuple[float, float, int]], nodes: int) -> float:
    """When jobs, as (submission, runtime, nodes), could be over on ``nodes`` nodes at the very earliest.

    Failures go on until then at least; later ones could keep a job that is too long for the machine from ever ending.
    """
    first_s, end_s, work_node_s = math.inf, 0.0, 0.0
    for submit_s, runtime_s, size in jobs:
        first_s = min(first_s, submit_s)
        end_s = max(end_s, submit_s + runtime_s)
        work_node_s += runtime_s * size
    return max(end_s, first_s + work_node_s / nodes) if end_s else 0.0


def clipped(spans: Iterable[tuple[float, float, float]], from_s: float, to_s: float) -> Iterator[float]:
    """The node-seconds of each span within a time."""
    for start_s, end_s, nodes in spans:
        yield max(0.0, min(end_s, to_s) - max(start_s, from_s)) * nodes


# Checkpoints ---------------------------------------------------------------------------------------------------------
#
# A job computes for an interval, then stands still while it writes what it has done. What is written is done for good,
# whatever the size at which the job goes on: its work is counted in parts of the whole, not in node-seconds. After its
# last part it writes nothing any more.

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
    """Where a running job is between two checkpoints; without a plan it writes none."""

    __slots__ = ("_computed_s", "_writing_s", "plan")

    def __init__(self, plan: CheckpointPlan | None) -> None:
        self.plan = plan
        self._computed_s = 0.0  # since the last checkpoint
        self._writing_s: float | None = None  # what is left of the checkpoint under way

    def computing_s(self, elapsed_s: float, nodes: int) -> float:
        """How much of the next ``elapsed_s`` it computes."""
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
        """How long it takes to compute for ``computing_s``."""
        if (plan := self.plan) is None or computing_s <= 0:
            return computing_s
        interval_s = plan.interval_s(nodes)
        left_s = computing_s - self._ahead_s(interval_s)
        checkpoints = max(0, math.ceil(left_s / interval_s - _ROUNDING))
        return (self._writing_s or 0.0) + computing_s + checkpoints * plan.cost_s

    def advance(self, elapsed_s: float, nodes: int) -> tuple[int, float, float]:
        """Let time pass.

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
