"""How a session stands, and how users are told: as the embedded scheduler tells of a cluster with one job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from apgas.malleability.orders import Progress
from scheduler_bridge.core import Explanation, JobState
from scheduler_bridge.live.requests import JobRequest, JobStatus, NodeStatus, Snapshot
from scheduler_bridge.model import wording

_STATES = {"starting": JobState.STARTING, "running": JobState.RUNNING}


@dataclass(slots=True)
class Condition:
    """What changes while the program runs.

    Attributes:
        state: Where it is in its life.
        nodes: Those it runs on.
        releasing: Those that it is to leave.
        resizing: What it is being told to do.
        reason: How the last resize failed, or what else there is to say; empty: nothing.
        grows: Orders to grow that it carried out.
        shrinks: Orders to shrink that it carried out.
        progress: How far it says that it is.
    """

    state: Literal["starting", "running", "completed", "failed"] = "starting"
    nodes: tuple[str, ...] = ()
    releasing: tuple[str, ...] = ()
    resizing: Literal["grow", "shrink"] | None = None
    reason: str = ""
    grows: int = 0
    shrinks: int = 0
    progress: Progress | None = None


def snapshot(job: int, request: JobRequest, condition: Condition, now_s: float, *, ready: bool) -> Snapshot:
    """Describe the session as a cluster of its nodes, at ``now_s`` seconds since its beginning."""
    low, _, high = request.bounds()
    progress = condition.progress if not condition.reason else None
    row = JobStatus(
        job=job,
        name=request.name,
        user=request.user,
        job_class=request.job_class,
        state=condition.state,
        nodes=condition.nodes,
        wanted_nodes=request.nodes,
        min_nodes=low,
        max_nodes=high,
        walltime_s=request.walltime_s,
        submit_s=0.0,
        start_s=0.0,
        end_s=None,
        grows=condition.grows,
        shrinks=condition.shrinks,
        ready=ready,
        resizing=condition.resizing,
        reason=condition.reason,
        progress=progress.done if progress else None,
        progress_total=progress.total if progress else None,
        progress_unit=progress.unit if progress else "",
    )
    nodes = tuple(NodeStatus(name, "busy", job, name in condition.releasing) for name in condition.nodes)
    return Snapshot(now_s=now_s, policy="slurm", utilization=1.0, nodes=nodes, jobs=(row,))


def explanation(job: int, request: JobRequest, condition: Condition, now_s: float) -> Explanation:
    """Say why the program is where it is."""
    text = condition.reason or f"it runs on {wording.nodes(len(condition.nodes))} of Slurm job {job}"
    return Explanation(
        job_id=job,
        name=request.name,
        state=_STATES.get(condition.state, JobState.ENDED),
        now_s=now_s,
        text=text,
        nodes=condition.nodes,
        expected_start_s=None,
        counts_on=(),
        moments=(),
    )
