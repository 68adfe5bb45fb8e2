"""Accounting files of Eagle, Theta and Cori (CSV, plain or compressed), cleaned as in the 2025 paper."""

from __future__ import annotations

import csv
import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from scheduler_bridge.workloads.source import Findings, Source, TraceError, is_text
from scheduler_bridge.workloads.swf import MISSING_WALLTIME_FACTOR
from scheduler_bridge.workloads.workload import MAX_ID, Status, TraceJob, Workload, in_order

_T = TypeVar("_T")

# Columns -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """The columns of a CSV file; an empty name: there is none.

    Times are seconds since 1970 or ``YYYY-MM-DD HH:MM:SS``, durations are seconds.

    Attributes:
        name: Which file this is.
        machine_nodes: Nodes of the machine, by partition kind where there are several; "" is any.
        nodes: Nodes that were requested, or allocated where only that is known.
        runtime: Seconds that it ran; empty: end less start.
        walltime: Seconds that were requested.
        wait: Seconds that it waited; empty: start less submission.
        group: The user's project or account.
        queue: The queue or quality of service.
        processors: Processors that were requested.
        gpus: GPUs that were requested; jobs with some ran on nodes that are not modelled.
        state: How it ended.
        raw_hours: Node-hours that were really used: less than nodes times runtime where a job shared its node.
        kind: The column that says on which kind of nodes it ran.
        split_days: A job has a record for every day on which it ran.
        repeated: What further records of one id are, each a job of its own; empty: they are left out.
        others: Partitions of groups with nodes of their own, whose jobs never competed for the machine.
    """

    name: str
    machine_nodes: Mapping[str, int]
    job: str
    submit: str
    nodes: str
    runtime: str = ""
    walltime: str = ""
    start: str = ""
    end: str = ""
    wait: str = ""
    user: str = ""
    group: str = ""
    queue: str = ""
    partition: str = ""
    processors: str = ""
    gpus: str = ""
    state: str = ""
    raw_hours: str = ""
    kind: str = ""
    split_days: bool = False
    repeated: str = ""
    others: tuple[str, ...] = ()

    @property
    def required(self) -> tuple[str, ...]:
        """The columns without which nothing can be read."""
        needed = (self.job, self.submit, self.nodes, self.runtime or self.end)
        return tuple(column for column in needed if column)


@cache
def maps() -> Mapping[str, ColumnMap]:
    """By the name of the machine, and of the collection where there are several."""
    return read_table("scheduler_bridge.workloads", "columns.toml", ColumnMap)


def read_table(package: str, name: str, kind: type[_T]) -> dict[str, _T]:
    """Read the entries of a file of ``package``, by their names.

    Raises:
        msgspec.ValidationError: An entry is none of that kind.
    """
    text = files(package).joinpath(name).read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, kind])  # type: ignore[valid-type]  # known when it is called


def find_map(columns: tuple[str, ...], path: object) -> ColumnMap:
    """The map that fits a file's columns.

    Raises:
        TraceError: None does.
    """
    for candidate in maps().values():
        if set(candidate.required) <= set(columns):
            return candidate
    known = "; ".join(f"{name}: {', '.join(candidate.required)}" for name, candidate in maps().items())
    raise TraceError(
        f"{path}: unknown columns {', '.join(columns)[:200] or '(none)'}",
        f"known files have these columns: {known}",
        "give a file of Eagle, Theta or Cori, or convert it to the Standard Workload Format",
    )


# Raw records ---------------------------------------------------------------------------------------------------------
#
# A record is left out, and counted, where it is not UTF-8, lacks fields, or has no usable id, submission, runtime or
# number of nodes. What is left is not yet a workload: see ``clean``.

_MAX_FIELD: Final = 10_000
_MAX_NUMBER: Final = 2.0**53
_COMPLETED: Final = ("COMPLETED", "PASS", "0", "0.0", "")
_CANCELLED: Final = ("CANCELLED", "KILLED")


@dataclass(frozen=True, slots=True, order=True)
class RawRecord:
    """A line of an accounting file, with the job's id as it is written; a job may have several.

    Submission and start (infinite: not known) are in seconds since 1970. Of walltime and processors, 0 is not known.
    ``shared``: it ran beside others on the same node; ``gpus``: it asked for some. Records are sorted by what they say,
    not by their lines; those that say the same can stand for each other.
    """

    submit_s: float
    start_s: float
    runtime_s: float
    nodes: int
    job: str
    walltime_s: float
    status: Status
    user: str
    group: str
    queue: str
    partition: str
    processors: int
    gpus: bool
    shared: bool
    line: int = field(compare=False)


def _read_csv(
    files: Sequence[Source], findings: Findings, *, keep_cut_off: bool
) -> tuple[ColumnMap, str, list[RawRecord]]:
    """The columns of files of one machine, the kind of its nodes where it has several, and the records, in their order.

    Raises:
        TraceError: A file has other columns, is cut off, or the files are of different machines.
        OSError: A file cannot be read.
    """
    records: list[RawRecord] = []
    kinds: dict[str, Source] = {}
    columns: ColumnMap | None = None
    for path in files:
        lines = enumerate(path.lines(findings, keep_cut_off=keep_cut_off), start=1)
        header = next((line for _, line in lines if line.strip() and is_text(line)), "")
        names = tuple(name.strip() for name in _split(header) or ())
        columns = columns or find_map(names, path)
        if missing := [column for column in columns.required if column not in names]:
            raise TraceError(
                f"{path}: no column {', '.join(missing)}",
                f"files of {columns.name} have it",
                "give files of one machine, with their first line",
            )
        records += _records(lines, names, columns, findings, kinds, path)
    if len(kinds) > 1:
        raise TraceError(
            f"{' and '.join(f'{path} is of {kind[:40]!r}' for kind, path in list(kinds.items())[:3])}",
            "one workload is of one kind of nodes",
            "read them apart",
        )
    if columns is None:
        raise TraceError("no file", "a workload needs at least one", "name a file")
    return columns, next(iter(kinds), ""), records


def _split(line: str) -> list[str] | None:
    try:
        return next(csv.reader([line.rstrip("\r\n")], strict=True), None)
    except csv.Error:
        return None


def _records(
    lines: Iterable[tuple[int, str]],
    names: tuple[str, ...],
    columns: ColumnMap,
    findings: Findings,
    kinds: dict[str, Source],
    path: Source,
) -> Iterator[RawRecord]:
    for number, line in lines:
        if not line.strip():
            continue
        findings.records += 1
        text = is_text(line)
        fields = _split(line) if text and len(line) <= _MAX_FIELD else None
        if fields is None:
            findings.skip("not a line of CSV" if text else "not UTF-8", number)
        elif len(fields) != len(names):
            findings.skip(f"not {len(names)} fields", number, example=f"{len(fields)} fields")
        else:
            row = {name: field for name, field in zip(names, fields, strict=True) if name}
            record = _record(number, row, columns)
            if isinstance(record, tuple):
                reason, column = record
                findings.skip(reason, number, example=f"{column} is {row.get(column, '')[:40]!r}")
                continue
            if kind := row.get(columns.kind, ""):
                kinds.setdefault(kind, path)
            yield record


def _record(line: int, row: dict[str, str], columns: ColumnMap) -> RawRecord | tuple[str, str]:
    """The record of a row, or why there is none, and by which column."""
    submit_s = _time(row[columns.submit])
    start_s, end_s = (_time(row.get(name, "")) for name in (columns.start, columns.end))
    runtime_s = _amount(row.get(columns.runtime, ""))
    if runtime_s is None and start_s is not None and end_s is not None:
        runtime_s = end_s - start_s
    nodes, processors = _amount(row[columns.nodes]), _amount(row.get(columns.processors, "")) or 0
    wait_s = _amount(row.get(columns.wait, ""))
    if start_s is None and submit_s is not None and wait_s is not None and wait_s >= 0:
        start_s = submit_s + wait_s
    if not row[columns.job].strip():
        return "no id", columns.job
    if submit_s is None or submit_s < 0:
        return "submission time negative or unknown", columns.submit
    if runtime_s is None or runtime_s < 0:
        return "runtime negative or unknown", columns.runtime or columns.end
    if nodes is None or nodes < 1:
        return "number of nodes unknown", columns.nodes
    walltime_s = _amount(row.get(columns.walltime, ""))
    hours = _amount(row.get(columns.raw_hours, ""))
    labels = [row.get(name, "").strip() for name in (columns.user, columns.group, columns.queue, columns.partition)]
    return RawRecord(
        line=line,
        job=row[columns.job].strip(),
        submit_s=submit_s,
        start_s=math.inf if start_s is None else start_s,
        runtime_s=runtime_s,
        walltime_s=max(0.0, walltime_s or 0.0),
        nodes=int(nodes),
        processors=int(processors),
        shared="shared" in labels[2:] or (hours is not None and hours * 3600 < 0.99 * int(nodes) * runtime_s),
        gpus=(_amount(row.get(columns.gpus, "")) or 0) > 0,
        status=_status(row.get(columns.state, "").strip().upper()),
        user=labels[0],
        group=labels[1],
        queue=labels[2],
        partition=labels[3],
    )


def _status(state: str) -> Status:
    if state in _COMPLETED:
        return "completed" if state else "unknown"
    return "cancelled" if state.startswith(_CANCELLED) else "failed"


def _amount(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) < _MAX_NUMBER else None


def _time(text: str) -> float | None:
    amount = _amount(text)
    if amount is not None:
        return amount
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


# Cleaning ------------------------------------------------------------------------------------------------------------
#
# Steps [2025, section 2.2]: merge records of one job that were split at midnight; drop jobs that share their node with
# others (several of them would be counted on one node), jobs on GPU nodes and jobs of partitions that belong to others;
# where an estimate is missing, take 1.25 times the runtime. Then the rules for broken records hold, as in ``swf``. What
# is dropped is counted, with its node-hours.
#
# Note: the "Cleaned Jobs" of Table 1 are the jobs that were removed: 55,587 - 14,063 = 41,524, which is what Table 2
# gives for KNL.

_MAX_WRITTEN_ID: Final = MAX_ID // 2
"""Above there is room for the further records of an id."""
_SEAM_S: Final = 2.0
"""A part that begins at most so long after another one's end goes on with it: days end at 23:59:59."""


def read_clean_csv(
    paths: Iterable[Source | Path | str],
    *,
    nodes: int | None = None,
    merge_split: bool = True,
    drop_shared: bool = True,
    keep_cut_off: bool = False,
) -> Workload:
    """Read accounting files of one machine and clean them.

    Args:
        paths: The files.
        nodes: The machine's nodes; None: as the columns' map says.
        merge_split: Merge records of one job, where the file has one for every day.
        drop_shared: Drop jobs that shared their nodes.
        keep_cut_off: Use the readable beginning of a packed file that is cut off.

    Raises:
        TraceError: A file is refused, or no job is left.
        OSError: A file cannot be read.
    """
    files = [Source.of(path) for path in paths]
    findings = Findings()
    columns, kind, records = _read_csv(files, findings, keep_cut_off=keep_cut_off)
    if merge_split and columns.split_days:
        records = list(_merged(records, findings))
    start_unix_s = min((record.submit_s for record in records), default=0.0)
    nodes = nodes or columns.machine_nodes.get(kind.lower(), columns.machine_nodes[""])
    if columns.repeated:
        records = _numbered(records, columns.repeated, findings)
    reasons = [_why_not(record, nodes, columns.others, drop_shared=drop_shared) for record in records]
    jobs = in_order(_jobs(records, reasons, start_unix_s, findings))
    if not jobs:
        raise TraceError(
            f"{', '.join(map(str, files))}: no usable job",
            findings.summary(),
            "look at what was left out, and why",
        )
    return Workload(
        name=files[0].file_name.split(".")[0],
        nodes=nodes,
        jobs=jobs,
        source=", ".join(file.file_name for file in files),
        start_unix_s=start_unix_s,
        header={"Computer": columns.name + (f", {kind}" if kind else "")},
        findings=findings,
    )


def _merged(records: Iterable[RawRecord], findings: Findings) -> Iterator[RawRecord]:
    """Join the parts of jobs that were recorded day by day; parts that are recorded twice count once.

    A part belongs to another one of the same id if it has the same submission and size and begins where the other
    ends. Records without a start are left alone.
    """
    parts: dict[tuple[str, float, int], list[RawRecord]] = {}
    for record in records:
        parts.setdefault((record.job, record.submit_s, record.nodes), []).append(record)
    for group in parts.values():
        if len(group) == 1 or any(record.start_s == math.inf for record in group):
            yield from group
            continue
        group.sort(key=lambda record: (record.start_s, -record.runtime_s, record))
        yield from _joined(group, findings)


def _joined(group: list[RawRecord], findings: Findings) -> Iterator[RawRecord]:
    whole = group[0]
    for part in group[1:]:
        ends_s, last_s = whole.start_s + whole.runtime_s, part.start_s + part.runtime_s
        if last_s <= ends_s:
            findings.skip("recorded twice", part.line, part.nodes * part.runtime_s / 3600)
        elif part.start_s <= ends_s + _SEAM_S:
            findings.skip("part of a job, merged", part.line, 0.0)
            whole = replace(whole, runtime_s=last_s - whole.start_s, status=part.status)
        else:
            yield whole
            whole = part
    yield whole


def _numbered(records: list[RawRecord], repeated: str, findings: Findings) -> list[RawRecord]:
    """Give the further records of an id, which are jobs of their own, ids beyond the largest one.

    The first record is the one that was submitted first, then started first, and so on, wherever it stands in the file.
    """
    largest = max((int(record.job) for record in records if _is_number(record.job)), default=0)
    times = Counter(record.job for record in records)
    several = [index for index, record in enumerate(records) if times[record.job] > 1]
    seen: set[str] = set()
    numbered = list(records)
    for index in sorted(several, key=records.__getitem__):
        record = records[index]
        if record.job in seen:
            largest += 1
            findings.note(f"{repeated}: a new id", record.line, record.nodes * record.runtime_s / 3600)
            numbered[index] = replace(record, job=str(largest))
        else:
            seen.add(record.job)
    return numbered


def _ids(records: Sequence[RawRecord]) -> dict[str, int]:
    """A number for every id: itself, or, if not all are numbers, by submission, wherever it stands in the file."""
    if all(_is_number(record.job) for record in records):
        return {record.job: int(record.job) for record in records}
    ordered = sorted((record.submit_s, record.job) for record in records)
    names = dict.fromkeys(job for _, job in ordered)
    return {job: number for number, job in enumerate(names)}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= _MAX_WRITTEN_ID


def _jobs(
    records: Sequence[RawRecord], reasons: Sequence[str], start_unix_s: float, findings: Findings
) -> Iterator[TraceJob]:
    """The jobs of records, but those that there is a reason to leave out; of one id the smallest record stays."""
    ids = _ids(records)
    first: dict[int, RawRecord] = {}
    for record, reason in zip(records, reasons, strict=True):
        if not reason:
            first[ids[record.job]] = min(first.get(ids[record.job], record), record)
    last_s = start_unix_s
    for record, reason in zip(records, reasons, strict=True):
        hours = record.nodes * record.runtime_s / 3600
        job_id = ids[record.job]
        if reason or first[job_id] is not record:
            findings.skip(reason or "an id that an earlier record has", record.line, hours)
            continue
        if record.submit_s < last_s:
            findings.note("out of order", record.line, hours)
        last_s = max(last_s, record.submit_s)
        walltime_s = record.walltime_s
        if not walltime_s:
            walltime_s = MISSING_WALLTIME_FACTOR * record.runtime_s
            findings.note(f"no estimate: {MISSING_WALLTIME_FACTOR} times the runtime", record.line, hours)
        elif record.runtime_s > walltime_s:
            findings.note("ran longer than its estimate", record.line, hours)
        yield TraceJob(
            job_id=job_id,
            name="" if record.job == str(job_id) else record.job,
            submit_s=record.submit_s - start_unix_s,
            runtime_s=record.runtime_s,
            walltime_s=walltime_s,
            nodes=record.nodes,
            user=record.user,
            wait_s=None if record.start_s == math.inf else max(0.0, record.start_s - record.submit_s),
            status=record.status,
            group=record.group,
            queue=record.queue,
            partition=record.partition,
            processors=record.processors,
        )


def _why_not(record: RawRecord, nodes: int, others: Sequence[str], *, drop_shared: bool) -> str:
    if record.gpus:
        return "on nodes with GPUs"
    if record.partition in others:
        return "in a partition of others"
    if drop_shared and record.shared:
        return "shared its nodes"
    if record.runtime_s == 0:
        return "runtime zero: it never ran"
    return f"larger than the machine ({nodes} nodes)" if record.nodes > nodes else ""
