"""Runs the plan: each batch on a scheduler of its own, its record kept in a file, finished runs not again."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from scheduler_bridge.experiments.own_runs.plan import Plan, RunKey
from scheduler_bridge.experiments.own_runs.problems import PLAIN, Problem
from scheduler_bridge.live import Daemon, DaemonConfig, JobRequest, Snapshot
from scheduler_bridge.live.config import numbered_nodes
from scheduler_bridge.live.driving import ENDED, drive
from scheduler_bridge.live.trial import children_cpu_s
from scheduler_bridge.record import RunRecord, decode_record, encode_record, makespan_s
from scheduler_bridge.workloads.record import TraceJob

REFRESH_S: Final = 1.0


class Watcher(Protocol):
    """Sees how the experiment goes on."""

    def goes_on(self, key: RunKey, ended: int, jobs: int) -> None:
        """``ended`` of ``jobs`` jobs of a run have ended."""

    def done(self, key: RunKey, record: RunRecord) -> None:
        """A run is there, just now or from before."""


@dataclass(frozen=True)
class Runner:
    """Carries a plan out.

    Attributes:
        plan: What is run.
        problems: What the jobs compute.
        folder: Keeps a record for each run; those that are there are not run again.
        environment: Given to every job, in addition to what keeps its kernel plain.
    """

    plan: Plan
    problems: Mapping[str, Problem]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def kept(self, key: RunKey) -> RunRecord | None:
        """The record of a run that ended; None if it has to be run, or was another plan's."""
        try:
            record = decode_record((self.folder / key.file).read_bytes())
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        return record if record.provenance.get("plan") == self._described() else None

    def run(self, key: RunKey, watcher: Watcher | None = None) -> RunRecord:
        """Run one batch and keep its record; nothing is left running.

        Raises:
            DaemonError: The scheduler cannot start.
            OSError: The record cannot be written.
        """
        batch = self.plan.batch(key)
        with tempfile.TemporaryDirectory(prefix="malleable-runs-") as name:
            scratch = Path(name)
            config = DaemonConfig(nodes=numbered_nodes(self.plan.nodes), policy=key.policy, state_dir=scratch / "state")
            due = [(job.submit_s * self.plan.time, self._request(job, scratch)) for job in batch]
            cpu_s = children_cpu_s()
            with Daemon.start_in_thread(config) as daemon:

                def look(snapshot: Snapshot, _: RunRecord) -> None:
                    if watcher is not None:
                        watcher.goes_on(key, sum(job.state in ENDED for job in snapshot.jobs), len(batch))

                ids = drive(daemon, due, look, REFRESH_S)
                for job, job_id in zip(batch, ids, strict=True):
                    daemon.note_result(job_id, self._checked(job, _result(scratch / f"{job.job_id}.json")))
                record = daemon.record()
        cpu_s = children_cpu_s() - cpu_s
        record.provenance |= {"plan": self._described(), "cpu": _cpu(record, cpu_s)}
        self._keep(key, record)
        return record

    def _request(self, job: TraceJob, scratch: Path) -> JobRequest:
        problem = self.problems[job.name]
        rate = problem.rate(self.plan.time)
        command = (sys.executable, "-m", f"benchmarks.{problem.benchmark}", *problem.arguments)
        options = ("--workers", "1", "--rate", f"{rate:.6g}", "--quiet", "--json", str(scratch / f"{job.job_id}.json"))
        return JobRequest(
            name=f"{job.name}-{job.job_id}",
            command=(*command, *options),
            job_class=job.job_class,
            nodes=job.nodes,
            min_nodes=job.min_nodes,
            max_nodes=job.max_nodes,
            walltime_s=self.plan.walltime_s(job),
            user="experiment",
            environment={**self.environment, **PLAIN},
            cwd=str(scratch),  # python -m looks into the current folder first, whatever may be there
        )

    def _checked(self, job: TraceJob, document: dict[str, Any]) -> dict[str, Any]:
        """What the job computed, compared with the verified run of the calibration."""
        kept: dict[str, Any] = {
            name: document[name] for name in ("seconds", "resizes", "places", "error") if name in document
        }
        return {**kept, "verified": "error" not in document and self.problems[job.name].agrees(document)}

    def _described(self) -> dict[str, Any]:
        """What a record must have been made with to be used."""
        arguments = {name: list(problem.arguments) for name, problem in self.problems.items()}
        return {"jobs": self.plan.jobs, "nodes": self.plan.nodes, "time": self.plan.time, "problems": arguments}

    def _keep(self, key: RunKey, record: RunRecord) -> None:
        path = self.folder / key.file
        beside = path.with_suffix(".part")
        beside.write_bytes(encode_record(record))
        beside.replace(path)


def _result(path: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        return {"error": f"no result: {error}"}
    return document


def _cpu(record: RunRecord, seconds: float) -> dict[str, float]:
    """What the emulation used of the machine, and how far the slowest place fell behind its rate."""
    cores = len(os.sched_getaffinity(0))
    lags = [place["worst_lag_s"] for job in record.jobs for place in (job.result or {}).get("places", [])]
    makespan = makespan_s(record)
    return {
        "cores": cores,
        "seconds": seconds,
        "share": seconds / (cores * makespan) if makespan else 0.0,
        "worst_lag_s": max(lags, default=0.0),
    }


def run_all(runner: Runner, watcher: Watcher | None = None) -> dict[RunKey, RunRecord]:
    """Run what is not kept yet, in the plan's order."""
    records = {}
    for key in runner.plan.runs():
        records[key] = runner.kept(key) or runner.run(key, watcher)
        if watcher is not None:
            watcher.done(key, records[key])
    return records
