"""How simulated jobs run, and what is recorded of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from scheduler_bridge.core.events import Outcome
from scheduler_bridge.model import JobSpec
from scheduler_bridge.sim.costs import Cost
from scheduler_bridge.sim.failures import FaultTolerance, Losses, clipped, node_s
from scheduler_bridge.sim.sizes import Sizes
from scheduler_bridge.sim.speedup import Speedup, linear_speedup
from scheduler_bridge.workloads.dependencies import After


class SimJob(msgspec.Struct, frozen=True, gc=False):
    """A job and its behaviour. All times in seconds.

    Attributes:
        spec: What is submitted, at ``spec.submit_s``.
        runtime_s: Runtime on ``spec.nodes`` nodes, without ``startup``; may be longer than the walltime.
        speedup: How the runtime changes with the nodes.
        start_delay_s: From the decision to the start.
        startup: From the start, on so many nodes, until it computes: nothing of its work is done, and orders wait;
            the scheduler is told so after a second. None: it computes at once.
        ready_delay_s: From the start to the malleable handler; None: it never registers one.
        grow_s: Duration of a grow order; the job goes on at its old size meanwhile.
        workers_s: Duration of an order to use another number of cores.
        shrink_s: Duration of a shrink order; the job goes on at its new size meanwhile, unless it was put off.
        defer_s: Puts every order off by this much first; 0: not at all.
        failing_orders: Which of its orders fail, counted from 0.
        own_choice: Releases other nodes than wished.
        kill_delay_s: From being told to end to the end.
        cost: What a resize costs, on top of ``grow_s`` and ``shrink_s``; None: nothing.
        steps: Equal parts of the work at whose ends orders are carried out; 0: at any time. The scheduler is not told
            that an order waits for the end of a part.
        wishes: Nodes that the job asks for (negative: offers) once it has done so much of its work: (share from 0 to
            1, nodes), by rising share: an evolving job.
        tolerance: What becomes of it when it loses a node; None: it ends for good, and writes no checkpoints.
        after: Which jobs end before it is submitted; None: it is submitted at ``spec.submit_s``.

    Raises:
        ValueError: The runtime is not positive, a duration is negative, or a share is out of range.
    """

    spec: JobSpec
    runtime_s: float
    speedup: Speedup = linear_speedup
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
    steps: int = 0
    wishes: tuple[tuple[float, int], ...] = ()
    startup: Callable[[int], float] | None = None
    tolerance: FaultTolerance | None = None
    after: After | None = None

    def __post_init__(self) -> None:
        if self.runtime_s <= 0:
            raise ValueError(f"job {self.spec.job_id}: runtime_s is {self.runtime_s}, must be positive")
        if (
            self.start_delay_s < 0
            or (self.ready_delay_s or 0) < 0
            or self.grow_s < 0
            or self.shrink_s < 0
            or self.workers_s < 0
            or self.defer_s < 0
            or self.kill_delay_s < 0
        ):
            self._complain()
        if self.steps or self.wishes:
            shares = [share for share, _ in self.wishes]
            if self.steps < 0 or shares != sorted(shares) or not all(0 <= share < 1 for share in shares):
                problem = f"{self.steps} steps, or wishes {self.wishes} are out of range"
                raise ValueError(f"job {self.spec.job_id}: {problem}")

    def _complain(self) -> None:
        for name in ("start_delay_s", "ready_delay_s", "grow_s", "shrink_s", "workers_s", "defer_s", "kill_delay_s"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"job {self.spec.job_id}: {name} is {getattr(self, name)}, must not be negative")

    def rate(self, nodes: int) -> float:
        """Seconds of the runtime at ``spec.nodes`` that pass per second on ``nodes`` nodes."""
        wanted = self.spec.nodes
        return 1.0 if nodes == wanted else self.speedup(nodes) / self.speedup(wanted)


class JobRecord(msgspec.Struct, gc=False):
    """What became of a job. Times in seconds.

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
        spans = self.sizes.spans(to_s)
        parts = [part for span in spans for part in self._parts(*span)] if self.shares else spans
        return sum(clipped(parts, from_s, to_s))

    def reserve(self, from_s: float, to_s: float, nodes: int) -> None:
        """Note that so many nodes were held without use."""
        if to_s > from_s and nodes > 0:
            self.reserved += ((from_s, to_s, nodes),)

    def spans(self) -> Sequence[tuple[float, float, float]]:
        """When it computed on how many nodes: (from, to, nodes); nothing while it is not over.

        Of nodes that it shares, the part counts that its cores are.
        """
        if self.end_s is None:
            return ()
        spans = self.sizes.spans(self.end_s)
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
