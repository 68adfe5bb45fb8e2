"""Reads a workload of any known form, which is recognized by its content, not by its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler_bridge.workloads.source import Findings, Source, TraceError
from scheduler_bridge.workloads.swf import SwfOptions, read_swf
from scheduler_bridge.workloads.workload import TraceJob, Workload, in_order, status_of

if TYPE_CHECKING:
    from scheduler_bridge.record import JobRecord, RunRecord, Segment

FORMS: Final = (
    "SWF, accounting files (CSV), ElastiSim's jobs or a history (JSON), job files (TOML); plain, or packed by gzip, xz "
    "or bzip2"
)
_LEAST_NUMBERS: Final = 10
"""A line of this number of words without commas is a record of SWF, if a bad one."""
_TOML: Final = re.compile(r"""\s*(\[\[?[\w.\s"'-]+\]|[\w."'-]+\s*=)""")


def load(path: Source | Path | str, *, nodes: int | None = None, swf: SwfOptions | None = None) -> Workload:
    """Read a workload.

    Args:
        path: A file; ``-``: standard input. Packed or not, and of which form, is recognized by what is in it; by the
            ending of its name only where that says nothing.
        nodes: The machine's nodes; None: as the file says.
        swf: How to read a file of the Standard Workload Format; it may name the nodes, too.

    Raises:
        TraceError: The form is not known, or the file is refused.
        OSError: It cannot be read.
    """
    source = Source.of(path)
    if source.path.is_dir():
        raise TraceError(f"{source}: this is a folder", f"a workload is a file: {FORMS}", "name a file in it")
    match _form(source):
        case ".swf":
            options = swf or SwfOptions()
            return read_swf(source, replace(options, nodes=nodes) if nodes else options)
        case ".csv":
            from scheduler_bridge.workloads.accounting import read_clean_csv

            return read_clean_csv([source], nodes=nodes, keep_cut_off=swf.keep_cut_off if swf else False)
        case ".toml":
            from scheduler_bridge.workloads.job_files import read_job_file

            return read_job_file(source, nodes=nodes)
        case ".json":
            return _read_json(source, nodes)
        case _:
            begin = source.head()[:40].decode("utf-8", "replace")
            raise TraceError(f"{source}: unknown form", f"known: {FORMS}; it begins with {begin!r}", "convert the file")


def _form(source: Source) -> str:
    """The ending that the file should have; empty if it is of no known form."""
    lines = [line for line in source.head().decode("utf-8", "replace").splitlines() if line.strip()]
    first = lines[0] if lines else ""
    if first.startswith(";") or _numbers(first) >= _LEAST_NUMBERS:
        return ".swf"
    if first.lstrip().startswith("{"):
        return ".json"
    if "," in first and _has_known_columns(first):
        return ".csv"
    text = next((line for line in lines if not line.lstrip().startswith("#")), "")
    if not source.form and _TOML.match(text):
        return ".toml"
    return source.form


def _numbers(line: str) -> int:
    """How many numbers a line consists of; 0 if there is anything else."""
    words = line.split()
    try:
        return len([float(word) for word in words])
    except ValueError:
        return 0


def _has_known_columns(line: str) -> bool:
    from scheduler_bridge.workloads.accounting import find_map

    try:
        find_map(tuple(name.strip().strip('"') for name in line.split(",")), "")
    except TraceError:
        return False
    return True


def _read_json(source: Source, nodes: int | None) -> Workload:
    """ElastiSim's file has ``jobs`` with application models, the scheduler's a policy and the names of nodes."""
    from scheduler_bridge.record import decode_record

    try:
        workload = workload_of(decode_record(source.read()), name=source.stem)
        return replace(workload, nodes=nodes) if nodes else workload
    except TraceError:
        raise
    except (ArithmeticError, RecursionError, ValueError, msgspec.DecodeError) as error:
        if b'"policy"' in source.head():
            raise TraceError(f"{source}: {error}", "no scheduler of this version left it", "export it again") from None
    from scheduler_bridge.workloads.elastisim import read_elastisim

    return read_elastisim(source, nodes=nodes)


# The scheduler's history as a workload: what would another policy have made of last week? ----------------------------
#
# What a job would have taken on the nodes that it asked for is computed from the nodes that it had, and from the part
# of their cores that it could use where it shared them: the work that was done is the same. How malleable jobs scale is
# an assumption: as the scheduler believed, unless another law is given.


@dataclass(frozen=True, slots=True)
class Law:
    """How jobs are assumed to scale.

    Attributes:
        text: As a speedup of ``TraceJob``.
        at: How fast a job is on a number of nodes; only ratios count.
    """

    text: str
    at: Callable[[int], float]


def power(rho: float) -> Law:
    """On n nodes n^(1 - rho) times as fast as on one, as the scheduler believes [MEBF, section 2.2; D]."""
    if rho == 0:
        return Law("linear", float)
    return Law(f"power:{rho!r}", lambda nodes: nodes ** (1.0 - rho))


def workload_of(record: RunRecord, *, name: str = "history", law: Law | None = None) -> Workload:
    """The jobs of a run that are over; the others are counted in the findings.

    Args:
        record: What the scheduler, live or simulated, left behind.
        name: Of the workload.
        law: How malleable jobs scale; None: each by the rho that the scheduler believed in.

    Raises:
        TraceError: No job is over.
    """
    findings = Findings(records=len(record.jobs))
    jobs = in_order(_jobs(record, law, findings))
    if not jobs:
        raise TraceError(
            f"{name}: no job is over", f"the record has {len(record.jobs)} jobs", "export the history after some ended"
        )
    return Workload(
        name=name,
        nodes=len(record.nodes),
        jobs=jobs,
        source=f"history under {record.policy}",
        start_unix_s=_unix(record.started_at),
        findings=findings,
    )


def _jobs(record: RunRecord, law: Law | None, findings: Findings) -> Iterator[TraceJob]:
    first_s = min((job.submit_s for job in record.jobs), default=0.0)
    for job in record.jobs:
        assumed = (law or power(job.rho)) if job.malleable else power(0.0)
        last_run = _last_run(job)
        work = sum((part.to_s - part.from_s) * part.share * assumed.at(len(part.nodes)) for part in last_run)
        runtime_s = work / assumed.at(job.nodes)
        if job.start_s is None or job.end_s is None or runtime_s <= 0:
            findings.skip("not over, or never ran")
            continue
        requested_s = job.submit_s if job.requested_s is None else job.requested_s  # before what it came after ended
        yield TraceJob(
            job_id=job.job_id,
            submit_s=max(0.0, requested_s - min(0.0, first_s)),
            runtime_s=runtime_s,
            walltime_s=job.walltime_s,
            nodes=job.nodes,
            min_nodes=job.min_nodes,
            max_nodes=job.max_nodes,
            job_class="malleable" if job.malleable else "rigid",
            user=job.user,
            name=job.name,
            wait_s=max(0.0, job.start_s - job.submit_s),
            status=status_of(job.state),
            rho=job.rho,
            speedup=assumed.text,
            allocations=tuple((part.from_s - job.start_s, len(part.nodes)) for part in last_run),
            after_ok=job.after_ok,
            after_any=job.after_any,
        )


def _last_run(job: JobRecord) -> list[Segment]:
    """The segments since it was started last: what it did before it was lost and run again was lost, too."""
    return [part for part in job.segments if job.start_s is None or part.from_s >= job.start_s]


def _unix(started_at: str) -> float | None:
    try:
        return datetime.fromisoformat(started_at).timestamp()
    except ValueError:
        return None
