"""The modelled machine and job: what a run of the model depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Finish: TypeAlias = Literal["home", "tree", "none"]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Cores and network. The defaults are this runtime's figures for two places of one machine.

    Attributes:
        node_s: Seconds to process one node of the tree.
        call_s: Seconds of one call of ``process``, between two looks at the thieves.
        latency_s: Seconds that a message is under way.
        message_s: CPU seconds that a message costs at each end; a place handles one after another, and its worker
            stands still meanwhile.
        bytes_per_s: Bandwidth of a place.
        least_nodes: A smaller subtree is not given away.
    """

    node_s: float = 2.5e-9
    call_s: float = 3e-4
    latency_s: float = 5e-6
    message_s: float = 20e-6
    bytes_per_s: float = 1e10
    least_nodes: int = 256


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is computed, on how many places, balanced how.

    Attributes:
        places: Number of places, one worker each.
        work_s: Compute per place, in seconds.
        random_steals: Random victims asked before the lifelines (w).
        lifelines: Kind of the lifeline graph.
        radix: Radix of the hypercube (z).
        seed: Seed of the choice of victims.
        finish: To whom places report when they run out of work: to place 0 (``home``), as they do in the runtime; to
            their parent in a tree (``tree``), as they might; to nobody (``none``), to see the stealing alone.
    """

    places: int
    work_s: float = 10.0
    random_steals: int = 3
    lifelines: str = "hypercube"
    radix: int = 2
    seed: int = 0
    finish: Finish = "home"
