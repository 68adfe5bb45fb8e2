"""How a simulated job behaves, how it runs, and what is recorded of it."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, overload

import msgspec

from apgas.malleability.sizing import Controller, Measured, Sizing
from scheduler_bridge.core import Explanation
from scheduler_bridge.core.events import Effect, Event, Outcome
from scheduler_bridge.model import JobSpec
from scheduler_bridge.sim.failures import FaultTolerance, Losses, Risk, clipped, node_s
from scheduler_bridge.sim.scaling import Cost, Speedup, parse_speedup
from scheduler_bridge.workloads.workload import TraceJob


class Dynamics(msgspec.Struct, frozen=True, gc=False):
    """How simulated jobs start, resize, fail and end: what a workload says nothing of. All times in seconds.

    Attributes:
        speedup: How the runtime changes with the nodes; None: as the job's ``speedup`` says.
        start_delay_s: From the decision to the start.
        startup: From the start, as a function of the nodes, until a job computes: nothing of its work is done, and
            orders wait, of which the scheduler is notified after a second. None: it computes at once.
        ready_delay_s: From the start to the malleable handler; None: it never registers one.
        grow_s: Duration of a grow order; the job goes on at its old size meanwhile.
        workers_s: Duration of an order to use another number of cores.
        shrink_s: Duration of a shrink order; the job goes on at its new size meanwhile, unless it was put off.
        defer_s: Puts every order off by this much first; 0: not at all.
        failing_orders: Which of its orders fail, counted from 0.
        own_choice: Releases other nodes than wished.
        kill_delay_s: From the order to end to the end.
        cost: What a resize costs, on top of ``grow_s`` and ``shrink_s``; None: nothing.
        tolerance: What becomes of a job that loses a node; None: it ends for good, and writes no checkpoints.

    Raises:
        ValueError: A duration is negative.
    """

    speedup: Speedup | None = None
    start_delay_s: float = 0.0
    ready_delay_s: float | None = 0.0
    grow_s: float = 0.0
    shrink_s: float = 0.0
    workers_s: float = 0.0
    defer_s: float = 0.0
    failing_orders: frozenset[int] = frozenset()
    own_choice: bool = False
    kill_delay_s: float = 0.0
    cost: Cost | None = None
    startup: Callable[[int], float] | None = None
    tolerance: FaultTolerance | None = None

    def __post_init__(self) -> None:
        for name in ("start_delay_s", "ready_delay_s", "grow_s", "shrink_s", "workers_s", "defer_s", "kill_delay_s"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}, must not be negative")


Simulated: TypeAlias = tuple[TraceJob, Dynamics]
"""A job, and how it behaves in a simulation."""


# What is recorded of jobs --------------------------------------------------------------------------------------------


class Sizes(Sequence[tuple[float, int]]):
    """Times in seconds and numbers of nodes, as pairs.

    The first pair, which is the only one of most jobs, is kept as it is, and what follows as plain numbers: pairs of
    objects would take five times as much memory, and some jobs are resized thousands of times.
    """

    __slots__ = ("_first", "_nodes", "_rest")

    def __init__(self, pairs: Iterable[tuple[float, int]] = ()) -> None:
        self._first: float | None = None
        self._nodes = 0
        self._rest: array[float] | None = None
        for time_s, nodes in pairs:
            self.append(time_s, nodes)

    def append(self, time_s: float, nodes: int) -> None:
        """Add what is so from ``time_s`` on."""
        if self._first is None:
            self._first, self._nodes = float(time_s), nodes
            return
        if self._rest is None:
            self._rest = array("d")
        self._rest.append(time_s)
        self._rest.append(nodes)

    def spans(self, end_s: float) -> list[tuple[float, float, int]]:
        """From when to when it had how many nodes, if it ended at ``end_s``: (from, to, nodes)."""
        if self._first is None:
            return []
        if self._rest is None:
            return [(self._first, end_s, self._nodes)]
        pairs = list(self)
        ends_s = [from_s for from_s, _ in pairs[1:]]
        return [(from_s, to_s, nodes) for (from_s, nodes), to_s in zip(pairs, [*ends_s, end_s], strict=True)]

    def __len__(self) -> int:
        if self._first is None:
            return 0
        return 1 if self._rest is None else 1 + len(self._rest) // 2

    def __iter__(self) -> Iterator[tuple[float, int]]:
        if self._first is not None:
            yield self._first, self._nodes
        if self._rest is not None:
            numbers = iter(self._rest)
            for time_s, nodes in zip(numbers, numbers, strict=True):
                yield time_s, int(nodes)

    @overload
    def __getitem__(self, index: int) -> tuple[float, int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[float, int]]: ...
    def __getitem__(self, index: int | slice) -> tuple[float, int] | list[tuple[float, int]]:
        return list(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return repr(list(self))


class SimRecord(msgspec.Struct, gc=False):
    """What became of a simulated job. Times in seconds.

    It is no ``record.JobRecord``: it holds numbers of nodes only, so that a million of them fit into memory.

    Attributes:
        spec: What was submitted.
        start_s: When it started first; None: never.
        end_s: When it ended for good.
        outcome: How, as the scheduler sees it; None while it is not over; ``refused`` jobs never enter the queue.
        sizes: Its number of nodes from which time on; a shrink counts from its completion. 0 while it waits to be run
            again.
        shares: The part of its nodes' cores that it uses, from which time on; empty if it always has all.
        grows: Completed grow orders.
        shrinks: Completed shrink orders.
        reserved: When how many nodes were held for it without use, before its start and while it grew: (from, to,
            nodes).
        losses: What failures and checkpoints cost it; None: it has had neither.
    """

    spec: JobSpec
    start_s: float | None = None
    end_s: float | None = None
    outcome: Outcome | None = None
    refused: bool = False
    sizes: Sizes = msgspec.field(default_factory=Sizes)
    shares: tuple[tuple[float, float], ...] = ()
    grows: int = 0
    shrinks: int = 0
    reserved: tuple[tuple[float, float, int], ...] = ()
    losses: Losses | None = None

    @property
    def wait_s(self) -> float | None:
        """From the submission to the start, and from each time that it was lost to the next start."""
        if self.start_s is None:
            return None
        again_s = 0.0 if self.losses is None else self.losses.waited_s
        return self.start_s - self.spec.submit_s + again_s

    @property
    def runtime_s(self) -> float | None:
        """From the start to the end, without the time in which it waited to be run again."""
        if self.start_s is None or self.end_s is None:
            return None
        again_s = 0.0 if self.losses is None else self.losses.waited_s
        return self.end_s - self.start_s - again_s

    @property
    def useful_s(self) -> float | None:
        """The part of its runtime that was not lost, nor spent on checkpoints and restarts."""
        runtime_s = self.runtime_s
        if runtime_s is None or self.losses is None or self.outcome == "lost":
            return runtime_s
        held_node_s = node_s(self.spans())
        return max(0.0, runtime_s - runtime_s * self.losses.spent_node_s() / held_node_s) if held_node_s else runtime_s

    def held_node_s(self, from_s: float, to_s: float) -> float:
        """The node-seconds that it has held from one time to another; of shared nodes, its part."""
        return sum(clipped(self._spans_to(to_s), from_s, to_s))

    def reserve(self, from_s: float, to_s: float, nodes: int) -> None:
        """Note that nodes were held without use."""
        if to_s > from_s and nodes > 0:
            self.reserved += ((from_s, to_s, nodes),)

    def spans(self) -> Sequence[tuple[float, float, float]]:
        """When it computed on how many nodes: (from, to, nodes); nothing while it is not over.

        Of nodes that it shares, the part counts that its cores are.
        """
        return () if self.end_s is None else self._spans_to(self.end_s)

    def _spans_to(self, to_s: float) -> Sequence[tuple[float, float, float]]:
        spans = self.sizes.spans(to_s)
        return [part for span in spans for part in self._parts(*span)] if self.shares else spans

    def _parts(self, from_s: float, to_s: float, nodes: int) -> Iterator[tuple[float, float, float]]:
        share = 1.0
        for time_s, after in self.shares:
            if from_s < time_s < to_s:
                yield from_s, time_s, nodes * share
                from_s = time_s
            if time_s < to_s:
                share = after
        yield from_s, to_s, nodes * share


Observer: TypeAlias = Callable[[float, Sequence[Event], Sequence[Effect]], None]
"""Called after every batch with its time, its events and their effects."""

Progress: TypeAlias = Callable[[float, int], None]
"""Called now and then with the time and how many jobs are over."""


class SimResult(msgspec.Struct, frozen=True):
    """What a simulation yields. It is plain data, which can be pickled, unlike many a policy.

    Attributes:
        records: By id, in the order of submission, so that sums over them are the same whatever order the jobs came in.
        end_s: When the last thing happened.
        batches: How often the core was asked.
        events: How many events it was given.
        explanations: By id, of the jobs whose histories were to be kept: what was decided about them, and why.
        failures: How often a node failed.
    """

    records: dict[int, SimRecord]
    end_s: float
    batches: int
    events: int
    explanations: Mapping[int, Explanation]
    failures: int = 0


# A job while it runs: its progress, and what happens to it that the scheduler does not see ---------------------------

_LOOKS: Final = 500
_ROUNDING: Final = 1e-9
"""What is this close to the end of a step is there."""

ALL: Final = -1

SharingModel: TypeAlias = Literal["ideal", "worst"]


class Run(msgspec.Struct):
    """A job that was ordered to start. ``version`` outdates what was predicted before a change of speed."""

    job: TraceJob
    dynamics: Dynamics
    nodes: tuple[str, ...]
    left_s: float
    ordered_s: float
    rate: float = 0.0
    since_s: float = 0.0
    version: int = 0
    orders: int = 0
    wishes: int = 0
    cores: tuple[int, ...] = ()
    """The cores of each of its nodes that it uses; empty: all."""
    ordered_cores: tuple[int, ...] = ()
    computes_s: float = 0.0
    """When its start-up is over."""
    arriving: tuple[str, ...] = ()
    """The nodes that are held for it while it grows, and that it does not use yet."""
    held_from_s: float = 0.0
    """Since when they are."""
    killed: bool = False
    over: bool = False
    begun: bool = False
    risk: Risk | None = None
    """What it would lose with a node; None: it writes no checkpoints and has lost nothing."""
    dead: tuple[str, ...] = ()
    """The nodes that it has lost."""
    sizes_itself: Controller | None = None
    """What decides how many nodes it wants; None: it does not size itself."""
    wanted: int = 0
    """The change that it asks for."""

    def sizing(self) -> Controller:
        """What decides how many nodes it wants. [D] It looks 500 times in its runtime, at most twice a second."""
        if self.sizes_itself is None:
            job = self.job
            window_s = min(3600.0, max(0.5, job.runtime_s / _LOOKS))
            self.sizes_itself = Controller(
                Sizing(
                    target=job.target_efficiency,
                    min_nodes=job.min_nodes,
                    max_nodes=job.max_nodes,
                    window_s=window_s,
                )
            )
        return self.sizes_itself

    def look(self, now: float) -> int:
        """Measure the job's efficiency since its last look; return by how many nodes it wants to change."""
        controller, nodes, rate = self.sizing(), len(self.nodes), self.rate
        share = rate / (nodes * self.rate_on(1))
        remaining_s = self.left_at(now) / rate if rate > 0 else None
        measured = Measured(now, controller.sizing.window_s, [share] * nodes, remaining_s=remaining_s)
        self.wanted = controller.measured(measured)
        return self.wanted

    def rate_on(self, nodes: int) -> float:
        """Seconds of the runtime at the size asked for that pass per second on ``nodes`` nodes."""
        wanted, speedup = self.job.nodes, self.dynamics.speedup
        if nodes == wanted:
            return 1.0
        if speedup is None:
            speedup = parse_speedup(self.job.speedup)
        return speedup(nodes) / speedup(wanted)

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
        steps = self.job.steps
        if not steps or self.rate <= 0:
            return from_s
        step_s = self.job.runtime_s / steps
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

    nodes: int


class Wish(msgspec.Struct, frozen=True):
    """The job has come to where it asks for nodes."""


class Release(msgspec.Struct, frozen=True):
    """The jobs that a job comes after have ended: it is submitted, and cancelled at once if there is a ``reason``."""

    job: TraceJob
    dynamics: Dynamics
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
