"""What the page is told: the cluster as one document, and what has changed from one to the next.

Nodes are numbered in the order of their names in the document, and a job's nodes are ranges of such numbers, so that a
job on many nodes is short to tell. Times are seconds on the daemon's clock.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from scheduler_bridge.record import lanes
from scheduler_bridge.report import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scheduler_bridge.daemon import JobStatus, Snapshot
    from scheduler_bridge.record import JobRecord, Lane, ResizeRecord, RunRecord, Segment

Document: TypeAlias = "dict[str, Any]"

_KEPT_RESIZES = 20
_MOST_WAITING = 1000
"""Waiting jobs that are told one by one; of those behind them only the numbers."""
_GRAIN_S = 10.0
_SHORT = 500
"""Characters of a text that came from a job or user; whoever wants more has the queue command."""


def document(
    snapshot: Snapshot, record: RunRecord, window_s: float, why: Callable[[int, ResizeRecord], str] = lambda *_: ""
) -> Document:
    """Describe the cluster now, its open jobs, and the jobs that held nodes or waited within the window.

    Args:
        snapshot: The cluster at this moment.
        record: What happened in the window.
        window_s: How far back the picture reaches.
        why: Says for what reason a job was given an order.
    """
    since_s = max(0.0, snapshot.now_s - window_s)
    numbers = {name: number for number, name in enumerate(record.nodes)}
    for node in snapshot.nodes:
        numbers.setdefault(node.name, len(numbers))
    records = {job.job_id: job for job in record.jobs}
    shared = lanes(record.jobs)
    shown = [job for job in snapshot.jobs if job.end_s is None or (job.job in records and job.end_s > since_s)]
    shown, untold = _first(shown)
    states = {node.name: node.state for node in snapshot.nodes}
    return {
        "now_s": round(snapshot.now_s, 2),
        "policy": snapshot.policy,
        "started_at": record.started_at,
        "notes": list(record.notes),
        "window_s": window_s,
        "totals": _totals(snapshot),
        "nodes": [[name, states.get(name, "down")] for name in numbers],
        "reserved": [
            [
                numbers[taken.node],
                round(taken.from_s, 2),
                _until(taken.to_s),
                taken.job_id,
            ]
            for taken in record.reserved
            if taken.node in numbers
        ],
        "advance": [
            {
                "name": kept.name,
                "from_s": round(kept.start_s, 2),
                "to_s": round(kept.end_s, 2),
                "users": list(kept.users),
                "jobs": len(kept.jobs),
                "started": kept.started,
                "nodes": _ranges(numbers[node] for node in kept.nodes),
            }
            for kept in snapshot.reservations
        ],
        "kept": [
            [kept.name, round(kept.from_s, 2), round(kept.to_s, 2), _ranges(numbers[node] for node in kept.nodes)]
            for kept in record.advance
            if kept.from_s < snapshot.now_s
        ],
        "untold": untold,
        "jobs": {str(job.job): _job(job, records.get(job.job), numbers, shared, why) for job in shown},
    }


def _first(jobs: list[JobStatus]) -> tuple[list[JobStatus], list[list[float]]]:
    """Return the jobs to tell, and how many others were submitted when (roughly)."""
    waiting = [job for job in jobs if job.state in ("waiting", "held")]
    if len(waiting) <= _MOST_WAITING:
        return jobs, []
    others = {job.job: job.submit_s for job in waiting[_MOST_WAITING:]}
    grains = Counter(math.floor(submit_s / _GRAIN_S) * _GRAIN_S for submit_s in others.values())
    return [job for job in jobs if job.job not in others], [[at_s, count] for at_s, count in sorted(grains.items())]


def change(before: Document, after: Document) -> Document:
    """Return what differs: the keys that do, and of the jobs those that do, with None for those that are gone."""
    differs = {key: value for key, value in after.items() if key != "jobs" and before.get(key) != value}
    old, new = before["jobs"], after["jobs"]
    jobs: dict[str, Any] = {number: job for number, job in new.items() if old.get(number) != job}
    jobs.update((number, None) for number in old if number not in new)
    if jobs:
        differs["jobs"] = jobs
    return differs


def _totals(snapshot: Snapshot) -> dict[str, Any]:
    nodes = Counter(node.state for node in snapshot.nodes)
    jobs = Counter(job.state for job in snapshot.jobs)
    busy = nodes["busy"] + nodes["draining"]
    usable = busy + nodes["idle"]
    return {
        "busy": busy,
        "idle": nodes["idle"],
        "down": nodes["down"],
        "running": jobs["running"] + jobs["starting"] + jobs["ending"],
        "waiting": jobs["waiting"] + jobs["held"],
        "ended": sum(1 for job in snapshot.jobs if job.end_s is not None),
        "utilization_now": round(busy / usable, 4) if usable else 0.0,
        "utilization": round(snapshot.utilization, 3),
    }


def _job(
    job: JobStatus,
    record: JobRecord | None,
    numbers: Mapping[str, int],
    shared: Mapping[tuple[int, int], list[Lane]],
    why: Callable[[int, ResizeRecord], str],
) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": job.name,
        "user": job.user,
        "class": job.job_class,
        "state": job.state,
        "held": len(job.nodes),
        "wanted": job.wanted_nodes,
        "min": job.min_nodes,
        "max": job.max_nodes,
        "walltime_s": job.walltime_s,
        "submit_s": round(job.submit_s, 2),
        "start_s": job.start_s,
        "end_s": job.end_s,
        "expected_start_s": job.expected_start_s,
        "expected_end_s": job.expected_end_s,
        "reason": job.reason[:_SHORT],
        "ready": job.ready,
        "resizing": job.resizing,
        "grows": job.grows,
        "shrinks": job.shrinks,
        "progress": job.progress,
        "progress_total": job.progress_total,
        "progress_unit": job.progress_unit,
    }
    if record is not None:
        told["segments"] = [
            piece
            for number, part in enumerate(record.segments)
            for piece in _segment(part, shared.get((job.job, number)), numbers)
        ]
        told["resizes"] = [
            {**_resize(resize), "why": why(job.job, resize)[:_SHORT]} for resize in record.resizes[-_KEPT_RESIZES:]
        ]
    return told


def _segment(part: Segment, shared: list[Lane] | None, numbers: Mapping[str, int]) -> list[list[Any]]:
    """Return when and on what nodes, and, where jobs share them, what part of their rows it fills, from where on."""
    if shared is None:
        return [[round(part.from_s, 2), _until(part.to_s), _ranges(numbers[node] for node in part.nodes)]]
    alike: dict[tuple[Any, ...], list[int]] = {}
    for lane in shared:
        key = (round(lane.from_s, 2), _until(lane.to_s), round(lane.share, 3), round(lane.top, 3))
        alike.setdefault(key, []).append(numbers[lane.node])
    return [
        [from_s, to_s, _ranges(nodes), *((share, top) if share < 1 else ())]
        for (from_s, to_s, share, top), nodes in alike.items()
    ]


def _until(to_s: float) -> float | None:
    """When something ended; None if it goes on."""
    return None if to_s == math.inf else round(to_s, 2)


def _resize(resize: ResizeRecord) -> dict[str, Any]:
    took_s, phases = words.resize_times(resize)
    return {
        "order": resize.order,
        "kind": resize.kind,
        "count": resize.count,
        "ordered_s": round(resize.ordered_s, 2),
        "done_s": None if resize.done_s is None else round(resize.done_s, 2),
        "outcome": resize.outcome,
        "reason": resize.reason[:_SHORT],
        "seconds": resize.seconds,
        "took_s": took_s,
        "phases": phases,
    }


def _ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Return ``numbers`` as ranges from the first to the last, both included."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges
