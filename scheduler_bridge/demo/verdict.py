"""Whether a demo succeeded; what did not hold, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler_bridge.record import metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler_bridge.record import JobRecord, RunRecord

LAG_LIMIT_S: Final = 0.25
"""A node that lags more than this was not equal to the others: the cores were the bottleneck."""


def problems(records: Sequence[RunRecord], *, least_resizes: int, left: Sequence[int]) -> list[str]:
    """List what went wrong; empty: all is well.

    Args:
        records: The runs, the one with resizes last.
        least_resizes: How many grows, and how many shrinks, the last run must have carried out, unless its nodes
            lagged: then jobs end in another order than in the simulation that chose the batch.
        left: Ids of processes that are still there.
    """
    found = [f"{record.policy}: {_complaint(job)}" for record in records for job in record.jobs if _complaint(job)]
    if not lagged(records[-1]):
        found += too_few_resizes(records[-1], least_resizes)
    if left:
        found.append(f"processes {', '.join(map(str, left))} are still running")
    return found


def too_few_resizes(record: RunRecord, least: int) -> list[str]:
    """List which kinds of resizes were carried out fewer than ``least`` times."""
    total = metrics(record)
    return [
        f"{record.policy}: {count} {word}s were carried out, at least {least} are due"
        for word, count in (("grow", total.grows), ("shrink", total.shrinks))
        if count < least
    ]


def worst_lags(record: RunRecord) -> dict[str, float]:
    """By node, the longest time in seconds that a place on it was behind its rate."""
    worst: dict[str, float] = {}
    for job in record.jobs:
        for place in (job.result or {}).get("places", []):
            worst[place["node"]] = max(worst.get(place["node"], 0.0), place["worst_lag_s"])
    return {node: worst[node] for node in record.nodes if node in worst}


def lagged(record: RunRecord) -> bool:
    """Tell whether the cores were the bottleneck: a node was not equal to the others."""
    return any(lag_s > LAG_LIMIT_S for lag_s in worst_lags(record).values())


def _complaint(job: JobRecord) -> str:
    name = f"job {job.job_id} ({job.name})"
    if job.state != "completed":
        return f"{name} {job.state}: {job.reason}" if job.reason else f"{name} {job.state}"
    if job.verified is not True:
        return f"the result of {name} is {'wrong' if job.verified is False else 'not verified'}"
    return ""
