"""The Standard Workload Format of the Parallel Workloads Archive, plain or compressed: reading and writing.

Rules for broken records (counted in the workload's findings, with the first line, field and value of each kind):

* left out: a line that is not UTF-8 or has fewer than 18 numbers; a negative or unknown submission time; a runtime that
  is negative, unknown or zero (the job never ran); an unknown number of processors; more nodes than the machine has; an
  id that is negative or larger than ``MAX_ID``; an id that an earlier record has: of the usable ones of an id the one
  submitted first stays, at one time the one whose fields are the smaller, wherever they stand in the file.
* kept: submissions in seconds since 1970, against the format (``UnixStartTime`` is taken off); more than 18 fields (the
  others are not read); a record that is out of order (jobs are sorted); a missing estimate (1.25 times the runtime, as
  in the 2025 paper); a runtime beyond the estimate (as it is).
* refused: a compressed file that is cut off (unless asked for); a file without any usable record; a file that does not
  say how many nodes the machine has, unless the options do; one that says more than ``MAX_NODES``.

A file is read in two steps, since a comment may stand behind the records that it is about: numbers of records first,
jobs then. Each step is one loop that knows the usual record only; whatever is odd about one is found out apart from it.
"""

from __future__ import annotations

import gzip
import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import structs

from scheduler_bridge.atomic_write import write_whole
from scheduler_bridge.gc_tuning import rare_searches
from scheduler_bridge.printable import one_line
from scheduler_bridge.workloads.source import Findings, Source, TraceError, is_text
from scheduler_bridge.workloads.workload import MAX_ID, MAX_NODES, Status, TraceJob, Workload, in_order, unknown_nodes

MISSING_WALLTIME_FACTOR: Final = 1.25
"""Estimates that are missing are this many times the runtime [2025, section 2.2]."""
_STATUS: Final[dict[int, Status]] = {0: "failed", 1: "completed", 5: "cancelled"}
_FIELDS: Final = (
    "job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time", "used memory",
    "requested processors", "requested time", "requested memory", "status", "user", "group", "executable", "queue",
    "partition", "preceding job", "think time",
)  # fmt: skip
_COUNT: Final = len(_FIELDS)
_NAMED: Final = ("User", "Group", "Queue", "Partition", "Name")
"""Comments that give a number its name."""
_BOUNDS: Final = ("min_nodes", "max_nodes", "rho", "steps", "speedup")
"""What the comment ``Malleable`` of ``write_swf`` says about a job."""
_ABOUT: Final = {
    "Overhead": "overhead", "Efficiency": "target_efficiency", "Evolving": "wishes", "Allotments": "allocations",
    "AfterOk": "after_ok", "AfterAny": "after_any",
}  # fmt: skip
"""Its other comments about a job, each with the field that it is: a number, or a list of numbers or pairs."""
_OURS: Final = ("Malleable", *_ABOUT)
_LIMIT: Final = 2.0**53
"""Beyond, not every whole number is a float; no time and no size is as large."""
_NOT_NUMBERS: Final = f"not {_COUNT} numbers"
_SAME_ID: Final = "an id that an earlier record has"


@dataclass(frozen=True, slots=True)
class SwfOptions:
    """How records become jobs.

    Attributes:
        nodes: The machine's nodes; None: ``MaxNodes`` of the header, else ``MaxProcs`` by ``processors_per_node``.
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


def read_swf(path: Source | Path | str, options: SwfOptions | None = None) -> Workload:
    """Read a file of the Standard Workload Format.

    Args:
        path: The file; ``-``: standard input.
        options: How records become jobs.

    Raises:
        TraceError: The file is refused: see the rules above.
        OSError: It cannot be read.
    """
    source, options = Source.of(path), options or SwfOptions()
    findings = Findings()
    with rare_searches():
        file = _read(source, findings, options)
        machine = _Machine.of(file, source, options)
        found = list(_jobs(file, machine, options, findings))
    jobs = in_order(found)
    if not jobs:
        raise TraceError(
            f"{source}: no usable job",
            findings.summary(),
            "is it a file of the Standard Workload Format, and do the filters fit?",
        )
    if not machine.is_known:
        raise unknown_nodes(str(source), jobs, "neither MaxNodes nor MaxProcs of its header says it")
    note = file.header.get("Note", "")
    return Workload(
        name=source.stem,
        nodes=machine.nodes,
        jobs=jobs,
        synthetic=note.startswith("SYNTHETIC") or "\nSYNTHETIC" in note,
        source=source.file_name,
        start_unix_s=file.start_unix_s,
        header=file.header,
        findings=findings,
    )


class _Record(NamedTuple):
    """The fields of a line that are needed, as the format has them; -1: not known. Two are compared by them."""

    job: int
    submit_s: float
    wait_s: float
    run_s: float
    allocated: int
    requested: int
    requested_s: float
    status: int
    user: int
    group: int
    queue: int
    partition: int
    preceding: int
    think_s: float
    line: int


_Fields = tuple[int, float, float, float, int, int, float, int, int, int, int, int, int, float, int]
"""Those of a record, which take half of its memory and time."""


@dataclass(slots=True)
class _File:
    """The records of a file as they are, and its header.

    Attributes:
        header: Labels of the header comments; those that come several times, joined by newlines.
        lines: Where a label came first.
        comments: Comments that say something about a number: by label, by number.
        records: In the order of the file.
    """

    header: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    comments: dict[str, dict[int, str]] = field(default_factory=lambda: {label: {} for label in _OURS + _NAMED})
    records: deque[_Fields] = field(default_factory=deque)

    @property
    def start_unix_s(self) -> float | None:
        """When the log begins; None where the header does not say."""
        return _number(self.header.get("UnixStartTime", ""))


class _Whole(dict[str, int]):
    """Whole numbers by how they are written; one that is written again is the same object."""

    def __missing__(self, word: str) -> int:
        value = self[word] = _whole(word)
        return value


def _whole(word: str) -> int:
    """A whole number, also one that is written as another one, such as ``8.0``.

    Raises:
        ValueError: It is none.
        OverflowError: It is infinite.
    """
    try:
        return int(word)
    except ValueError:
        return int(float(word))


def _read(source: Source, findings: Findings, options: SwfOptions) -> _File:
    """The numbers of a file, whatever they are.

    Raises:
        TraceError: A compressed file is cut off, and this is not wanted.
        OSError: It cannot be read.
    """
    file, whole = _File(), _Whole()
    add = file.records.append
    longer: list[int] = []
    for number, text in enumerate(source.lines(findings, keep_cut_off=options.keep_cut_off), start=1):
        words = text.split(None, _COUNT)
        if len(words) > _COUNT and text[0] != ";" and (text.isascii() or is_text(text)):
            del words[_COUNT:]
            longer.append(number)
        try:
            (
                job, submit_s, wait_s, run_s, allocated, cpu_s, memory, requested, requested_s, requested_memory,
                status, user, group, executable, queue, partition, preceding, think_s,
            ) = words  # fmt: skip
            float(cpu_s), float(memory), float(requested_memory), float(executable)
            add(
                (
                    int(job), float(submit_s), -1.0 if wait_s == "-1" else float(wait_s), float(run_s),
                    whole[allocated], whole[requested], float(requested_s), whole[status], whole[user], whole[group],
                    whole[queue], whole[partition],
                    -1 if preceding == "-1" else _whole(preceding), -1.0 if think_s == "-1" else float(think_s), number,
                )
            )  # fmt: skip
        except (ValueError, OverflowError):
            _read_other(number, text, words, file, findings)
    findings.note_all(f"more than {_COUNT} fields", longer)
    findings.records = len(file.records) + findings.total_skipped
    return file


def _read_other(number: int, text: str, words: list[str], file: _File, findings: Findings) -> None:
    """Read a line that is no usual record: a comment, an empty one, or one whose id is written in another way."""
    if text.startswith(";"):
        if not is_text(text):
            findings.note("comments that are not UTF-8", number)
            text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        _read_comment(text, number, file)
    elif not is_text(text):
        findings.skip("not UTF-8", number)
    elif 0 < len(words) < _COUNT:
        findings.skip(_NOT_NUMBERS, number, example=f"{len(words)} fields")
    elif words:
        for name, word in zip(_FIELDS, words, strict=True):
            try:
                math.trunc(float(word))
            except (ValueError, OverflowError):
                findings.skip(_NOT_NUMBERS, number, example=f"{name} is {word[:40]!r}")
                return
        values = [_whole(word) if index in _WHOLE_FIELDS else float(word) for index, word in enumerate(words)]
        del values[13], values[9], values[5:7]
        file.records.append((*values, number))  # type: ignore[arg-type]  # as many, of these types


_WHOLE_FIELDS: Final = frozenset((0, 4, 7, *range(10, 17)))


def _read_comment(text: str, number: int, file: _File) -> None:
    label, colon, value = text.lstrip("; \t").partition(":")
    label, value = label.strip(), value.strip()
    if not colon or not label or " " in label:
        return
    if label in file.comments:
        about, _, rest = value.partition(" ")
        if about.isascii() and about.isdigit() and len(about) <= len(str(MAX_ID)):
            file.comments[label][int(about)] = rest.strip()
    elif label in file.header:
        file.header[label] += f"\n{value}"
    else:
        file.header[label] = value
        file.lines[label] = number


def _number(text: str) -> float | None:
    """The number at the beginning of a header's value; None if there is none that makes sense."""
    try:
        value = float(text.split(maxsplit=1)[0])
    except (ValueError, IndexError):
        return None
    return value if abs(value) < _LIMIT else None


@dataclass(frozen=True, slots=True)
class _Machine:
    """What jobs run on; where it is not known, ``nodes`` are as many as there may be."""

    nodes: int
    processors_per_node: int
    is_known: bool = True

    @classmethod
    def of(cls, file: _File, source: Source, options: SwfOptions) -> _Machine:
        """As the options say, else the header.

        Raises:
            TraceError: What the header says cannot be.
        """
        said = {label: int(_number(file.header.get(label, "")) or 0) for label in ("MaxNodes", "MaxProcs")}
        nodes, processors = said.values()
        per_node = options.processors_per_node or (
            max(1, round(processors / nodes)) if nodes > 0 and processors > 0 else 1
        )
        if options.nodes:
            return cls(options.nodes, per_node)
        if nodes <= 0 or options.processors_per_node:
            nodes = -(-processors // per_node) if processors > 0 else nodes
        if nodes <= 0:
            return cls(MAX_NODES, per_node, is_known=False)
        if nodes > MAX_NODES:
            label = "MaxNodes" if said["MaxNodes"] > 0 and not options.processors_per_node else "MaxProcs"
            raise TraceError(
                f"{source}:{file.lines[label]}: {label} is {file.header[label].split()[0]}",
                f"no machine has more than {MAX_NODES:,} nodes",
                "say with --nodes how many it has, and with --processors-per-node what they have",
            )
        return cls(nodes, per_node)


class _Labels(dict[int, str]):
    """Names of numbers; the number itself where there is none, nothing where it is not known."""

    def __missing__(self, number: int) -> str:
        name = self[number] = str(number) if number >= 0 else ""
        return name


def _jobs(file: _File, machine: _Machine, options: SwfOptions, findings: Findings) -> Iterator[TraceJob]:
    users, groups, queues, partitions = (_Labels(file.comments[label]) for label in _NAMED[:4])
    names, commented = file.comments["Name"], set().union(*(file.comments[label] for label in _OURS))
    most, per_node, allocates = machine.nodes, machine.processors_per_node, options.size == "allocated"
    in_partitions, in_queues, of_statuses = options.partitions, options.queues, options.statuses
    first = _first_of_an_id(file.records, machine, options)
    begin_s = _beginning(file, findings)
    last_s = 0.0
    records, limit = file.records, _LIMIT  # they are let go of one by one
    while records:
        fields = records.popleft()
        (
            job_id, submit_s, wait_s, run_s, allocated, requested, walltime_s, status, user, group, queue, partition,
            preceding, think_s, line,
        ) = fields  # fmt: skip
        if begin_s:
            submit_s -= begin_s
        size = requested if requested > 0 and not (allocates and allocated > 0) else allocated
        nodes = -(-size // per_node)
        if (
            not (0 <= submit_s < limit and 0 < run_s < limit and 0 < nodes <= most and 0 <= job_id <= MAX_ID)
            or not (-limit < walltime_s < limit and -limit < wait_s < limit and -limit < think_s < limit)
            or (in_partitions and partition not in in_partitions)
            or (in_queues and queue not in in_queues)
            or (of_statuses and status not in of_statuses)
            or job_id in first
        ):
            reason, example = _why_not(_Record._make(fields), machine, options, begin_s)
            if not reason and first.get(job_id, line) != line:
                reason = _SAME_ID
            if reason:
                hours = nodes * run_s / 3600 if nodes > 0 and 0 < run_s < limit else 0.0
                findings.skip(reason, line, hours, example)
                continue
        if submit_s < last_s:
            findings.note("out of order", line, nodes * run_s / 3600)
        else:
            last_s = submit_s
        if walltime_s <= 0:
            walltime_s = MISSING_WALLTIME_FACTOR * run_s
            findings.note(f"no estimate: {MISSING_WALLTIME_FACTOR} times the runtime", line, nodes * run_s / 3600)
        elif run_s > walltime_s:
            findings.note("ran longer than its estimate", line, nodes * run_s / 3600)
        job = TraceJob(
            job_id, submit_s, run_s, walltime_s, nodes, nodes, nodes, "rigid", users[user], names.get(job_id, ""),
            wait_s if wait_s >= 0 else None, _STATUS.get(status, "unknown"), 0.0, "linear", 0, groups[group],
            queues[queue], partitions[partition], size, (), (), None, preceding if 0 <= preceding <= MAX_ID else -1,
            think_s if think_s > 0 else 0.0,
        )  # fmt: skip
        if job_id in commented:
            try:
                job = _with_comments(job, file, machine)
            except (ValueError, msgspec.ValidationError):
                findings.note("a comment about it is not understood", line, job.node_hours)
        yield job


def _beginning(file: _File, findings: Findings) -> float:
    """What is taken off submissions: some files, though the format says otherwise, give them since 1970."""
    start_s = file.start_unix_s
    if not start_s or not file.records or min(record[1] for record in file.records) < start_s:
        return 0.0
    lines = [record[-1] for record in file.records]
    findings.note_all("submitted in seconds since 1970: now since UnixStartTime", lines)
    return start_s


def _first_of_an_id(records: Iterable[_Fields], machine: _Machine, options: SwfOptions) -> dict[int, int]:
    """For ids of several records: the line of the one that stays."""
    several = {job for job, count in Counter(record[0] for record in records).items() if count > 1}
    if not several:
        return {}
    first: dict[int, _Record] = {}
    for record in map(_Record._make, records):
        if record.job in several and not _why_not(record, machine, options)[0]:
            first[record.job] = min(record, first.get(record.job, record))
    return {job: record.line for job, record in first.items()}


def _why_not(record: _Record, machine: _Machine, options: SwfOptions, begin_s: float = 0.0) -> tuple[str, str]:
    """Why a record is left out, and by which value; empty: it is not."""
    for name, value in (
        ("submit time", record.submit_s), ("wait time", record.wait_s), ("run time", record.run_s),
        ("requested time", record.requested_s), ("think time", record.think_s),
    ):  # fmt: skip
        if not -_LIMIT < value < _LIMIT:  # nor is NaN
            return _NOT_NUMBERS, f"{name} is {value}"
    for wanted, value, what in (
        (options.partitions, record.partition, "partition"),
        (options.queues, record.queue, "queue"),
        (options.statuses, record.status, "status"),
    ):
        if wanted and value not in wanted:
            return f"another {what} than asked for", f"{what} is {value}"
    sizes = (record.requested, record.allocated)
    first, second = sizes if options.size == "requested" else reversed(sizes)
    nodes = -(-(first if first > 0 else second) // machine.processors_per_node)
    for wrong, reason, example in (
        (record.job < 0, "no id", f"job number is {record.job}"),
        (record.job > MAX_ID, f"id beyond {MAX_ID}", f"job number is {str(record.job)[:40]}"),
        (record.submit_s < begin_s, "submission time negative or unknown", f"submit time is {record.submit_s:g}"),
        (record.run_s == 0, "runtime zero: it never ran", ""),
        (record.run_s < 0, "runtime negative or unknown", f"run time is {record.run_s:g}"),
        (nodes <= 0, "number of processors unknown", f"requested processors is {record.requested}"),
        (nodes > machine.nodes, f"larger than the machine ({machine.nodes} nodes)", f"{nodes} nodes"),
    ):
        if wrong:
            return reason, example
    return "", ""


def _with_comments(job: TraceJob, file: _File, machine: _Machine) -> TraceJob:
    """The job with what our writer says about it.

    Raises:
        ValueError: A comment is not as our writer writes it.
        ValidationError: Likewise, or it contradicts the record.
    """
    said: dict[str, object] = structs.asdict(job)
    for label, about in _ABOUT.items():
        if text := file.comments[label].get(job.job_id):
            words = [word.split("=") if "=" in word else word for word in text.split()]
            said[about] = text if about == "target_efficiency" else words
    if bounds := file.comments["Malleable"].get(job.job_id):
        said |= zip(_BOUNDS, bounds.split(maxsplit=len(_BOUNDS) - 1), strict=True)
        said["job_class"] = "malleable"
    found = msgspec.convert(said, TraceJob, strict=False)  # numbers are texts
    if found.max_nodes > machine.nodes:
        raise ValueError(bounds)
    return found


# Writing -------------------------------------------------------------------------------------------------------------
#
# What the format cannot say is in comments that the reader above understands.
# ``; Malleable: ID MIN MAX RHO STEPS SPEEDUP`` gives the bounds of a malleable job, ``; Overhead: ID ALPHA BETA`` what
# resizes cost it, ``; Allotments: ID S=NODES ...`` the sizes that it had, ``; User: NUMBER NAME`` and the like the
# names behind numbers. Other programs skip comments. A processor is a node: ``MaxProcs`` equals ``MaxNodes``.

SYNTHETIC: Final = "SYNTHETIC: drawn by a generator, not recorded on a machine"
_STATUS_NUMBERS: Final = {"completed": 1, "failed": 0, "cancelled": 5, "unknown": -1}
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
    yield f"; Computer: {one_line(workload.header.get('Computer', workload.name))}"
    if workload.synthetic:
        yield f"; Note: {SYNTHETIC}"
    if workload.source:
        yield f"; Conversion: malleable, from {one_line(workload.source)}"
    yield f"; MaxJobs: {len(workload)}"
    yield f"; MaxRecords: {len(workload)}"
    yield f"; UnixStartTime: {_plain(workload.start_unix_s or 0)}"
    yield f"; MaxNodes: {workload.nodes}"
    yield f"; MaxProcs: {workload.nodes}"
    numbers: dict[str, dict[str, int]] = {}
    for label, label_field in _LABELS:
        numbers[label_field] = _numbers_of({getattr(job, label_field) for job in workload.jobs})
        for name, number in numbers[label_field].items():
            if name != str(number):
                yield f"; {label}: {number} {one_line(name)}"
    for job in workload.jobs:
        if job.is_malleable:
            bounds = job.min_nodes, job.max_nodes, _plain(job.rho), job.steps, job.speedup
            yield f"; Malleable: {job.job_id} {' '.join(map(str, bounds))}"
        for label, about in _ABOUT.items():
            if values := getattr(job, about):
                yield f"; {label}: {job.job_id} {_written(values)}"
        if job.name:
            yield f"; Name: {job.job_id} {one_line(job.name)}"
        yield _swf_record(job, numbers)


def _written(value: Any, between: str = " ") -> str:
    """A number, a list of them, or of pairs."""
    return between.join(_written(each, "=") for each in value) if isinstance(value, tuple) else _plain(value)


def _swf_record(job: TraceJob, numbers: dict[str, dict[str, int]]) -> str:
    user, group, queue, partition = (
        numbers[label_field].get(getattr(job, label_field), -1) for _, label_field in _LABELS
    )
    wait = "-1" if job.wait_s is None else _plain(job.wait_s)
    return (
        f"{job.job_id} {_plain(job.submit_s)} {wait} {_plain(job.runtime_s)} {job.nodes} -1 -1 {job.nodes} "
        f"{_plain(job.walltime_s)} -1 {_STATUS_NUMBERS[job.status]} {user} {group} -1 {queue} {partition} "
        f"{job.preceding_job} {_plain(job.think_s) if job.preceding_job >= 0 or job.think_s else -1}"
    )


def _numbers_of(names: set[str]) -> dict[str, int]:
    """A number for every name: itself if all names are numbers, else by order; none for the empty name."""
    ordered = sorted(names - {""})
    if all(name.isascii() and name.isdigit() and len(name) < 10 and name == str(int(name)) for name in ordered):
        return {name: int(name) for name in ordered}
    return {name: number for number, name in enumerate(ordered, start=1)}


def _plain(value: float) -> str:
    """The shortest text that gives the same number again."""
    return str(int(value)) if value == int(value) else repr(float(value))
