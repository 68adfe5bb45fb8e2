"""How the programs scale: rigid, on every size, beside the paper [figure 6]."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import Final

from scheduler_bridge.experiments.outcome import DataTable, Value
from scheduler_bridge.experiments.published_runs import Reference
from scheduler_bridge.experiments.real_runs.problems import NODE_S
from scheduler_bridge.record import JobRecord, RunRecord

_THEIRS: Final = {
    "Pi_8e10": ("Pi", "80000000000"),
    "Pi_6e11": ("Pi", "600000000000"),
    "Pi_1.2e12": ("Pi", "1200000000000"),
}


def configuration(job: JobRecord) -> str:
    """The configuration that a job runs."""
    return job.name.rpartition("-")[0]


def computed_s(records: Iterable[RunRecord]) -> dict[str, dict[int, float]]:
    """Median seconds of the computation of jobs that were never resized, by configuration and nodes."""
    found: dict[str, dict[int, list[float]]] = {}
    for record in records:
        for job in record.jobs:
            seconds = (job.result or {}).get("seconds")
            if seconds and job.verified and job.segments and not job.resizes:
                nodes = len(job.segments[0].nodes)
                found.setdefault(configuration(job), {}).setdefault(nodes, []).append(seconds)
    return {
        name: {nodes: statistics.median(times) for nodes, times in sorted(sizes.items())}
        for name, sizes in sorted(found.items(), key=lambda item: NODE_S.get(item[0], math.inf))
    }


def published_s(reference: Reference | None) -> dict[str, dict[int, float]]:
    """The paper's seconds, start included, not scaled, by configuration and nodes."""
    if reference is None:
        return {}
    names = {theirs: ours for ours, theirs in _THEIRS.items()}
    return {
        names.get(program, "_".join(program)): dict(sorted(sizes.items()))
        for program, sizes in reference.scaling.items()
    }


def scaling_table(record: RunRecord, paper: Mapping[str, Mapping[int, float]], time: float) -> DataTable:
    """Seconds and efficiency of each program on each size; the paper's seconds, scaled, beside.

    Args:
        record: The run of the rigid jobs.
        paper: Its seconds.
        time: Seconds here for a second of the paper.
    """
    whole = {(configuration(job), job.nodes): job for job in record.jobs}
    rows: list[tuple[Value, ...]] = []
    for name, sizes in computed_s([record]).items():
        ideal_s = NODE_S[name] * time
        for nodes, seconds in sizes.items():
            job = whole[name, nodes]
            runtime_s = (job.end_s or 0.0) - (job.start_s or 0.0)
            theirs = paper.get(name, {}).get(nodes)
            rows.append(
                (
                    name,
                    nodes,
                    seconds,
                    100 * ideal_s / nodes / seconds,
                    runtime_s,
                    100 * (runtime_s - seconds) / runtime_s,
                    None if theirs is None else theirs * time,
                )
            )
    columns = (
        "program", "nodes", "computing s", "efficiency %", "runtime s", "start and end, % of it", "paper, scaled s",
    )  # fmt: skip
    return DataTable("scaling", "Rigid strong scaling (fig. 6)", columns, tuple(rows))
