"""A cluster without a daemon, which does what a test orders: for code that shows clusters."""

from __future__ import annotations

import asyncio
import itertools
import math
from typing import Literal

import msgspec

from scheduler_bridge.core import events as ev
from scheduler_bridge.core.history import Explanation, Moment
from scheduler_bridge.core.tracked import JobState
from scheduler_bridge.daemon import JobStatus, NodeStatus, Snapshot
from scheduler_bridge.model import JobSpec, wording
from scheduler_bridge.record import Recorder, RunRecord


class Cluster:
    """Nodes and jobs by the word of the test, on a clock of its own."""

    def __init__(self, nodes: int = 4) -> None:
        self.log_behind = ""
        self.names = tuple(f"node{number}" for number in range(1, nodes + 1))
        self.now_s = 0.0
        self.down: set[str] = set()
        self._jobs: dict[int, JobStatus] = {}
        self._recorder = Recorder(self.names, "malleable", started_at="2026-01-01T00:00:00+00:00")
        self._orders = itertools.count(1)
        self._moments: dict[int, list[Moment]] = {}
        self._change = asyncio.Event()

    # what the page asks for -----------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        holders = {node: job.job for job in self._jobs.values() for node in job.nodes}
        nodes = tuple(
            NodeStatus(name, "down" if name in self.down else "busy" if name in holders else "idle", holders.get(name))
            for name in self.names
        )
        held = sum(
            (min(part.to_s, self.now_s) - part.from_s) * len(part.nodes)
            for job in self._recorder.recent(-math.inf).jobs
            for part in job.segments
        )
        share = held / (self.now_s * len(self.names)) if self.now_s else 0.0
        jobs = tuple(self._jobs.values())
        return Snapshot(self.now_s, "malleable", share, nodes, jobs, held_node_s=held, log_behind=self.log_behind)

    def recent(self, since_s: float) -> RunRecord:
        return self._recorder.recent(since_s)

    def explain(self, job_id: int) -> Explanation:
        moments = tuple(self._moments.get(job_id, ()))
        return Explanation(job_id, "", JobState.RUNNING, self.now_s, "", (), None, (), moments)

    async def changed(self) -> None:
        await self._change.wait()

    # what happens ---------------------------------------------------------------------------------------------------

    def submit(self, name: str = "job", low: int = 1, high: int = 1, reason: str = "it waits", user: str = "me") -> int:
        job_id = len(self._jobs) + 1
        kind: Literal["rigid", "malleable"] = "rigid" if low == high else "malleable"
        spec = JobSpec(job_id, name, user, kind, high, low, high, 600.0, self.now_s)
        self._jobs[job_id] = JobStatus(
            job=job_id, name=name, user=user, job_class=kind, state="waiting", nodes=(), wanted_nodes=high,
            min_nodes=low, max_nodes=high, walltime_s=600.0, submit_s=self.now_s, start_s=None, end_s=None,
            grows=0, shrinks=0, reason=reason,
        )  # fmt: skip
        self._happen(ev.JobSubmitted(spec))
        return job_id

    def start(self, job_id: int, *nodes: str) -> None:
        self._recorder.observe(self.now_s, [ev.WakeUp()], [ev.StartJob(job_id, nodes)])
        self._set(job_id, state="running", nodes=nodes, start_s=self.now_s, reason="", expected_end_s=self.now_s + 600)
        self._happen(ev.JobStarted(job_id))

    def order(self, job_id: int, *nodes: str) -> int:
        order = next(self._orders)
        self._recorder.observe(self.now_s, [ev.WakeUp()], [ev.SendOrder(job_id, order, "grow", nodes, len(nodes))])
        ordered = wording.ORDERED.format("grow", f"{len(nodes)} nodes", f"idle nodes, job {job_id} is the smallest")
        self._moments.setdefault(job_id, []).append(Moment(self.now_s, 1, ordered))
        self._change.set()
        self._change = asyncio.Event()
        return order

    def abort(self, job_id: int, order: int, reason: str) -> None:
        self._happen(ev.ResizeFailed(job_id, order, reason=reason))

    def grow(self, job_id: int, *nodes: str, took_s: float = 0.0) -> None:
        order = self.order(job_id, *nodes)
        self._recorder.note_measured(job_id, order, 0.5, {"pre": 0.1, "spawn": 0.4})
        job = self._jobs[job_id]
        self._set(job_id, nodes=(*job.nodes, *nodes), grows=job.grows + 1)
        self.now_s += took_s
        self._happen(ev.GrowCompleted(job_id, order, nodes))

    def end(self, job_id: int) -> None:
        self._set(job_id, state="completed", nodes=(), end_s=self.now_s, reason="")
        self._happen(ev.JobEnded(job_id, "completed"))

    def fail(self, node: str) -> None:
        self.down.add(node)
        self._happen(ev.NodeDown(node))

    def _set(self, job_id: int, **fields: object) -> None:
        self._jobs[job_id] = msgspec.structs.replace(self._jobs[job_id], **fields)

    def _happen(self, event: ev.Event) -> None:
        self._recorder.observe(self.now_s, [event])
        self._change.set()
        self._change = asyncio.Event()
