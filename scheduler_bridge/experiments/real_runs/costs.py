"""What starts and resizes took, split into the runtime's part and the balancer's [figure 7]."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler_bridge.core.settings import settings_for
from scheduler_bridge.experiments.outcome import DataTable, Value
from scheduler_bridge.record import JobRecord, ResizeRecord, RunRecord, metrics

PAPER: Final[Mapping[str, tuple[float, float]]] = {"start": (4.27, 1.77), "grow": (6.32, 0.46), "shrink": (14.09, 1.10)}
"""The paper's seconds of runtime and balancer, not scaled. They are its data file's, for its text and figure have grow
and shrink the other way round; the balancer's part of a start contains the connection to the scheduler."""
HONEST: Final = ("resize, % of the mean runtime", "pass interval, % of the batch")
"""How much of what is not scaled weighs, in every table."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What something took. Times in seconds.

    Attributes:
        what: ``start``, ``end``, ``grow`` or ``shrink``.
        nodes: Nodes that came or went.
        total_s: All of it.
        balancer_s: The balancer's part.
    """

    what: str
    nodes: int
    total_s: float
    balancer_s: float = 0.0

    @property
    def runtime_s(self) -> float:
        """The runtime's part."""
        return max(0.0, self.total_s - self.balancer_s)


def decided_s(record: RunRecord) -> dict[int, float]:
    """When it was decided to start each job that has started."""
    starts = {job.job_id: job.start_s for job in record.jobs if job.start_s is not None}
    found = dict(starts)
    for taken in record.reserved:
        if taken.job_id is not None and taken.to_s == starts.get(taken.job_id):
            found[taken.job_id] = min(found[taken.job_id], taken.from_s)
    return found


def took_s(resize: ResizeRecord) -> float | None:
    """From the order to its end, as the scheduler saw it; None: it was not carried out."""
    return resize.done_s - resize.ordered_s if resize.outcome == "done" and resize.done_s is not None else None


def costs(records: Iterable[RunRecord]) -> list[Cost]:
    """Everything that started, ended or was resized."""
    found: list[Cost] = []
    for record in records:
        decided = decided_s(record)
        for job in record.jobs:
            found += _life(job, decided.get(job.job_id))
            for resize in job.resizes:
                if (seconds := took_s(resize)) is not None:
                    own_s = resize.phases.get("pre", 0.0) + resize.phases.get("post", 0.0)
                    found.append(Cost(resize.kind, resize.count, seconds, own_s))
    return found


def _life(job: JobRecord, decided: float | None) -> list[Cost]:
    """A job's start, until it computes, and its end, from when it does no more."""
    result = job.result or {}
    startup = result.get("startup")
    if not startup or decided is None or job.start_s is None or job.end_s is None or "seconds" not in result:
        return []
    own_s = startup["balancer_s"]
    start_s = job.start_s - decided + startup["runtime_s"] + own_s
    end_s = job.end_s - decided - start_s - result["seconds"]
    return [
        Cost("start", len(job.segments[0].nodes), start_s, own_s),
        Cost("end", len(job.segments[-1].nodes), max(0.0, end_s)),
    ]


def costs_table(records: Sequence[RunRecord]) -> DataTable:
    """Starts, ends and resizes by number of nodes, and the paper's means of all."""
    grouped: dict[tuple[str, int | str], list[Cost]] = {}
    found = costs(records)
    for what in ("start", "end", "grow", "shrink"):
        for cost in found:
            if cost.what == what:
                grouped.setdefault((what, "all"), []).append(cost)
        sizes = sorted({cost.nodes for cost in found if cost.what == what})
        for nodes in sizes:
            grouped[what, nodes] = [cost for cost in found if (cost.what, cost.nodes) == (what, nodes)]
    weights = honest(records)
    rows: list[tuple[Value, ...]] = []
    for (what, size), those in grouped.items():
        parts = [statistics.fmean(getattr(cost, name) for cost in those) for name in _PARTS]
        paper = PAPER.get(what) if size == "all" else None
        theirs: tuple[Value, ...] = (None, None, None) if paper is None else (sum(paper), *paper)
        rows.append((what, size, len(those), *parts, max(cost.total_s for cost in those), *theirs, *weights))
    columns = ("what", "nodes", "times", "mean s", "runtime s", "balancer s", "longest s")
    paper_columns = ("paper, not scaled s", "its runtime s", "its balancer s")
    return DataTable(
        "costs", "What starts, ends and resizes took (fig. 7)", (*columns, *paper_columns, *HONEST), tuple(rows)
    )


_PARTS: Final = ("total_s", "runtime_s", "balancer_s")


def honest(records: Iterable[RunRecord]) -> tuple[float | None, float]:
    """How much weighs what is not scaled: a resize beside the mean runtime, the pass interval beside a batch, percent.

    None where nothing was resized. A policy that decides at events only has the pass interval 0.
    """
    resizes, runtimes, passes = [], [], []
    for record in records:
        found = metrics(record)
        runtimes.append(found.mean_runtime_s or 0.0)
        interval_s = settings_for(record.policy).pass_interval_s or 0.0
        passes.append(interval_s / found.makespan_s if found.makespan_s else 0.0)
        resizes += [seconds for job in record.jobs for resize in job.resizes if (seconds := took_s(resize)) is not None]
    if not runtimes:
        return None, 0.0
    mean_s = statistics.fmean(runtimes)
    weight = 100 * statistics.fmean(resizes) / mean_s if resizes and mean_s else None
    return weight, 100 * statistics.fmean(passes)
