"""Reads the Standard Workload Format of the Parallel Workloads Archive, plain or compressed.

Rules for broken records (counted in the workload's findings):

* left out: a line that is not UTF-8 or has fewer than 18 numbers; a negative or unknown submission time; a runtime that
  is negative, unknown or zero (the job never ran); an unknown number of processors; more nodes than the machine has; an
  id that an earlier record has: of the usable ones of an id the one submitted first stays, at one time the one whose
  fields are the smaller, wherever they stand in the file.
* kept: submissions in seconds since 1970, against the format (``UnixStartTime`` is taken off); more than 18 fields (the
  others are not read); a record that is out of order (jobs are sorted); a missing estimate (1.25 times the runtime, as
  in the 2025 paper); a runtime beyond the estimate (as it is).
* refused: a compressed file that is cut off (unless asked for), and a file without any usable record.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from scheduler_bridge.model import InvalidJobError
from scheduler_bridge.workloads.findings import Findings, TraceError
from scheduler_bridge.workloads.record import Status, TraceJob, Workload, in_order
from scheduler_bridge.workloads.swf_file import SwfFile, SwfRecord, number, read_records

MISSING_WALLTIME_FACTOR: Final = 1.25
"""Estimates that are missing are this many times the runtime [2025, section 2.2]."""
_STATUS: Final[dict[int, Status]] = {0: "failed", 1: "completed", 5: "cancelled"}


@dataclass(frozen=True, slots=True)
class SwfOptions:
    """How records become jobs.

    Attributes:
        nodes: The machine's nodes; None: ``MaxNodes`` of the header, else ``MaxProcs`` by ``processors_per_node``,
            else the largest job.
        processors_per_node: None: ``MaxProcs / MaxNodes`` of the header, else 1. A job gets the nodes that its
            processors need, rounded up.
        size: Whether a job's size is what it requested or what was allocated to it; the other one where that is not
            known.
        partitions: Only jobs of these; empty: all.
        queues: Only jobs of these; empty: all.
        statuses: Only jobs that ended so, as the numbers of the format; empty: all.
        keep_cut_off: Use the beginning of a compressed file that is cut off.
    """

    nodes: int | None = None
    processors_per_node: int | None = None
    size: Literal["requested", "allocated"] = "requested"
    partitions: frozenset[int] = frozenset()
    queues: frozenset[int] = frozenset()
    statuses: frozenset[int] = frozenset()
    keep_cut_off: bool = False


def read_swf(path: Path | str, options: SwfOptions | None = None) -> Workload:
    """Read a file of the Standard Workload Format.

    Raises:
        TraceError: The file is refused: see the rules above.
        OSError: It cannot be read.
    """
    path, options = Path(path), options or SwfOptions()
    findings = Findings()
    file = read_records(path, findings, keep_cut_off=options.keep_cut_off)
    machine = _Machine.of(file, options)
    start_unix_s = number(file.header.get("UnixStartTime", ""))
    jobs = in_order(_jobs(_from_zero(file.records, start_unix_s, findings), file, machine, options, findings))
    if not jobs:
        raise TraceError(
            f"{path}: no usable job",
            f"{findings.records} records were read: "
            + (", ".join(f"{found.count} {why}" for _, why, found in findings.rows()) or "it is empty"),
            "is it a file of the Standard Workload Format, and do the filters fit?",
        )
    note = file.header.get("Note", "")
    return Workload(
        name=path.name.removesuffix(".gz").removesuffix(".swf"),
        nodes=machine.nodes,
        jobs=jobs,
        synthetic=note.startswith("SYNTHETIC") or "\nSYNTHETIC" in note,
        source=path.name,
        start_unix_s=start_unix_s,
        header=file.header,
        findings=findings,
    )


@dataclass(frozen=True, slots=True)
class _Machine:
    nodes: int
    processors_per_node: int

    @classmethod
    def of(cls, file: SwfFile, options: SwfOptions) -> _Machine:
        nodes, processors = (int(number(file.header.get(label, "")) or 0) for label in ("MaxNodes", "MaxProcs"))
        per_node = options.processors_per_node or (max(1, round(processors / nodes)) if nodes and processors else 1)
        if options.nodes:
            return cls(options.nodes, per_node)
        if nodes and not options.processors_per_node:
            return cls(nodes, per_node)
        if not processors:
            processors = max((_size(record, options) for _, record in file.records), default=1)
        return cls(max(1, -(-processors // per_node)), per_node)


def _size(record: SwfRecord, options: SwfOptions) -> int:
    first, second = record.requested_processors, record.allocated_processors
    if options.size == "allocated":
        first, second = second, first
    return first if first > 0 else second


def _nodes(record: SwfRecord, machine: _Machine, options: SwfOptions) -> int:
    return -(-_size(record, options) // machine.processors_per_node)


def _from_zero(
    records: list[tuple[int, SwfRecord]], start_unix_s: float | None, findings: Findings
) -> list[tuple[int, SwfRecord]]:
    """Some files, though the format says otherwise, give submissions since 1970."""
    if not start_unix_s or not records or min(record.submit_s for _, record in records) < start_unix_s:
        return records
    for line, _ in records:
        findings.note("submitted in seconds since 1970: now since UnixStartTime", line)
    return [(line, record._replace(submit_s=record.submit_s - start_unix_s)) for line, record in records]


def _jobs(
    records: list[tuple[int, SwfRecord]], file: SwfFile, machine: _Machine, options: SwfOptions, findings: Findings
) -> Iterator[TraceJob]:
    first: dict[int, tuple[SwfRecord, int]] = {}
    for line, record in records:
        if _why_not(record, _nodes(record, machine, options), machine.nodes, options) is None:
            other = first.setdefault(record.job_number, (record, line))
            if (record, line) < other:
                first[record.job_number] = (record, line)
    last_s = -math.inf
    for line, record in records:
        processors = _size(record, options)
        nodes = _nodes(record, machine, options)
        hours = max(0.0, nodes * record.run_s / 3600)
        reason = _why_not(record, nodes, machine.nodes, options)
        if reason is None and first[record.job_number][1] != line:
            reason = "an id that an earlier record has"
        if reason is not None:
            findings.skip(reason, line, hours)
            continue
        if record.submit_s < last_s:
            findings.note("out of order", line, hours)
        last_s = max(last_s, record.submit_s)
        walltime_s = record.requested_s
        if walltime_s <= 0:
            walltime_s = MISSING_WALLTIME_FACTOR * record.run_s
            findings.note(f"no estimate: {MISSING_WALLTIME_FACTOR} times the runtime", line, hours)
        elif record.run_s > walltime_s:
            findings.note("ran longer than its estimate", line, hours)
        job = TraceJob(
            job_id=record.job_number,
            submit_s=record.submit_s,
            runtime_s=record.run_s,
            walltime_s=walltime_s,
            nodes=nodes,
            user=_label(file, "User", record.user),
            wait_s=record.wait_s if record.wait_s >= 0 else None,
            status=_STATUS.get(record.status, "unknown"),
            group=_label(file, "Group", record.group),
            queue=_label(file, "Queue", record.queue),
            partition=_label(file, "Partition", record.partition),
            processors=processors,
            name=file.comments["Name"].get(record.job_number, ""),
        )
        try:
            yield _with_comments(job, file, machine)
        except (ValueError, InvalidJobError):
            findings.note("a comment about it is not understood", line, hours)
            yield job


def _why_not(record: SwfRecord, nodes: int, machine_nodes: int, options: SwfOptions) -> str | None:
    for wanted, value, what in (
        (options.partitions, record.partition, "partition"),
        (options.queues, record.queue, "queue"),
        (options.statuses, record.status, "status"),
    ):
        if wanted and value not in wanted:
            return f"another {what} than asked for"
    if record.job_number < 0:
        return "no id"
    if record.submit_s < 0:
        return "submission time negative or unknown"
    if record.run_s <= 0:
        return "runtime zero: it never ran" if record.run_s == 0 else "runtime negative or unknown"
    if nodes <= 0:
        return "number of processors unknown"
    return f"larger than the machine ({machine_nodes} nodes)" if nodes > machine_nodes else None


def _label(file: SwfFile, label: str, value: int) -> str:
    return file.comments[label].get(value, str(value)) if value >= 0 else ""


def _with_comments(job: TraceJob, file: SwfFile, machine: _Machine) -> TraceJob:
    """The job with what our writer says about it.

    Raises:
        ValueError: A comment is not as our writer writes it.
        InvalidJobError: It contradicts the record.
    """
    if bounds := file.comments["Malleable"].get(job.job_id):
        low, high, rho, steps, speedup = bounds.split(maxsplit=4)
        if not 0 <= float(rho) <= 1 or int(high) > machine.nodes:
            raise ValueError(bounds)
        job = replace(
            job,
            job_class="malleable",
            min_nodes=int(low),
            max_nodes=int(high),
            rho=float(rho),
            steps=int(steps),
            speedup=speedup,
        )
    if overhead := file.comments["Overhead"].get(job.job_id):
        alpha, beta = overhead.split()
        job = replace(job, overhead=(float(alpha), float(beta)))
    return replace(
        job,
        allotments=_pairs(file.comments["Allotments"].get(job.job_id, "")),
        wishes=_pairs(file.comments["Evolving"].get(job.job_id, "")),
    )


def _pairs(text: str) -> tuple[tuple[float, int], ...]:
    pairs = (pair.split("=") for pair in text.split())
    return tuple((float(at), int(nodes)) for at, nodes in pairs)
