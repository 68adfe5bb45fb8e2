"""What a simulation is told to watch and what it yields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from scheduler_bridge.core import SchedulerCore
from scheduler_bridge.core.effects import Effect
from scheduler_bridge.core.events import Event
from scheduler_bridge.sim.models import JobRecord

Observer: TypeAlias = Callable[[float, Sequence[Event], Sequence[Effect]], None]
"""Called after every batch with its time, its events and their effects."""

Progress: TypeAlias = Callable[[float, int], None]
"""Called now and then with the time and how many jobs are over."""


@dataclass(frozen=True, slots=True)
class SimResult:
    """What a simulation yields: the records, when the last thing happened, and the core as it was then.

    Records are by id, in the order of submission, so that sums over them are the same whatever order the jobs came in.
    """

    records: dict[int, JobRecord]
    end_s: float
    batches: int
    events: int
    core: SchedulerCore


def node_names(nodes: int) -> list[str]:
    """The names of simulated nodes: ``n0000``, ``n0001`` and so on."""
    return [f"n{index:04d}" for index in range(nodes)]
