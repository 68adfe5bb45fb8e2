"""Reads the project's own job files (TOML), as ``malleable submit`` takes them, with what a simulation needs besides.

A file is one job, or a workload with ``nodes`` of the machine and a table ``[[job]]`` for every job. Keys: those of a
job file (``name``, ``class``, ``nodes``, ``min_nodes``, ``max_nodes``, ``walltime_s``, ``rho``, ``user``; the others
are not needed and not read), and ``submit_s`` (0), ``runtime_s`` on ``nodes`` nodes (the walltime), ``speedup``
(linear), ``steps`` (0), ``wishes`` (none: a list of ``[share of the work, nodes]``), ``target_efficiency`` (none: that
of a job that sizes itself), ``overhead`` (none: alpha and beta of a resize), ``count`` (1: number of equal jobs) and
``every_s`` (0: seconds between their submissions).
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import structs

from scheduler_bridge.model.job import JOB_FILE_KEYS, LARGEST
from scheduler_bridge.workloads.source import Findings, Source, TraceError
from scheduler_bridge.workloads.workload import TraceJob, Workload, dependencies, in_order, unknown_nodes

_AFTER: Final = ("after_ok", "after_any", "think_s")
_SIMULATED: Final = (
    "think_s", "submit_s", "runtime_s", "speedup", "steps", "wishes", "target_efficiency", "overhead", "count",
    "every_s",
)  # fmt: skip
_OF_A_JOB: Final = (*JOB_FILE_KEYS, *_SIMULATED)
_OF_THE_FILE: Final = ("nodes", "name", "job")
_HINT: Final = "see the reference of workloads for the keys of a job file"
_MAX_COUNT: Final = 1_000_000
_DEFAULT_WALLTIME_S: Final = 3600.0
_Number = TypeVar("_Number", bound=float)


def read_job_file(path: Source | Path | str, *, nodes: int | None = None) -> Workload:
    """Read a TOML file.

    Args:
        path: The file.
        nodes: The machine's nodes; None: as in the file; for a file that is one job, else those of that job.

    Raises:
        TraceError: It is not TOML, or has no job, an unknown key or a job that is wrong: unlike in recorded traces,
            nothing is skipped, since a person wrote it.
        OSError: It cannot be read.
    """
    path = Source.of(path)
    try:
        content = tomllib.loads(path.read().decode())
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path}: not TOML: {error}", "job files are TOML", _HINT) from None
    entries = content.get("job", [content] if content else [])
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise TraceError(f"{path}: no jobs", "a workload has tables [[job]]", _HINT)
    if "job" in content:
        _check_keys(content, _OF_THE_FILE, f"{path}")
    elif name := next((key for key in content if key not in _OF_A_JOB and _are_tables(content[key])), ""):
        raise TraceError(f"{path}: unknown key {name!r}", "the jobs of a workload are given as [[job]]", _HINT)
    jobs: list[TraceJob] = []
    for index, entry in enumerate(entries, start=1):
        _check_keys(entry, _OF_A_JOB, f"{path}: job {index}")
        try:
            jobs += _jobs(entry, first_id=len(jobs), default_name=path.stem)
        except (OverflowError, TypeError, ValueError) as error:
            raise TraceError(f"{path}: job {index}: {error}", "a job needs sensible numbers", _HINT) from None
    if "job" in content:
        jobs = _linked(jobs, entries, path)
    largest = max(job.max_nodes for job in jobs)
    machine = nodes or (content.get("nodes") if "job" in content else largest)
    if machine is None and len(jobs) > 1:
        raise unknown_nodes(str(path), jobs, "the file has no key `nodes`")
    machine = machine or largest
    if type(machine) is not int:
        raise TraceError(f"{path}: nodes is {machine!r}", "it is a whole number", _HINT)
    if (needed := max(job.nodes for job in jobs)) > machine:
        raise TraceError(f"{path}: a job needs {needed} nodes of {machine}", "it could not start", "give more nodes")
    return Workload(
        name=str(content.get("name", path.stem)),
        nodes=machine,
        jobs=in_order(jobs),
        source=path.file_name,
        findings=Findings(records=len(jobs)),
    )


def _are_tables(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(entry, dict) for entry in value))


def _check_keys(values: dict[str, Any], known: Collection[str], where: str) -> None:
    if unknown := [key for key in values if key not in known]:
        raise TraceError(f"{where}: unknown key {unknown[0]!r}", f"there may be {', '.join(known)}", _HINT)


def _jobs(entry: dict[str, Any], first_id: int, default_name: str) -> Iterator[TraceJob]:
    count = _number(entry, "count", 1)
    if not 1 <= count <= _MAX_COUNT:
        raise ValueError(f"count is {count}, must be from 1 to {_MAX_COUNT:,}")
    low, high = _number(entry, "min_nodes", 0), _number(entry, "max_nodes", 0)
    malleable = entry.get("class", "malleable" if low or high else "rigid")
    if malleable not in ("rigid", "malleable"):
        raise ValueError(f"class is {malleable!r}, must be rigid or malleable")
    nodes = _number(entry, "nodes", low or 1)
    walltime_s = _number(entry, "walltime_s", _DEFAULT_WALLTIME_S)
    first = TraceJob(
        job_id=first_id,
        submit_s=_number(entry, "submit_s", 0.0),
        runtime_s=_number(entry, "runtime_s", walltime_s),
        walltime_s=walltime_s,
        nodes=nodes,
        min_nodes=low,
        max_nodes=high,
        job_class=malleable,
        user=str(entry.get("user", "")),
        name=str(entry.get("name", default_name)),
        rho=_number(entry, "rho", 0.0),
        speedup=str(entry.get("speedup", "linear")),
        steps=_number(entry, "steps", 0),
        wishes=tuple(_pairs("wishes", entry.get("wishes", ()), 0)),
        target_efficiency=_number(entry, "target_efficiency", 0.0),
        overhead=next(_pairs("overhead", [entry["overhead"]], 0.0)) if "overhead" in entry else None,
        think_s=_number(entry, "think_s", 0.0),
    )
    every_s = _number(entry, "every_s", 0.0)
    for index in range(count):
        yield structs.replace(first, job_id=first_id + index, submit_s=first.submit_s + index * every_s)


def _number(entry: dict[str, Any], key: str, default: _Number) -> _Number:
    value, kind = entry.get(key, default), type(default)
    if type(value) not in (int, float) or not abs(value) <= LARGEST or kind(value) != value:
        what = "whole number" if kind is int else "number"
        raise ValueError(f"{key} is {value!r}, must be a {what} of at most {LARGEST:g}")
    return kind(value)


def _pairs(key: str, values: object, default: _Number) -> Iterator[tuple[float, _Number]]:
    if not isinstance(values, list | tuple):
        raise TypeError(f"{key} is {values!r}, must be a list")
    for value in values:
        if not isinstance(value, list) or len(value) != 2:
            raise TypeError(f"{key} is {value!r}, must be two numbers")
        yield _number({key: value[0]}, key, 0.0), _number({key: value[1]}, key, default)


def _linked(jobs: list[TraceJob], entries: list[dict[str, Any]], path: object) -> list[TraceJob]:
    """The jobs with those that they come after, by their numbers in the file, from 0, or by their names.

    Raises:
        TraceError: A job comes after one that there is not, after itself, or in a circle.
    """
    if not any(key in entry for entry in entries for key in _AFTER):
        return jobs
    named: dict[str, list[int]] = {}
    for job in jobs:
        named.setdefault(job.name, []).append(job.job_id)
    linked: list[TraceJob] = []
    for index, entry in enumerate(entries, start=1):
        found: dict[str, tuple[int, ...]] = {}
        for key in ("after_ok", "after_any"):
            ids: list[int] = []
            others = entry.get(key, [])
            if not isinstance(others, list):
                raise TraceError(f"{path}: job {index}: {key} is {others!r}", "it is a list of jobs", _HINT)
            for other in others:
                if isinstance(other, str) and other in named:
                    ids += named[other]
                elif type(other) is int and 0 <= other < len(jobs):  # no bool
                    ids.append(other)
                else:
                    raise TraceError(
                        f"{path}: job {index}: {key}: there is no job {other!r}",
                        f"jobs are named, or numbered from 0 to {len(jobs) - 1}",
                        _HINT,
                    )
            found[key] = tuple(ids)
        for job in jobs[len(linked) : len(linked) + int(entry.get("count", 1))]:
            if job.job_id in (*found["after_ok"], *found["after_any"]):
                raise TraceError(f"{path}: job {index} comes after itself", "it would never start", _HINT)
            linked.append(structs.replace(job, **found))
    if dependencies(linked).dropped:
        raise TraceError(f"{path}: jobs come after each other in a circle", "none of them would ever start", _HINT)
    return linked
