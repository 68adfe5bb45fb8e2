"""The tables at the end of a run, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from scheduler_bridge.record import UTILIZATION_DENOMINATOR, metrics, runtime_s, turnaround_s, wait_s
from scheduler_bridge.report import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler_bridge.record import JobRecord, RunRecord


def job_table(record: RunRecord) -> Table:
    """One row per job: class, nodes over time, wait, runtime, turnaround, resizes, verified."""
    table = Table(title=f"{record.policy}: {words.summary(record)}", title_justify="left", title_style="bold")
    for head in ("job", "class"):
        table.add_column(head, no_wrap=True)
    for head in ("accepts", "nodes over time", "wait s", "runtime s", "turnaround s", "grows", "shrinks"):
        table.add_column(head, justify="right")
    table.add_column("verified")
    for job in record.jobs:
        table.add_row(
            Text(f"{job.job_id} {job.name}"),
            job.job_class,
            words.bounds(job),
            words.allotment(job),
            *(_seconds(value) for value in (wait_s(job), runtime_s(job), turnaround_s(job))),
            str(job.done("grow")),
            str(job.done("shrink")),
            _verdict(job),
        )
    return table


def _seconds(value_s: float | None) -> str:
    return words.NOTHING if value_s is None else f"{value_s:.1f}"


def _verdict(job: JobRecord) -> Text:
    if job.state == "completed":
        style = {True: "green", False: "bold red", None: ""}[job.verified]
        return Text(words.verified(job), style=style)
    return Text(f"{job.state}: {job.reason}" if job.reason else job.state, style="bold red")


def comparison_table(records: Sequence[RunRecord]) -> Table:
    """One row per policy, over all jobs and, where both kinds ran, per class."""
    table = Table(title="Batch", title_justify="left", title_style="bold", caption_justify="left")
    table.caption = f"utilization: node-seconds held by jobs / {UTILIZATION_DENOMINATOR}"
    table.add_column("policy")
    table.add_column("jobs")
    for head in ("makespan s", "utilization", "mean wait s", "mean runtime s", "mean turnaround s", "grows", "shrinks"):
        table.add_column(head, justify="right")
    for record in records:
        classes = sorted({job.job_class for job in record.jobs})
        for job_class in (None, *classes) if len(classes) > 1 else (None,):
            total = metrics(record, job_class)
            table.add_row(
                record.policy if job_class is None else "",
                f"{total.jobs} {'all' if job_class is None else job_class}",
                f"{total.makespan_s:.1f}" if job_class is None else "",
                words.percent(total.utilization),
                *(_seconds(mean) for mean in (total.mean_wait_s, total.mean_runtime_s, total.mean_turnaround_s)),
                str(total.grows),
                str(total.shrinks),
                style="" if job_class is None else "dim",
            )
    return table
