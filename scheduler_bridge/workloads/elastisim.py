"""Reads the inputs of ElastiSim: jobs.json, its application models, and the speed of the nodes of its platform.

The formulas of the application models are evaluated for every number of nodes that a job may have, which gives its
runtime on each; the iterations of its phases are the points at which it can be resized. Only computation is modelled:
files with other tasks are refused rather than misread.
"""

from __future__ import annotations

import ast
import json
import math
import operator
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from scheduler_bridge.model import InvalidJobError
from scheduler_bridge.workloads.findings import Findings, TraceError
from scheduler_bridge.workloads.record import TraceJob, Workload, in_order
from scheduler_bridge.workloads.swf import MISSING_WALLTIME_FACTOR

_OPERATORS: Final[dict[type[ast.AST], Callable[..., float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


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
    jobs: Path | str,
    *,
    model: Path | str | None = None,
    platform: Path | str | None = None,
    nodes: int | None = None,
    flops_per_s: float | None = None,
) -> Workload:
    """Read jobs.json.

    Args:
        jobs: The file.
        model: The application model of jobs that name a file which is not there; None: ``application_model.json``
            beside the file.
        platform: SimGrid's platform; None: ``crossbar.xml`` beside the file, if there.
        nodes: The machine's nodes; None: as in the platform, else those of the largest job.
        flops_per_s: Speed of a node; None: as in the platform.

    Raises:
        TraceError: A file is not what it should be, or models more than computation.
        OSError: A file cannot be read.
    """
    path = Path(jobs)
    content = _json(path)
    if not isinstance(content, dict) or not isinstance(content.get("jobs"), list) or not content["jobs"]:
        raise TraceError(f"{path}: no jobs", "jobs.json has a list `jobs`", "give the jobs file of ElastiSim")
    machine = _platform(Path(platform) if platform else path.with_name("crossbar.xml"))
    nodes, speed = nodes or machine[0], flops_per_s or machine[1]
    if not speed:
        raise TraceError(f"{path}: the speed of a node is not known", "flops become seconds by it", "give --platform")
    read = []
    findings = Findings(records=len(content["jobs"]))
    models: dict[str, list[Any]] = {}
    for index, entry in enumerate(content["jobs"]):
        try:
            phases = models.setdefault(str(entry["application_model"]), [])
            if not phases:
                phases += _phases(_model_path(path, str(entry["application_model"]), model))
            read.append(_job(index, entry, phases, speed))
        except TraceError:
            raise
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError, InvalidJobError) as error:
            what = f"no {error}" if isinstance(error, KeyError) else str(error)
            findings.skip(f"broken: {what}"[:120], index)
    if not read:
        raise TraceError(
            f"{path}: no usable job", "; ".join(why for _, why, _ in findings.rows()), "see the format of ElastiSim"
        )
    nodes = nodes or max(job.max_nodes for job in read)
    return Workload(path.stem, nodes, in_order(read), source=path.name, findings=findings)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise TraceError(f"{path}: not JSON: {error}", "ElastiSim's inputs are JSON", "give its jobs file") from None


def _model_path(jobs: Path, named: str, given: Path | str | None) -> Path:
    for path in (jobs.parent / named, jobs.parent / Path(named).name):
        if path.is_file():
            return path
    return Path(given) if given else jobs.with_name("application_model.json")


def _phases(path: Path) -> list[Any]:
    phases = _json(path).get("phases", [])
    for phase in phases:
        for task in phase["tasks"]:
            if task["type"] != "cpu" or task.get("computation_pattern", "UNIFORM").upper() != "UNIFORM":
                raise TraceError(
                    f"{path}: a task of type {task['type']!r}", "only uniform computation is modelled", "remove it"
                )
    if not phases:
        raise TraceError(f"{path}: no phases", "an application model has some", "give --model")
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


def _job(index: int, entry: dict[str, Any], phases: list[Any], speed: float) -> TraceJob:
    arguments = {key: float(value) for key, value in entry.get("arguments", {}).items()}
    low = int(entry.get("num_nodes_min", entry.get("num_nodes", 0)))
    high = int(entry.get("num_nodes_max", entry.get("num_nodes", 0)))
    if not 1 <= low <= high <= 2**20:
        raise ValueError("nodes out of range")
    nodes = min(max(int(arguments.get("num_nodes_pref", entry.get("num_nodes", low))), low), high)
    malleable = entry["type"].upper() == "MALLEABLE" and low < high
    if not malleable:
        low = high = nodes
    seconds, steps = {}, 0
    for size in range(low, high + 1):
        values = {**arguments, "num_nodes": float(size)}
        seconds[size], steps = 0.0, 0
        for phase in phases:
            rounds = int(evaluate(phase.get("iterations", 1), values))
            flops = sum(evaluate(task["flops"], values) for task in phase["tasks"])
            seconds[size] += rounds * flops / speed
            steps += rounds
    walltime_s = float(entry.get("walltime") or MISSING_WALLTIME_FACTOR * max(seconds.values()))
    return TraceJob(
        job_id=int(arguments.get("id", index)),
        submit_s=float(entry["submit_time"]),
        runtime_s=seconds[nodes],
        walltime_s=walltime_s,
        nodes=nodes,
        min_nodes=low,
        max_nodes=high,
        job_class="malleable" if malleable else "rigid",
        speedup="table:" + ",".join(f"{size}={second!r}" for size, second in seconds.items()),
        steps=steps,
    )
