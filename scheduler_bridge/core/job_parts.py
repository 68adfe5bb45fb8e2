"""What a job may have besides its nodes: an order that it has not answered, and a part in shared nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class PendingOrder:
    """An order that the job has not answered yet.

    ``nodes``: to arrive, or (shrink) wished back; ``ranks``: theirs; ``count``: their number, or (workers) the fewest
    cores of a node that it is to use; ``core_ids``: (workers) which ones of each of the nodes, as bitsets.
    """

    order: int
    kind: Literal["grow", "shrink", "workers"]
    nodes: tuple[str, ...]
    ranks: int
    count: int
    deferred: bool = False
    core_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Shares:
    """What sharing nodes makes of a job, or has made of it.

    Attributes:
        extension_s: How much longer than it asked for it may run, since sharing slows it down.
        cores: The cores of each of its nodes that it may use, where they are fewest; None: all.
        neighbours: The most other jobs on one of its nodes.
        is_host: Whether it came first on all its nodes.
        kept_nodes: Those of its nodes that others still hold when it ends, as it is predicted.
    """

    extension_s: float = 0.0
    cores: int | None = None
    neighbours: int = 0
    is_host: bool = True
    kept_nodes: int = 0
