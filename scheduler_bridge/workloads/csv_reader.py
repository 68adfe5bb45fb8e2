"""Reads the accounting files of Eagle, Theta and Cori (CSV, plain or compressed) into raw records.

A record is left out, and counted, where it is not UTF-8, lacks fields, or has no usable id, submission, runtime or
number of nodes. What is left is not yet a workload: see ``cleaning``.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from scheduler_bridge.workloads.columns import ColumnMap, find_map
from scheduler_bridge.workloads.findings import Findings, TraceError
from scheduler_bridge.workloads.record import Status
from scheduler_bridge.workloads.source import Source, is_text

_MAX_FIELD: Final = 10_000
_MAX_NUMBER: Final = 2.0**53
_COMPLETED: Final = ("COMPLETED", "PASS", "0", "0.0", "")
_CANCELLED: Final = ("CANCELLED", "KILLED")


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A line of an accounting file. Times in seconds since 1970; a job may have several.

    Attributes:
        line: Its number in the file.
        job: The job's id, as it is written.
        submit_s: Submission.
        start_s: Start; None: not known.
        runtime_s: How long it ran.
        walltime_s: What was requested; None: not known.
        nodes: Nodes.
        processors: Processors; 0: not known.
        shared: It ran beside others on the same node.
        gpus: It asked for GPUs.
        status: How it ended.
        user: Who submitted it.
        group: Project or account.
        queue: Queue or quality of service.
        partition: Part of the machine.
    """

    line: int
    job: str
    submit_s: float
    start_s: float | None
    runtime_s: float
    walltime_s: float | None
    nodes: int
    processors: int
    shared: bool
    gpus: bool
    status: Status
    user: str
    group: str
    queue: str
    partition: str


@dataclass(slots=True)
class RawTrace:
    """The records of one or more files of the same machine.

    Attributes:
        columns: The map by which they were read.
        kind: The kind of nodes, where the machine has several.
        records: In the order of the files.
    """

    columns: ColumnMap
    kind: str
    records: list[RawRecord]

    @property
    def machine_nodes(self) -> int:
        """The nodes of the machine."""
        return self.columns.machine_nodes.get(self.kind.lower(), self.columns.machine_nodes[""])


def read_csv(
    paths: Sequence[Source | Path],
    findings: Findings,
    columns: ColumnMap | None = None,
    *,
    keep_cut_off: bool = False,
) -> RawTrace:
    """Read files of one machine, in their order.

    Args:
        paths: Files with the same columns; ``-``: standard input.
        findings: Counts what is left out.
        columns: How to read them; None: found by the columns' names.
        keep_cut_off: Use the beginning of compressed files that are cut off.

    Raises:
        TraceError: A file has other columns, is cut off, or the files are of different machines.
        OSError: A file cannot be read.
    """
    records: list[RawRecord] = []
    kinds: dict[str, Source] = {}
    for path in map(Source.of, paths):
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
    return RawTrace(columns, next(iter(kinds), ""), records)


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
        start_s=start_s,
        runtime_s=runtime_s,
        walltime_s=walltime_s if walltime_s and walltime_s > 0 else None,
        nodes=int(nodes),
        processors=int(processors),
        shared="shared" in labels[2:] or (hours is not None and hours * 3600 < 0.99 * int(nodes) * runtime_s - 1),
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
