"""What a simulation shows while it runs, and what it yields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from scheduler_bridge.core import Explanation
from scheduler_bridge.core.effects import Effect
from scheduler_bridge.core.events import Event
from scheduler_bridge.core.nodes import NumberedNodes
from scheduler_bridge.sim.models import JobRecord

_MANY_NODES: Final = 100_000
"""Up to this number of nodes their names are kept; above, they are made anew each time that a job starts."""

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

    records: dict[int, JobRecord]
    end_s: float
    batches: int
    events: int
    explanations: Mapping[int, Explanation]
    failures: int = 0


def node_names(nodes: int) -> Sequence[str]:
    """The names of simulated nodes: ``n0000``, ``n0001`` and so on."""
    names = NumberedNodes(nodes)
    return names if nodes > _MANY_NODES else names[:]
