"""Writes the Standard Workload Format, with what it cannot say in comments that our reader understands.

``; Malleable: ID MIN MAX RHO STEPS SPEEDUP`` gives the bounds of a malleable job, ``; Overhead: ID ALPHA BETA`` what
resizes cost it, ``; Allotments: ID S=NODES ...`` the sizes that it had, ``; User: NUMBER NAME`` and the like the names
behind numbers. Other programs skip comments. A processor is a node: ``MaxProcs`` equals ``MaxNodes``.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scheduler_bridge.atomic_write import write_whole
from scheduler_bridge.workloads.record import TraceJob, Workload

SYNTHETIC: Final = "SYNTHETIC: drawn by a generator, not recorded on a machine"
_STATUS: Final = {"completed": 1, "failed": 0, "cancelled": 5, "unknown": -1}
_LABELS: Final = (("User", "user"), ("Group", "group"), ("Queue", "queue"), ("Partition", "partition"))


def write_swf(workload: Workload, path: Path | str) -> None:
    """Write a workload, compressed if the name ends in ``.gz``; the file appears when it is complete.

    Raises:
        OSError: It cannot be written.
    """
    path = Path(path)
    text = "".join(f"{line}\n" for line in swf_lines(workload)).encode()
    if path.suffix == ".gz":
        text = gzip.compress(text, mtime=0)  # equal workloads give equal files
    write_whole(path, text)


def swf_lines(workload: Workload) -> Iterator[str]:
    """The lines of the file."""
    yield "; Version: 2.2"
    yield f"; Computer: {_one_line(workload.header.get('Computer', workload.name))}"
    if workload.synthetic:
        yield f"; Note: {SYNTHETIC}"
    if workload.source:
        yield f"; Conversion: malleable, from {_one_line(workload.source)}"
    yield f"; MaxJobs: {len(workload)}"
    yield f"; MaxRecords: {len(workload)}"
    yield f"; UnixStartTime: {_plain(workload.start_unix_s or 0)}"
    yield f"; MaxNodes: {workload.nodes}"
    yield f"; MaxProcs: {workload.nodes}"
    numbers: dict[str, dict[str, int]] = {}
    for label, field in _LABELS:
        numbers[field] = _numbered({getattr(job, field) for job in workload.jobs})
        for name, number in numbers[field].items():
            if name != str(number):
                yield f"; {label}: {number} {_one_line(name)}"
    for job in workload.jobs:
        if job.is_malleable:
            yield (
                f"; Malleable: {job.job_id} {job.min_nodes} {job.max_nodes} {_plain(job.rho)} {job.steps} {job.speedup}"
            )
        if job.overhead is not None:
            yield f"; Overhead: {job.job_id} " + " ".join(_plain(value) for value in job.overhead)
        yield from _lists(job)
        if job.name:
            yield f"; Name: {job.job_id} {_one_line(job.name)}"
        yield _record(job, numbers)


def _lists(job: TraceJob) -> Iterator[str]:
    for label, pairs in (("Evolving", job.wishes), ("Allotments", job.allocations)):
        if pairs:
            yield f"; {label}: {job.job_id} " + " ".join(f"{_plain(at)}={nodes}" for at, nodes in pairs)
    for label, others in (("AfterOk", job.after_ok), ("AfterAny", job.after_any)):
        if others:
            yield f"; {label}: {job.job_id} " + " ".join(map(str, others))


def _record(job: TraceJob, numbers: dict[str, dict[str, int]]) -> str:
    user, group, queue, partition = (numbers[field].get(getattr(job, field), -1) for _, field in _LABELS)
    wait = "-1" if job.wait_s is None else _plain(job.wait_s)
    return (
        f"{job.job_id} {_plain(job.submit_s)} {wait} {_plain(job.runtime_s)} {job.nodes} -1 -1 {job.nodes} "
        f"{_plain(job.walltime_s)} -1 {_STATUS[job.status]} {user} {group} -1 {queue} {partition} "
        f"{job.preceding_job} {_plain(job.think_s) if job.preceding_job >= 0 or job.think_s else -1}"
    )


def _numbered(names: set[str]) -> dict[str, int]:
    """A number for every name: itself if all names are numbers, else by order; none for the empty name."""
    ordered = sorted(names - {""})
    if all(name.isascii() and name.isdigit() and len(name) < 10 and name == str(int(name)) for name in ordered):
        return {name: int(name) for name in ordered}
    return {name: number for number, name in enumerate(ordered, start=1)}


def _plain(value: float) -> str:
    """The shortest text that gives the same number again."""
    return str(int(value)) if value == int(value) else repr(float(value))


def _one_line(text: str) -> str:
    return " ".join(text.split())
