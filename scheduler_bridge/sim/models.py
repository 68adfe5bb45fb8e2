"""How simulated jobs run, and what is recorded of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from scheduler_bridge.core.events import Outcome
from scheduler_bridge.model import JobSpec

Speedup: TypeAlias = Callable[[int], float]
"""How fast a job runs on a number of nodes; only ratios count."""


def linear_speedup(nodes: int) -> float:
    """Twice the nodes, twice as fast."""
    return float(nodes)


@dataclass(frozen=True, slots=True)
class SimJob:
    """A job and its behaviour. All times in seconds.

    Attributes:
        spec: What is submitted, at ``spec.submit_s``.
        runtime_s: Runtime on ``spec.nodes`` nodes; may be longer than the walltime.
        speedup: How the runtime changes with the nodes.
        start_delay_s: From the decision to the start.
        ready_delay_s: From the start to the malleable handler; None: it never registers one.
        grow_s: Duration of a grow order; the job goes on at its old size meanwhile.
        shrink_s: Duration of a shrink order; the job goes on at its new size meanwhile, unless it was put off.
        defer_s: Puts every order off by this much first; 0: not at all.
        failing_orders: Which of its orders fail, counted from 0.
        own_choice: Releases other nodes than wished.
        kill_delay_s: From being told to end to the end.

    Raises:
        ValueError: The runtime is not positive, or a duration is negative.
    """

    spec: JobSpec
    runtime_s: float
    speedup: Speedup = linear_speedup
    start_delay_s: float = 0.0
    ready_delay_s: float | None = 0.0
    grow_s: float = 0.0
    shrink_s: float = 0.0
    defer_s: float = 0.0
    failing_orders: frozenset[int] = frozenset()
    own_choice: bool = False
    kill_delay_s: float = 0.0

    def __post_init__(self) -> None:
        if self.runtime_s <= 0:
            raise ValueError(f"job {self.spec.job_id}: runtime_s is {self.runtime_s}, must be positive")
        for name in ("start_delay_s", "ready_delay_s", "grow_s", "shrink_s", "defer_s", "kill_delay_s"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"job {self.spec.job_id}: {name} is {getattr(self, name)}, must not be negative")

    def rate(self, nodes: int) -> float:
        """Seconds of the runtime at ``spec.nodes`` that pass per second on ``nodes`` nodes."""
        return self.speedup(nodes) / self.speedup(self.spec.nodes)


@dataclass(slots=True)
class JobRecord:
    """What became of a job. Times in seconds.

    Attributes:
        spec: What was submitted.
        start_s: When it started; None: never.
        end_s: When it ended.
        outcome: How, as the scheduler sees it; None while it is not over; ``refused`` jobs never enter the queue.
        sizes: Its number of nodes from which time on; a shrink counts from its completion.
        grows: Completed grow orders.
        shrinks: Completed shrink orders.
    """

    spec: JobSpec
    start_s: float | None = None
    end_s: float | None = None
    outcome: Outcome | None = None
    refused: bool = False
    sizes: list[tuple[float, int]] = field(default_factory=list)
    grows: int = 0
    shrinks: int = 0

    @property
    def wait_s(self) -> float | None:
        """From the submission to the start."""
        return None if self.start_s is None else self.start_s - self.spec.submit_s
