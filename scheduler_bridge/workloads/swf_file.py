"""The lines of a file in the Standard Workload Format, as they are: header, comments and records."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from scheduler_bridge.workloads.findings import Findings
from scheduler_bridge.workloads.source import read_lines

FIELDS: Final = 18
NAMED: Final = ("User", "Group", "Queue", "Partition", "Name")
"""Comments that give a number its name."""
OURS: Final = ("Malleable", "Overhead", "Evolving", "Allotments")
"""Comments of ``swf_writer`` about a job."""
_MAX_NUMBER: Final = 2.0**53
_MAX_DIGITS: Final = 16


class SwfRecord(NamedTuple):
    """The 18 fields of a line, as the format defines them; -1: not known."""

    job_number: int
    submit_s: float
    wait_s: float
    run_s: float
    allocated_processors: int
    cpu_s: float
    used_memory_kb: float
    requested_processors: int
    requested_s: float
    requested_memory_kb: float
    status: int
    user: int
    group: int
    executable: int
    queue: int
    partition: int
    preceding_job: int
    think_s: float


@dataclass(slots=True)
class SwfFile:
    """The records of a file as they are, and its header.

    Attributes:
        header: Labels of the header comments; those that come several times, joined by newlines.
        comments: Comments that say something about a number: by label, by number.
        records: (line number, record).
    """

    header: dict[str, str] = field(default_factory=dict)
    comments: dict[str, dict[int, str]] = field(default_factory=lambda: {label: {} for label in OURS + NAMED})
    records: list[tuple[int, SwfRecord]] = field(default_factory=list)


def read_records(path: Path, findings: Findings, *, keep_cut_off: bool = False) -> SwfFile:
    """Read header and records of a file without judging their values.

    Raises:
        TraceError: A compressed file is cut off, and ``keep_cut_off`` is not set.
        OSError: It cannot be read.
    """
    file = SwfFile()
    for number, line in read_lines(path, findings, keep_cut_off=keep_cut_off):
        if line is None:
            findings.records += 1
            findings.skip("not UTF-8", number)
        elif line.startswith(";"):
            _read_comment(line, file)
        elif line and not line.isspace():
            findings.records += 1
            words = line.split(maxsplit=FIELDS)
            record = _record(words[:FIELDS])
            if record is None:
                findings.skip(f"not {FIELDS} numbers", number)
                continue
            if len(words) > FIELDS:
                findings.note(f"more than {FIELDS} fields", number)
            file.records.append((number, record))
    return file


def _record(words: list[str]) -> SwfRecord | None:
    try:
        values = [float(word) for word in words]
    except ValueError:
        return None
    # a comparison with NaN is False, so that this refuses it, too
    if len(values) < FIELDS or not all(-_MAX_NUMBER < value < _MAX_NUMBER for value in values):
        return None
    return SwfRecord._make(int(value) if whole else value for value, whole in zip(values, _WHOLE, strict=True))


_WHOLE: Final = tuple("int" in str(kind) for kind in SwfRecord.__annotations__.values())
"""Which fields hold whole numbers."""


def _read_comment(line: str, file: SwfFile) -> None:
    label, colon, value = line.lstrip("; \t").partition(":")
    label, value = label.strip(), value.strip()
    if not colon or not label or " " in label:
        return
    if label in file.comments:
        number, _, rest = value.partition(" ")
        if number.isascii() and number.isdigit() and len(number) < _MAX_DIGITS:
            file.comments[label][int(number)] = rest.strip()
    elif label in file.header:
        file.header[label] += f"\n{value}"
    else:
        file.header[label] = value


def number(text: str) -> float | None:
    """The finite number at the beginning of a header's value; None if there is none."""
    try:
        value = float(text.split(maxsplit=1)[0])
    except (ValueError, IndexError):
        return None
    return value if math.isfinite(value) else None
