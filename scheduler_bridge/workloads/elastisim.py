"""Reads the inputs of ElastiSim: jobs.json, its application models, and the speed of the nodes of its platform.

The formulas of the application models are evaluated for every number of nodes that a job may have, which gives its
runtime on each; the iterations of its phases are the points at which it can be resized. Only computation is modelled:
files with other tasks are refused rather than misread.

Rules for jobs (counted in the workload's findings):

* left out: a job without a time, a type, a size or a runtime that make sense; of an unknown type; that needs more nodes
  than the machine has; with an id that an earlier job has (the one submitted first stays, wherever it stands).
* kept: a malleable job that may have more nodes than the machine has (up to all of them); ``ADAPTIVE`` as malleable,
  for what such a job asks for is not in the file; ``MOLDABLE`` and ``EVOLVING`` as rigid at the size that they prefer.
* Jobs without an id are numbered after those that have one, by submission.
"""

from __future__ import annotations

import ast
import json
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from scheduler_bridge.model import JobClass
from scheduler_bridge.workloads.source import Findings, Source, TraceError
from scheduler_bridge.workloads.swf import MISSING_WALLTIME_FACTOR
from scheduler_bridge.workloads.workload import TraceJob, Workload, in_order, unknown_nodes

_OPERATORS: Final[dict[type[ast.AST], Callable[..., float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


_MAX_NUMBER: Final = 2.0**53
_PLATFORM: Final = "crossbar.xml"
_MOST_NODES: Final = 2**20
_LEAST_S: Final = 1e-6
"""Runtimes below are none, and cannot be compared with others either."""

_KEPT_AS: Final[dict[str, tuple[JobClass, str]]] = {
    "RIGID": ("rigid", ""),
    "MALLEABLE": ("malleable", ""),
    "ADAPTIVE": ("malleable", "adaptive: kept as malleable"),
    "MOLDABLE": ("rigid", "moldable: kept as rigid at the size that it prefers"),
    "EVOLVING": ("rigid", "evolving: kept as rigid at the size that it prefers"),
}
"""By the type of a job: its class here, and what is said about it."""


def evaluate(formula: str | float, values: Mapping[str, float]) -> float:
    """The value of an arithmetic formula over named values.

    Raises:
        ValueError: It is no arithmetic, names something unknown, or has no finite value.
    """
    try:
        value = _value(ast.parse(str(formula), mode="eval").body, values)
    except (SyntaxError, ZeroDivisionError, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(f"{formula!r}: {error}") from None
    if isinstance(value, complex) or not math.isfinite(value):
        raise ValueError(f"{formula!r} is {value}")
    return float(value)


def _value(node: ast.expr, values: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=(int() | float()) as value):
            return float(value)
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, values), _value(right, values))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(operand, values))
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is not known")


def read_elastisim(
    jobs: Source | Path | str,
    *,
    nodes: int | None = None,
    flops_per_s: float | None = None,
) -> Workload:
    """Read jobs.json, with SimGrid's platform (``crossbar.xml``) beside it.

    Of jobs that name an application model that is not there, it is ``application_model.json`` beside the file.

    Args:
        jobs: The file.
        nodes: The machine's nodes; None: as in the platform.
        flops_per_s: Speed of a node; None: as in the platform.

    Raises:
        TraceError: A file is not what it should be, or models more than computation.
        OSError: A file cannot be read.
    """
    source = Source.of(jobs)
    path, content = source.path, _json(source)
    if not isinstance(content, dict) or not isinstance(content.get("jobs"), list) or not content["jobs"]:
        raise TraceError(f"{path}: no jobs", "jobs.json has a list `jobs`", "give the jobs file of ElastiSim")
    machine = _platform(path.with_name(_PLATFORM))
    nodes, speed = nodes or machine[0], flops_per_s or machine[1]
    if not speed:
        hint = f"put ElastiSim's platform beside it, as {_PLATFORM}"
        raise TraceError(f"{path}: the speed of a node is not known", "flops become seconds by it", hint)
    read: list[_Read] = []
    findings = Findings(records=len(content["jobs"]))
    models: dict[str, list[Any]] = {}
    for index, entry in enumerate(content["jobs"]):
        try:
            phases = models.setdefault(str(entry["application_model"]), [])
            if not phases:
                phases += _phases(_model_path(path, str(entry["application_model"])))
            read.append(_job(index, entry, phases, speed, nodes or _MOST_NODES))
        except TraceError:
            raise
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            what = f"no {error}" if isinstance(error, KeyError) else str(error)
            findings.skip(f"broken: {what}"[:120], index)
    kept = in_order(_kept(read, nodes, findings))
    if not kept:
        raise TraceError(
            f"{path}: no usable job", "; ".join(why for _, why, _ in findings.rows()), "see the format of ElastiSim"
        )
    if not nodes:
        raise unknown_nodes(str(path), kept, "there is no platform beside it")
    return Workload(source.stem, nodes, kept, source=source.file_name, findings=findings)


@dataclass(frozen=True, slots=True)
class _Read:
    """A job as it stands in the file: where, whether it has an id, and what is odd about it."""

    index: int
    job: TraceJob
    has_id: bool
    odd: tuple[str, ...]


def _kept(read: list[_Read], nodes: int, findings: Findings) -> Iterator[TraceJob]:
    """The jobs of which there is one, and which the machine can hold; by content, whatever the order of the file."""
    next_id = 1 + max((one.job.job_id for one in read if one.has_id), default=-1)
    seen: set[int] = set()
    for one in sorted(read, key=lambda one: (one.job.submit_s, repr(structs.replace(one.job, job_id=0)))):
        job = one.job
        if nodes and job.min_nodes > nodes:
            findings.skip(f"larger than the machine ({nodes} nodes)", one.index, job.node_hours)
            continue
        if not one.has_id:
            job = structs.replace(job, job_id=next_id)
            next_id += 1
        elif job.job_id in seen:
            findings.skip("an id that an earlier record has", one.index, job.node_hours)
            continue
        seen.add(job.job_id)
        for what in one.odd:
            findings.note(what, one.index, job.node_hours)
        yield job


def _json(path: Source | Path) -> Any:
    try:
        return json.loads(Source.of(path).read().decode())
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path}: not JSON: {error}", "ElastiSim's inputs are JSON", "give its jobs file") from None


def _model_path(jobs: Path, named: str) -> Path:
    for path in (jobs.parent / named, jobs.parent / Path(named).name):
        if path.is_file():
            return path
    return jobs.with_name("application_model.json")


def _phases(path: Path) -> list[Any]:
    phases = _json(path).get("phases", [])
    for phase in phases:
        for task in phase["tasks"]:
            if task["type"] != "cpu" or task.get("computation_pattern", "UNIFORM").upper() != "UNIFORM":
                raise TraceError(
                    f"{path}: a task of type {task['type']!r}", "only uniform computation is modelled", "remove it"
                )
    if not phases:
        raise TraceError(f"{path}: no phases", "an application model has some", "see the format of ElastiSim")
    return list(phases)


def _platform(path: Path) -> tuple[int, float]:
    """Nodes and flops per second of a SimGrid cluster; zeros where they are not known."""
    if not path.is_file():
        return 0, 0.0
    text = path.read_text(encoding="utf-8", errors="replace")
    cluster = re.search(r'<cluster\b[^>]*?radical="(\d+)-(\d+)"[^>]*?speed="([\d.eE+]+)([kMGTPE]?)f"', text, re.DOTALL)
    if cluster is None:
        return 0, 0.0
    first, last, speed, unit = cluster.groups()
    return int(last) - int(first) + 1, float(speed) * 1000.0 ** " kMGTPE".index(unit or " ")


def _job(index: int, entry: dict[str, Any], phases: list[Any], speed: float, machine: int) -> _Read:
    """A job on at most ``machine`` nodes; one that needs more is read as it is."""
    arguments = {key: float(value) for key, value in entry.get("arguments", {}).items()}
    low = int(entry.get("num_nodes_min", entry.get("num_nodes", 0)))
    high = int(entry.get("num_nodes_max", entry.get("num_nodes", 0)))
    if not 1 <= low <= high <= _MOST_NODES:
        raise ValueError("nodes out of range")
    kind = str(entry["type"]).upper()
    if kind not in _KEPT_AS:
        raise ValueError(f"unknown type {kind}")
    job_class, odd = _KEPT_AS[kind]
    nodes = min(max(int(arguments.get("num_nodes_pref", entry.get("num_nodes", low))), low), high)
    notes = [odd] if odd else []
    if job_class == "rigid" or low == high:
        job_class, low, high = "rigid", nodes, nodes
    elif low <= machine < high:
        high, nodes = machine, min(nodes, machine)
        notes.append("most nodes beyond the machine: up to all of it")
    seconds, steps = _runtimes(range(low, high + 1), arguments, phases, speed)
    walltime_s = float(entry.get("walltime") or MISSING_WALLTIME_FACTOR * max(seconds.values()))
    submit_s = float(entry["submit_time"])
    if not (0 <= submit_s < _MAX_NUMBER and 0 < walltime_s < _MAX_NUMBER):
        raise ValueError("times out of range")
    if not float(arguments.get("id", 0)).is_integer():
        raise ValueError("id is no whole number")
    job = TraceJob(
        job_id=int(entry.get("arguments", {}).get("id", 0)),
        submit_s=submit_s,
        runtime_s=seconds[nodes],
        walltime_s=walltime_s,
        nodes=nodes,
        min_nodes=low,
        max_nodes=high,
        job_class=job_class,
        speedup="table:" + ",".join(f"{size}={second!r}" for size, second in seconds.items()),
        steps=steps,
    )
    return _Read(index, job, "id" in arguments, tuple(notes))


def _runtimes(
    sizes: range, arguments: dict[str, float], phases: list[Any], speed: float
) -> tuple[dict[int, float], int]:
    """Seconds by number of nodes, and how many parts the work has."""
    seconds, steps = dict.fromkeys(sizes, 0.0), 0
    for size in sizes:
        values, steps = {**arguments, "num_nodes": float(size)}, 0
        for phase in phases:
            rounds = int(evaluate(phase.get("iterations", 1), values))
            flops = sum(evaluate(task["flops"], values) for task in phase["tasks"])
            seconds[size] += rounds * flops / speed
            steps += rounds
        if not _LEAST_S <= seconds[size] < _MAX_NUMBER:
            raise ValueError("runtime out of range")
    return seconds, steps
