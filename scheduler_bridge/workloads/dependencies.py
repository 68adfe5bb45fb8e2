"""Which jobs come after others.

Rules: a job after itself, after one that the workload does not have (it was left out, filtered or cut off, or the trace
never had it), or in a circle of jobs that come after each other, does not come after that job; each such case is
counted. In job files, which a person wrote, they are mistakes (see ``job_files``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scheduler_bridge.workloads.record import TraceJob

ITSELF: Final = "after itself"
MISSING: Final = "after a job that is not there"
CIRCLE: Final = "in a circle"


class After(msgspec.Struct, frozen=True):
    """What a job comes after.

    Attributes:
        ok: Jobs that are to complete before; if one does not, this one is cancelled.
        any: Jobs that are to end before, however they do.
        think_s: Seconds from the last of these ends to its submission.
    """

    ok: tuple[int, ...] = ()
    any: tuple[int, ...] = ()
    think_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Who comes after whom.

    Attributes:
        after: By job.
        honoured: How many dependencies these are.
        dropped: How many were left out, by reason.
    """

    after: Mapping[int, After] = field(default_factory=dict)
    honoured: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)


def dependencies(jobs: Collection[TraceJob]) -> Dependencies:
    """Find the dependencies that can be honoured."""
    dependents = [job for job in jobs if job.preceding_job >= 0 or job.after_ok or job.after_any]
    if not dependents:
        return Dependencies()
    there = {job.job_id for job in jobs}
    dropped: Counter[str] = Counter()

    def found(job: TraceJob, others: Iterable[int]) -> list[int]:
        kept = []
        for other in dict.fromkeys(others):
            if other == job.job_id or other not in there:
                dropped[ITSELF if other == job.job_id else MISSING] += 1
            else:
                kept.append(other)
        return kept

    ok = {job.job_id: found(job, job.after_ok) for job in dependents}
    ends = {
        job.job_id: found(job, (*job.after_any, *((job.preceding_job,) if job.preceding_job >= 0 else ())))
        for job in dependents
    }
    closing = _closing({job_id: [*ok[job_id], *ends[job_id]] for job_id in ok})
    dropped[CIRCLE] += len(closing)
    after = {}
    for job in dependents:
        job_id = job.job_id
        first = tuple(other for other in ok[job_id] if (job_id, other) not in closing)
        rest = tuple(other for other in ends[job_id] if (job_id, other) not in closing)
        if first or rest:
            after[job_id] = After(first, rest, job.think_s)
    honoured = sum(len(one.ok) + len(one.any) for one in after.values())
    return Dependencies(after, honoured, {why: count for why, count in dropped.items() if count})


def _closing(others: Mapping[int, Sequence[int]]) -> set[tuple[int, int]]:
    """The dependencies that close a circle, as they are met on a walk from each job in turn."""
    closing: set[tuple[int, int]] = set()
    done: set[int] = set()
    for start in others:
        if start in done:
            continue
        path = {start}
        stack = [(start, iter(others[start]))]
        while stack:
            job_id, rest = stack[-1]
            for other in rest:
                if other in path:
                    closing.add((job_id, other))
                elif other in others and other not in done:
                    path.add(other)
                    stack.append((other, iter(others[other])))
                    break
            else:
                stack.pop()
                path.discard(job_id)
                done.add(job_id)
    return closing
