"""The tables of runs and of workloads, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from scheduler_bridge.printable import one_line
from scheduler_bridge.record import UTILIZATION_DENOMINATOR, metrics, runtime_s, turnaround_s, wait_s
from scheduler_bridge.report import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler_bridge.record import JobRecord, RunRecord
    from scheduler_bridge.workloads import Workload
    from scheduler_bridge.workloads.workload import Distribution, WorkloadStatistics


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
            Text(f"{'↔' if job.malleable else ' '} {one_line(job.name)}"),
            words.bounds(job),
            words.allocation(job),
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


# Tables of workloads, and of policies --------------------------------------------------------------------------------


def numbers_table(numbers: WorkloadStatistics) -> Table:
    """A workload in numbers."""
    table = _table(f"{numbers.name}: {numbers.jobs:,} jobs for {numbers.nodes:,} nodes")
    for head in ("", "mean", "least", "25 %", "median", "75 %", "90 %", "99 %", "largest"):
        table.add_column(head, justify="left" if not head else "right", no_wrap=True)
    for name, spread in (
        ("nodes", numbers.sizes),
        ("runtime, s", numbers.runtimes_s),
        ("walltime, s", numbers.walltimes_s),
    ):
        table.add_row(name, *_cells(spread))
    return table


def remarks(numbers: WorkloadStatistics) -> list[str]:
    """What does not fit into the table, in lines."""
    frequent = ", ".join(f"{size} ({100 * share:.1f} %)" for size, share in numbers.frequent_sizes.items())
    users = f"{numbers.users} users, " if numbers.users else ""
    malleable = f"{users}{numbers.malleable:,} malleable jobs"
    lines = [
        f"{words.seconds(numbers.span_s)} of submissions, {numbers.jobs_per_h:.2f} an hour; {malleable}",
        f"{numbers.node_hours:,.0f} node-hours, {100 * numbers.offered:.1f} % of the machine to the last submission",
        f"runtime by walltime {numbers.accuracy:.2f} on average",
        f"most frequent sizes: {frequent}",
    ]
    if numbers.mean_wait_s is not None:
        lines[2] += f"; recorded wait {numbers.mean_wait_s:,.0f} s on average"
    if numbers.source:
        lines.append(f"source: {numbers.source}")
    if numbers.synthetic:
        lines.append("SYNTHETIC: drawn, not recorded")
    return lines


def _cells(spread: Distribution) -> list[str]:
    return [_short(value) for value in (spread.mean, spread.least, *spread.percentiles.values(), spread.largest)]


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"


def findings_table(workload: Workload) -> Table:
    """What was wrong with the records, and the node-hours of those that were left out."""
    findings = workload.findings
    left = findings.records - findings.total_skipped
    lost = findings.lost_node_hours
    table = _table(f"records: {findings.records:,} read, {findings.total_skipped:,} left out, {left:,} jobs")
    for head in ("", "records", "share", "node-hours", "why", "first lines"):
        table.add_column(head, justify="right" if head in ("records", "share", "node-hours") else "left")
    for kind, reason, finding in findings.rows():
        table.add_row(
            "left out" if kind == "skipped" else "kept",
            f"{finding.count:,}",
            f"{100 * finding.count / max(1, findings.records):.2f} %",
            f"{finding.node_hours:,.0f}" if finding.node_hours else "",
            Text.assemble(reason, (f": {finding.example}" if finding.example else "", "dim")),
            ", ".join(map(str, finding.lines)),
        )
    if lost:
        table.caption = f"{lost:,.0f} node-hours lost: {100 * workload.lost_share:.3f} %"
    return table


def sources_table(*heads: str, settings: str, rows: Iterable[tuple[str, str, Mapping[str, Any], str]]) -> Table:
    """What can be chosen by name, and from where it is; ``rows``: names, summaries, settings and sources."""
    table = Table(*heads, box=None, pad_edge=False)
    for name, summary, chosen, source in rows:
        table.add_row(Text(name), Text(summary))
        if chosen:
            table.add_row("", Text(f"  {settings}: {' '.join(f'{key}={value}' for key, value in chosen.items())}"))
        table.add_row("", Text(f"  source: {source}", style="dim"))
    return table
