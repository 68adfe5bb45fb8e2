"""Whether a demo succeeded; what did not hold, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler_bridge.record import metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler_bridge.record import JobRecord, RunRecord


def problems(records: Sequence[RunRecord], *, least_resizes: int, left: Sequence[int]) -> list[str]:
    """List what went wrong; empty: all is well.

    Args:
        records: The runs, the one with resizes last.
        least_resizes: How many grows, and how many shrinks, the last run must have carried out.
        left: Ids of processes that are still there.
    """
    found = [f"{record.policy}: {_complaint(job)}" for record in records for job in record.jobs if _complaint(job)]
    total = metrics(records[-1])
    for word, count in (("grow", total.grows), ("shrink", total.shrinks)):
        if count < least_resizes:
            found.append(f"{records[-1].policy}: {count} {word}s were carried out, at least {least_resizes} are due")
    if left:
        found.append(f"processes {', '.join(map(str, left))} are still running")
    return found


def _complaint(job: JobRecord) -> str:
    name = f"job {job.job_id} ({job.name})"
    if job.state != "completed":
        return f"{name} {job.state}: {job.reason}" if job.reason else f"{name} {job.state}"
    if job.verified is not True:
        return f"the result of {name} is {'wrong' if job.verified is False else 'not verified'}"
    return ""
