"""Submits a batch of jobs to a daemon, each when it is due, and waits for the last end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from scheduler_bridge.daemon.requests import JobRequest, Snapshot
from scheduler_bridge.daemon.thread import DaemonThread
from scheduler_bridge.record import RunRecord

ENDED: Final = frozenset({"completed", "failed", "cancelled", "timeout", "lost", "refused"})
"""States after which nothing more happens to a job."""
REFRESH_S: Final = 0.2


def drive(
    daemon: DaemonThread,
    due: Sequence[tuple[float, JobRequest]],
    show: Callable[[Snapshot, RunRecord], None],
    refresh_s: float = REFRESH_S,
) -> list[int]:
    """Submit all jobs on time, and wait until all have ended.

    Args:
        daemon: Serves the cluster.
        due: When each job is submitted, in seconds from now, and what it is.
        show: Called every ``refresh_s`` with the present moment.
        refresh_s: Seconds between two looks.

    Returns:
        The ids of the jobs, in the order of ``due``.

    Raises:
        SubmitError: A job cannot run on this cluster.
    """
    ids: dict[int, int] = {}
    order = sorted(range(len(due)), key=lambda index: due[index][0])
    began_s = time.monotonic()
    while True:
        while len(ids) < len(order) and due[order[len(ids)]][0] <= time.monotonic() - began_s:
            index = order[len(ids)]
            ids[index] = daemon.submit(due[index][1])
        snapshot = daemon.snapshot()
        show(snapshot, daemon.record())
        if len(ids) == len(order):
            if all(job.state in ENDED for job in snapshot.jobs):
                return [ids[index] for index in range(len(due))]
            wait_s = refresh_s
        else:
            wait_s = due[order[len(ids)]][0] - (time.monotonic() - began_s)
        time.sleep(min(refresh_s, max(0.0, wait_s)))
