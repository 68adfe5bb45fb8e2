"""Reads a workload of any known form, told by the file's name."""

from __future__ import annotations

import codecs
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from scheduler_bridge.record import decode_record
from scheduler_bridge.workloads.cleaning import Cleaning, read_clean_csv
from scheduler_bridge.workloads.elastisim import read_elastisim
from scheduler_bridge.workloads.findings import TraceError
from scheduler_bridge.workloads.history import workload_of
from scheduler_bridge.workloads.job_files import read_job_file
from scheduler_bridge.workloads.record import Workload
from scheduler_bridge.workloads.swf import SwfOptions, read_swf

FORMS: Final = (
    "SWF (.swf, .swf.gz), accounting files (.csv, .csv.gz), ElastiSim or a history (.json), job files (.toml)"
)


def load(path: Path | str, *, nodes: int | None = None, swf: SwfOptions | None = None) -> Workload:
    """Read a workload.

    Args:
        path: ``.swf``, ``.csv`` (both also ``.gz``), ``.json`` (ElastiSim's jobs or the scheduler's history) or
            ``.toml``.
        nodes: The machine's nodes; None: as the file says.
        swf: How to read a file of the Standard Workload Format; it may name the nodes, too.

    Raises:
        TraceError: The form is not known, or the file is refused.
        OSError: It cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        raise TraceError(f"{path}: this is a folder", f"a workload is a file: {FORMS}", "name a file in it")
    match Path(path.name.removesuffix(".gz")).suffix.lower():
        case ".swf":
            options = swf or SwfOptions()
            return read_swf(path, replace(options, nodes=nodes) if nodes else options)
        case ".csv":
            keep = swf.keep_cut_off if swf else False
            return read_clean_csv([path], Cleaning(nodes=nodes), keep_cut_off=keep)
        case ".toml":
            return read_job_file(path, nodes=nodes)
        case ".json":
            return _read_json(path, nodes)
        case suffix:
            raise TraceError(f"{path}: unknown form {suffix!r}", f"known: {FORMS}", "rename or convert the file")


def _read_json(path: Path, nodes: int | None) -> Workload:
    """ElastiSim's file has ``jobs`` with application models, the scheduler's a policy and the names of nodes."""
    data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    try:
        record = decode_record(data)
    except msgspec.DecodeError:
        return read_elastisim(path, nodes=nodes)
    workload = workload_of(record, name=path.stem)
    return replace(workload, nodes=nodes) if nodes else workload
