"""Runs the campaign: each batch on a scheduler of its own, its record kept in a file, finished runs not again."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler_bridge.atomic_write import write_whole
from scheduler_bridge.daemon import DaemonConfig, JobRequest, Snapshot
from scheduler_bridge.daemon.config import numbered_nodes
from scheduler_bridge.daemon.daemon import drive
from scheduler_bridge.daemon.trial import children_cpu_s, import_path, result_of
from scheduler_bridge.experiments.real_runs.campaign import (
    HERE,
    Campaign,
    Problem,
    RunKey,
    Site,
    alone_in,
    arguments,
    calibrate,
    emulated,
    scratch_in,
    state_of,
)
from scheduler_bridge.experiments.sweep import Reporter, Standing
from scheduler_bridge.record import RunRecord, decode_record, encode_record, makespan_s
from scheduler_bridge.workloads.workload import TraceJob

REFRESH_S: Final = 1.0
_DESCRIBED: Final = ("submit_s", "nodes", "min_nodes", "max_nodes")
_KEPT: Final = ("seconds", "tasks", "startup", "resizes", "places", "error")
"""What is kept of a job's result."""


@dataclass(frozen=True, slots=True)
class Again:
    """Which runs are done again although they are there.

    Attributes:
        lagged_s: Those in which a place fell further behind than this; None: none of them.
        failed: Those in which a job failed, or computed something wrong.
        busy: Those in which others used more of the machine than this, from 0 to 1, where that is known; None: none.
    """

    lagged_s: float | None = None
    failed: bool = False
    busy: float | None = None

    def wants(self, record: RunRecord) -> bool:
        """Whether this run is to be done again."""
        faults, lag_s, others = quality(record)
        return (
            (self.failed and faults > 0)
            or (self.lagged_s is not None and lag_s > self.lagged_s)
            or (self.busy is not None and others > self.busy)
        )

    def prefers(self, made: RunRecord, kept: RunRecord) -> bool:
        """Whether the run just made is better: in jobs that are right, else in what it was made again for."""
        by = (0, 2, 1) if self.lagged_s is None and self.busy is not None else (0, 1, 2)
        before, after = quality(kept), quality(made)
        return [after[at] for at in by] < [before[at] for at in by]


def quality(record: RunRecord) -> tuple[int, float, float]:
    """Jobs that are not right; the worst lag; what others used of the machine, from 0 to 1, 0 where it is not known."""
    faults = sum(job.state != "completed" or not job.verified for job in record.jobs)
    cpu = record.provenance["cpu"]
    return faults, float(cpu["worst_lag_s"]), float(cpu["others_share"] or 0.0)


@dataclass(frozen=True)
class Runner:
    """Carries a campaign out; ``folder`` keeps a record for each run, and those that are there are not run again."""

    campaign: Campaign
    problems: Mapping[str, Problem]
    folder: Path
    site: Site = HERE

    def kept(self, key: RunKey) -> RunRecord | None:
        """The record of a run that ended; None if it has to be run, or was another campaign's."""
        try:
            record = decode_record((self.folder / key.file).read_bytes())
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        return record if record.provenance.get("plan") == self._described(key) else None

    def run(self, key: RunKey, look: Callable[[str], None] = lambda _: None) -> RunRecord:
        """Run one batch; nothing is left running. ``look`` is called with how far it is.

        Raises:
            DaemonError: The scheduler cannot start.
            OSError: The folder cannot be written.
        """
        batch = self.campaign.batch(key)
        before = Usage()
        with scratch_in(self.folder, self.campaign.nodes, self.site) as scratch:
            config = DaemonConfig(
                nodes=numbered_nodes(self.campaign.nodes),
                policy=key.policy,
                cores_per_node=self.campaign.cores,
                state_dir=state_of(scratch),
            )
            due = [(job.submit_s * self.campaign.time, self._request(key, job, scratch)) for job in batch]
            with self.site.serving(config) as daemon:

                def show(snapshot: Snapshot, _: RunRecord) -> None:
                    ended = sum(job.end_s is not None for job in snapshot.jobs)
                    look(f"{key.spoken}: {ended} of {len(batch)} jobs")

                ids = drive(daemon, due, show, REFRESH_S)
                for job, job_id in zip(batch, ids, strict=True):
                    daemon.note_result(job_id, self._checked(job, result_of(scratch / f"{job.job_id}.json")))
                record = daemon.record()
        record.provenance |= {"plan": self._described(key), "cpu": used(before, record)}
        return record

    def keep(self, key: RunKey, record: RunRecord) -> None:
        """Write the record of a run: all of it, or nothing.

        Raises:
            OSError: It cannot be written.
        """
        write_whole(self.folder / key.file, encode_record(record))

    def _request(self, key: RunKey, job: TraceJob, scratch: Path) -> JobRequest:
        benchmark, *problem = arguments(job.name, paced=self.campaign.paced)
        pace: tuple[str, ...] = ()
        if self.campaign.paced:
            tasks = self.problems[job.name].tasks
            pace = ("--rate", f"{tasks / (self.campaign.node_s(job) * self.campaign.cores):.6g}")
        command = (sys.executable, "-m", f"apgas.benchmarks.{benchmark}", *problem)
        result = str(scratch / f"{job.job_id}.json")
        options = ("--workers", "{cores}", *pace, "--quiet", "--json", result)
        slow = self.campaign.slow_resizes(key) if job.job_class == "malleable" else None
        slowly = () if slow is None else ("--slow-resizes", f"{slow[0]:.6g},{slow[1]:.6g}")
        return JobRequest(
            name=f"{job.name}-{job.job_id}",
            command=(*command, *options, *slowly),
            job_class=job.job_class,
            nodes=job.nodes,
            min_nodes=job.min_nodes,
            max_nodes=job.max_nodes,
            walltime_s=self.campaign.walltime_s(job),
            user="experiment",
            environment={"PYTHONPATH": import_path(), **(emulated(benchmark) if self.campaign.paced else {})},
            cwd=str(scratch),  # python -m looks into the current folder first, whatever may be there
        )

    def _checked(self, job: TraceJob, document: dict[str, Any]) -> dict[str, Any]:
        """What the job computed, compared with the verified run of the calibration."""
        kept: dict[str, Any] = {name: document[name] for name in _KEPT if name in document}
        if "error" in document:
            return {**kept, "verified": False}
        right = self.problems[job.name].agrees(document) if self.campaign.paced else self._agreed(job.name, document)
        return {**kept, "verified": right}

    def _agreed(self, name: str, document: Mapping[str, Any]) -> bool:
        """Whether a result of the paper's size is the known value, or where none is known, what the first job found."""
        if document.get("verified") is not None:
            return bool(document["verified"])
        found = {field: document.get(field) for field in ("parameters", "result")}
        path = self.folder / f"result-{name}.json"
        first = result_of(path)
        if "error" in first:
            path.write_text(json.dumps(found), encoding="utf-8")
            return True
        return first == found

    def _described(self, key: RunKey) -> dict[str, Any]:
        """What a record must have been made with to be used: all that decides what the run does."""
        batch = self.campaign.batch(key)
        slow = self.campaign.slow_resizes(key)
        names = sorted({job.name for job in batch})
        # records of nodes of one core say nothing of it
        cores = {"cores": self.campaign.cores, "node_s": [self.campaign.node_s(job) for job in batch]}
        return {
            **(cores if self.campaign.cores > 1 else {}),
            **({} if self.campaign.paced else {"paced": False}),
            "kind": key.kind,
            "nodes": self.campaign.nodes,
            "time": self.campaign.time,
            "slow_resizes_s": None if slow is None else list(slow),
            "problems": {name: list(arguments(name, paced=self.campaign.paced)) for name in names},
            "batch": [
                {"name": job.name, "class": job.job_class, **{name: getattr(job, name) for name in _DESCRIBED}}
                for job in batch
            ],
        }


def carry_out(
    campaign: Campaign,
    folder: Path,
    site: Site = HERE,
    *,
    announce: Callable[[str], None] = lambda _: None,
    reporter: Reporter = lambda _: None,
    again: Again | None = None,
) -> tuple[dict[str, Problem], dict[RunKey, RunRecord]]:
    """Make what is missing of a campaign in ``folder``; return what its jobs compute, and all of its runs.

    Args:
        campaign: What is run.
        folder: Keeps the record of every run; an interrupted experiment goes on there.
        site: Where the nodes are.
        announce: Called with a line about what is prepared, and about each run that is there.
        reporter: Called with how far it is.
        again: Which runs are done again although they are there.

    Raises:
        CalibrationError: A benchmark does not run.
        DaemonError: The scheduler cannot start, or another experiment runs in the folder.
        OSError: A record cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with alone_in(folder, site):
        problems = calibrate(campaign.problems() if campaign.paced else (), folder, announce)
        return problems, run_all(Runner(campaign, problems, folder, site), announce, reporter, again)


def run_all(
    runner: Runner,
    announce: Callable[[str], None] = lambda _: None,
    reporter: Reporter = lambda _: None,
    again: Again | None = None,
) -> dict[RunKey, RunRecord]:
    """Run what is not kept yet, in the campaign's order, and what is to be done ``again``: then the better run is kept.

    Raises:
        DaemonError: The scheduler cannot start.
        OSError: A record cannot be written.
    """
    again, keys = again or Again(), runner.campaign.runs()
    records: dict[RunKey, RunRecord] = {}
    took_s: list[float] = []

    def report(now: str = "") -> None:
        left_s = (len(keys) - len(records)) * statistics.fmean(took_s) if took_s else None
        reporter(Standing(len(records), len(keys), left_s, now=now))

    for key in keys:
        record, began_s = runner.kept(key), time.monotonic()
        if record is None or again.wants(record):
            made = runner.run(key, report)
            took_s.append(time.monotonic() - began_s)
            if record is None or again.prefers(made, record):
                runner.keep(key, made)
                record = made
        records[key] = record
        announce(_spoken(key, record))
        report()
    return records


def _spoken(key: RunKey, record: RunRecord) -> str:
    cpu = record.provenance["cpu"]
    others = "" if cpu["others_share"] is None else f" (others {100 * cpu['others_share']:.0f} %)"
    used_share = f"CPU {100 * cpu['share']:.0f} %{others}"
    return f"{key.spoken}: {makespan_s(record):.1f} s, {used_share}, worst lag {cpu['worst_lag_s']:.2f} s"


def all_kept(runner: Runner) -> dict[RunKey, RunRecord]:
    """The runs that are there."""
    return {key: record for key in runner.campaign.runs() if (record := runner.kept(key)) is not None}


# How busy the machine was, and with whom -----------------------------------------------------------------------------

_BUSY = slice(1, 4)
"""Of the fields of /proc/stat: user, nice, system; idle and waiting for disks follow, then interrupts and steal."""
_STOLEN = slice(6, 9)


class Usage:
    """CPU seconds so far.

    Attributes:
        at_s: When that was, monotonic.
        jobs_s: Of processes that were started from here and have ended.
        own_s: Of this process.
        machine_s: Of all processes on all cores of this machine; None: not known.
    """

    def __init__(self) -> None:
        self.at_s, self.jobs_s = time.monotonic(), children_cpu_s()
        self.own_s, self.machine_s = time.process_time(), _machine_s()


def used(before: Usage, record: RunRecord) -> dict[str, Any]:
    """What the emulation used of the machine since ``before``, others as well, and how far places fell behind.

    Returns:
        ``cores`` that this process may use; CPU ``seconds`` of the jobs and their ``share`` of the cores during the
        batch; ``scheduler_s``; ``others_share``: what processes of others used of the whole machine, from 0 to 1, None
        where that is not known; ``worst_lag_s`` of all places; ``given_up_s``: place-seconds that were never caught up.
    """
    after = Usage()
    cores = len(os.sched_getaffinity(0))
    seconds = after.jobs_s - before.jobs_s
    scheduler_s = after.own_s - before.own_s
    places = [place for job in record.jobs for place in (job.result or {}).get("places", [])]
    makespan = makespan_s(record)
    others: float | None = None
    if before.machine_s is not None and after.machine_s is not None and after.at_s > before.at_s:
        capacity_s = (os.cpu_count() or cores) * (after.at_s - before.at_s)
        others = max(0.0, after.machine_s - before.machine_s - seconds - scheduler_s) / capacity_s
    return {
        "cores": cores,
        "seconds": seconds,
        "share": seconds / (cores * makespan) if makespan else 0.0,
        "scheduler_s": scheduler_s,
        "others_share": others,
        "worst_lag_s": max((place["worst_lag_s"] for place in places), default=0.0),
        "given_up_s": sum(place.get("given_up_s", 0.0) for place in places),
    }


def _machine_s() -> float | None:
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
        return sum(int(ticks) for ticks in (*fields[_BUSY], *fields[_STOLEN])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
