"""Reads a workload of any known form, which is recognized by its content, not by its name."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from scheduler_bridge.workloads.findings import TraceError
from scheduler_bridge.workloads.record import Workload
from scheduler_bridge.workloads.source import Source
from scheduler_bridge.workloads.swf import SwfOptions, read_swf

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
            from scheduler_bridge.workloads.cleaning import Cleaning, read_clean_csv

            keep = swf.keep_cut_off if swf else False
            return read_clean_csv([source], Cleaning(nodes=nodes), keep_cut_off=keep)
        case ".toml":
            from scheduler_bridge.workloads.job_files import read_job_file

            return read_job_file(source, nodes=nodes)
        case ".json":
            return _read_json(source, nodes)
        case _:
            raise TraceError(
                f"{source}: unknown form", f"known: {FORMS}; it begins with {_beginning(source)!r}", "convert the file"
            )


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
    from scheduler_bridge.workloads.columns import find_map

    try:
        find_map(tuple(name.strip().strip('"') for name in line.split(",")), "")
    except TraceError:
        return False
    return True


def _beginning(source: Source) -> str:
    return source.head()[:40].decode("utf-8", "replace")


def _read_json(source: Source, nodes: int | None) -> Workload:
    """ElastiSim's file has ``jobs`` with application models, the scheduler's a policy and the names of nodes."""
    from scheduler_bridge.record import decode_record

    try:
        record = decode_record(source.read())
    except msgspec.DecodeError:
        from scheduler_bridge.workloads.elastisim import read_elastisim

        return read_elastisim(source, nodes=nodes)
    from scheduler_bridge.workloads.history import workload_of

    workload = workload_of(record, name=source.stem)
    return replace(workload, nodes=nodes) if nodes else workload
