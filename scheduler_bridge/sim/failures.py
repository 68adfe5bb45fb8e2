"""Nodes that fail and are repaired."""

from __future__ import annotations

import random
from collections.abc import Sequence

from scheduler_bridge.core.events import Event, NodeDown, NodeUp


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
