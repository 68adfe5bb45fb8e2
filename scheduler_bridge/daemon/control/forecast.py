"""When waiting jobs may be expected to start: as if each took its walltime, and none overtook at another's cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from scheduler_bridge.core import JobRow, NodeState, ReservationRow, Snapshot
from scheduler_bridge.policies.profile import Profile

_MOST_JOBS: Final = 100
"""Forecasts stop here: those behind wait for too much that is not known."""


def expected_starts(picture: Snapshot, waiting: Iterable[int], now_s: float) -> dict[int, float]:
    """Return when, on the scheduler's clock, each of the first waiting jobs is expected to start.

    Nodes that are reserved in advance are for the jobs of the reservation only, in its time; before, they are like any.

    Args:
        picture: Nodes and jobs.
        waiting: The waiting jobs in the order in which they are considered.
        now_s: Now.
    """
    usable = {row.node for row in picture.nodes if row.state in (NodeState.FREE, NodeState.HELD)}
    free = {row.node for row in picture.nodes if row.state is NodeState.FREE}
    rows: Mapping[int, JobRow] = {row.spec.job_id: row for row in picture.jobs}
    parts: dict[int, tuple[Profile, float]] = {}
    ends_s: dict[int, float] = {}
    for kept in picture.advance:
        part = _inside(kept, rows, usable, free, now_s), kept.spec.end_s
        parts.update((job_id, part) for job_id in kept.jobs)
        if kept.started:
            ends_s.update((job_id, kept.spec.end_s) for job_id in kept.jobs)
    releases = [
        (max(now_s, ends_s.get(row.spec.job_id, row.expected_end_s)), sum(1 for node in row.nodes if node in usable))
        for row in picture.jobs
        if row.expected_end_s is not None
    ]
    outside = Profile(now_s, len(free), releases)
    for kept in picture.advance:
        idle = [node for node in kept.nodes if node in (free if kept.started else usable)]
        outside.take(max(now_s, kept.spec.start_s), kept.spec.end_s, len(idle))
    held: Counter[str] = Counter()
    for row in picture.jobs if picture.user_nodes is not None else ():
        held[row.spec.user] += len(row.nodes)
    found: dict[int, float] = {}
    for job_id in islice(waiting, _MOST_JOBS):
        spec = rows[job_id].spec
        if picture.user_nodes is not None and held[spec.user] + spec.min_nodes > picture.user_nodes:
            continue  # It waits for other jobs of its user, whatever nodes are free.
        profile, until_s = parts.get(job_id, (outside, math.inf))
        start_s = profile.earliest(spec.min_nodes, spec.walltime_s)
        if math.isfinite(start_s) and start_s + spec.walltime_s <= until_s:
            profile.take(start_s, start_s + spec.walltime_s, spec.min_nodes)
            found[job_id] = start_s
    return found


def _inside(
    kept: ReservationRow, rows: Mapping[int, JobRow], usable: set[str], free: set[str], now_s: float
) -> Profile:
    """The nodes of a reservation, from its start on."""
    if not kept.started:
        return Profile(max(now_s, kept.spec.start_s), sum(1 for node in kept.nodes if node in usable), ())
    own = [rows[job_id] for job_id in kept.jobs if job_id in rows]
    releases = [(max(now_s, row.expected_end_s), len(row.nodes)) for row in own if row.expected_end_s is not None]
    return Profile(now_s, sum(1 for node in kept.nodes if node in free), releases)
