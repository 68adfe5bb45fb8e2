"""The tables at the end of a run, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from scheduler_bridge.record import UTILIZATION_DENOMINATOR, metrics, runtime_s, turnaround_s, wait_s
from scheduler_bridge.report import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler_bridge.record import JobRecord, RunRecord


def _table(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=0,  # The box has a space between columns; with more, a terminal of 80 would not do.
        pad_edge=False,
    )


def job_table(record: RunRecord) -> Table:
    """One row per job: accepted sizes, nodes over time, wait, runtime, turnaround, resizes, verified."""
    table = _table(f"{record.policy}: {words.summary(record)}")
    table.add_column("job", no_wrap=True)
    table.add_column("accepts")
    table.add_column("nodes", no_wrap=True)
    for head in ("wait\ns", "runtime\ns", "turnaround\ns", "grows", "shrinks"):
        table.add_column(head, justify="right", min_width=5)
    table.add_column("verified")
    for job in record.jobs:
        table.add_row(
            Text(f"{'↔' if job.malleable else ' '} {job.name}"),
            words.bounds(job),
            words.allotment(job),
            *(_seconds(value) for value in (wait_s(job), runtime_s(job), turnaround_s(job))),
            str(job.done("grow")),
            str(job.done("shrink")),
            _verdict(job),
        )
    if any(job.malleable for job in record.jobs):
        table.caption = "↔ malleable: may be resized; nodes: how many it held, over time"
    return table


def _seconds(value_s: float | None) -> str:
    return words.NOTHING if value_s is None else f"{value_s:.1f}"


def _verdict(job: JobRecord) -> Text:
    if job.state == "completed":
        style = {True: "green", False: "bold red", None: ""}[job.verified]
        return Text(words.verified(job), style=style)
    style = "" if job.state in ("waiting", "running") else "bold red"
    return Text(words.state(job), style=style)


def comparison_table(records: Sequence[RunRecord]) -> Table:
    """One row per policy, over all jobs and, where both kinds ran, per class."""
    table = _table("Batch")
    table.caption = f"busy: node-seconds held by jobs / {UTILIZATION_DENOMINATOR}; means over the ended jobs"
    table.add_column("policy", no_wrap=True)
    table.add_column("jobs", no_wrap=True)
    for head in ("makespan\ns", "busy", "wait\ns", "runtime\ns", "turnaround\ns", "grows", "shrinks"):
        table.add_column(head, justify="right", min_width=5)
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
