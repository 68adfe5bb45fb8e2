"""When waiting jobs may be expected to start: as if each took its walltime, and none overtook at another's cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from scheduler_bridge.core import JobRow, NodeState, Snapshot
from scheduler_bridge.policies.profile import Profile

_MOST_JOBS: Final = 100
"""So many are told; those behind them wait for too much that nobody knows."""


def expected_starts(picture: Snapshot, waiting: Iterable[int], now_s: float) -> dict[int, float]:
    """Return when, on the scheduler's clock, each of the first waiting jobs is expected to start.

    Args:
        picture: Nodes and jobs.
        waiting: The waiting jobs in the order in which they are considered.
        now_s: Now.
    """
    usable = {row.node for row in picture.nodes if row.state in (NodeState.FREE, NodeState.HELD)}
    free = sum(1 for row in picture.nodes if row.state is NodeState.FREE)
    rows: Mapping[int, JobRow] = {row.spec.job_id: row for row in picture.jobs}
    releases = [
        (max(now_s, row.expected_end_s), sum(1 for node in row.nodes if node in usable))
        for row in picture.jobs
        if row.expected_end_s is not None
    ]
    profile = Profile(now_s, free, releases)
    found: dict[int, float] = {}
    for job_id in islice(waiting, _MOST_JOBS):
        spec = rows[job_id].spec
        start_s = profile.earliest(spec.min_nodes, spec.walltime_s)
        if math.isfinite(start_s):
            profile.take(start_s, start_s + spec.walltime_s, spec.min_nodes)
            found[job_id] = start_s
    return found
