"""How a simulation is shown: progress, table, and the reasons of decisions."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

import typer

from scheduler_bridge.cli.common import print_figures, print_rich
from scheduler_bridge.core import Claim, Explanation, JobState
from scheduler_bridge.model import wording
from scheduler_bridge.report import words

if TYPE_CHECKING:
    from rich.table import Table

    from scheduler_bridge.sim import Means, Measures, Replay, Spread
    from scheduler_bridge.workloads import Finding, Workload

Told: TypeAlias = Callable[[float, int], None]
"""Is told when it is in the simulation, in seconds, and how many jobs are over."""

_MEANS: Final = (
    ("jobs", "jobs", "{:,}"),
    ("killed", "killed", "{:,}"),
    ("mean wait, s", "mean_wait_s", "{:,.1f}"),
    ("mean runtime, s", "mean_runtime_s", "{:,.1f}"),
    ("mean turnaround, s", "mean_turnaround_s", "{:,.1f}"),
    ("mean slowdown", "mean_slowdown", "{:,.2f}"),
    ("slowdown of means", "slowdown_of_means", "{:,.2f}"),
    ("mean bounded slowdown", "mean_bounded_slowdown", "{:,.2f}"),
    ("grows", "grows", "{:,}"),
    ("shrinks", "shrinks", "{:,}"),
)
"""Rows of the table: label, field of ``Means``, form."""
_QUARTILES: Final = (("wait, s, quartiles", "wait_s"), ("turnaround, s, quartiles", "turnaround_s"))
_MOST_REASONS: Final = 3
"""For which records were left out or kept, in one line."""
_QUIET_S: Final = 10.0
"""Where nobody watches a bar, a line says this often how far it is."""


@contextmanager
def progress(jobs: int, what: str = "simulating") -> Iterator[Told]:
    """Show on standard error how many of the jobs are over: a bar on a terminal, a line now and then elsewhere."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = (what, BarColumn(), MofNCompleteColumn(), "jobs", TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=jobs)
            yield lambda _, over: bar.update(task, completed=over)
        return
    said = [time.monotonic()]

    def tell(now_s: float, over: int) -> None:
        if time.monotonic() - said[0] >= _QUIET_S:
            said[0] = time.monotonic()
            typer.echo(f"{over} of {jobs} jobs are over, day {now_s / 86400:.1f} of the workload", err=True)

    yield tell


def metrics(measures: Measures) -> dict[str, float | int | None]:
    """The figures by the names of the contract."""
    every = measures.every
    return {
        "mean_wait_s": every.mean_wait_s,
        "mean_runtime_s": every.mean_runtime_s,
        "mean_turnaround_s": every.mean_turnaround_s,
        "mean_slowdown": every.mean_slowdown,
        "mean_bounded_slowdown": every.mean_bounded_slowdown,
        "utilization": measures.utilization,
        "makespan_s": measures.makespan_s,
        "grows": every.grows,
        "shrinks": every.shrinks,
    }


def show(jobs: Workload, done: Replay, policy: str, nodes: int) -> None:
    """Print the figures for people, all jobs beside the two classes."""
    from scheduler_bridge.sim import spreads

    measures = done.measures
    typer.echo(f"{jobs.label}: {policy} on {words.plural(nodes, 'node')}")
    if line := _findings_line(jobs):
        typer.echo(line)
    spread = spreads(done.result.records.values(), measures.window)
    columns: list[tuple[str, Means, Spread]] = [("ALL", measures.every, spread.every)]
    if measures.rigid.jobs and measures.malleable.jobs:
        columns += [
            ("RIGID", measures.rigid, spread.rigid),
            ("MALLEABLE", measures.malleable, spread.malleable),
        ]
    rows = [["", *(name for name, _, _ in columns)]]
    for label, field, form in _MEANS:
        values = [getattr(means, field) for _, means, _ in columns]
        rows.append([label, *("-" if value is None else form.format(value) for value in values)])
    for label, field in _QUARTILES:
        parts = [getattr(each, field) for _, _, each in columns]
        rows.append([label, *("-" if part is None else " / ".join(map("{:,.0f}".format, part)) for part in parts)])
    print_figures(rows)
    for line in _lines(measures, done):
        typer.echo(line)


def _findings_line(workload: Workload) -> str:
    """What the reader left out and kept though it is odd, in one line; empty where there was nothing to find."""
    findings = workload.findings
    told = []
    if findings.skipped:
        lost = f", {100 * workload.lost_share:.1f} % of the node-hours" if findings.lost_node_hours else ""
        told.append(f"{findings.total_skipped:,} left out{lost} ({_reasons(findings.skipped)})")
    if findings.noted:
        told.append(f"kept: {_reasons(findings.noted)}")
    return "; ".join([f"records: {findings.records:,} read", *told]) if told else ""


def _reasons(found: Mapping[str, Finding]) -> str:
    """The most frequent reasons with their numbers."""
    ordered = sorted(found.items(), key=lambda item: (-item[1].count, item[0]))
    shown = [f"{finding.count:,} {reason}" for reason, finding in ordered[:_MOST_REASONS]]
    return ", ".join([*shown, "others"] if len(ordered) > _MOST_REASONS else shown)


def fault_lines(measures: Measures) -> Iterator[str]:
    """What failures and checkpoints cost; nothing where there were none."""
    if (faults := measures.faults) is None:
        return
    yield (
        f"of the utilization {measures.useful:.1%} useful, {measures.lost:.1%} lost to failures, "
        f"{measures.overhead:.1%} spent on checkpoints and restarts"
    )
    yield (
        f"{words.plural(faults.node_failures, 'node failure')}: {faults.job_failures:,} times a job lost a node, "
        f"{faults.restarts:,} times one was run again"
    )
    yield (
        f"{faults.lost_node_s / 3600:,.1f} node-hours lost, {faults.checkpoint_node_s / 3600:,.1f} for "
        f"{words.plural(faults.checkpoints, 'checkpoint')}, {faults.restart_node_s / 3600:,.1f} for restarts"
    )
    if faults.lost_jobs:
        yield (
            f"WARNING: lost for good: {words.plural(faults.lost_jobs, 'job')}, with {faults.lost_jobs_share:.1%} of "
            "the node-hours asked for; the means are without them, and look better for it"
        )


def _lines(measures: Measures, done: Replay) -> Iterator[str]:
    window = measures.window
    yield (
        f"utilization {measures.utilization:.1%} (and {measures.reserved:.1%} held without use) of nodes x "
        f"{words.seconds(window.to_s - window.from_s)}"
        + ("" if window.warmup_s is None else f", after {window.warmup_s / 3600:g} h and before the last submission")
    )
    yield f"makespan {measures.makespan_s:,.0f} s; energy about {measures.energy_kwh:,.0f} kWh"
    if measures.fairness is not None:
        ratio = measures.malleable_to_rigid
        beside = "" if ratio is None else f"; malleable to rigid {ratio:.2f}"
        yield f"fairness of bounded slowdowns (Jain) {measures.fairness:.3f}{beside}"
    if done.links.honoured or done.links.dropped:
        left_out = ", ".join(f"{count:,} {why}" for why, count in done.links.dropped.items())
        yield f"dependencies: {done.links.honoured:,} honoured" + (f"; left out: {left_out}" if left_out else "")
    yield from fault_lines(measures)
    if measures.refused or measures.unfinished:
        yield f"{measures.refused} jobs were refused, {measures.unfinished} never ended"
    jobs = len(done.result.records)  # also those that the figures leave out
    yield f"simulated in {done.seconds:.2f} s: {jobs / max(done.seconds, 1e-9):,.0f} jobs/s"


# What was decided about a job, live or simulated ----------------------------------------------------------------------

_PHRASES: Final = {JobState.QUEUED: "waits", JobState.ENDED: "is over"}


def show_explanation(explanation: Explanation) -> None:
    """Print an explanation, live or simulated, for people."""
    where = _PHRASES.get(explanation.state, f"is {explanation.state}")
    typer.echo(f"job {explanation.job_id} ({explanation.name}) {where}: {_flat(explanation.text)}")
    if explanation.expected_start_s is not None:
        in_s = max(0.0, explanation.expected_start_s - explanation.now_s)
        typer.echo(f"it starts at {explanation.expected_start_s:.1f} s at the latest, {in_s:.1f} s from now")
    if explanation.counts_on:
        typer.echo(f"until then come free: {_claims(explanation.counts_on)}")
    if explanation.nodes:
        typer.echo(f"it holds {', '.join(explanation.nodes)}")
    if explanation.moments:
        typer.echo()
        print_rich(_table(explanation))


def _table(explanation: Explanation) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for head in ("AT s", "NODES"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("WHAT, AND WHY")
    for moment in explanation.moments:
        text = _flat(moment.text)
        if moment.counts_on:
            text += f" (come free until then: {_claims(moment.counts_on)})"
        table.add_row(*(Text(cell) for cell in (f"{moment.time_s:.1f}", str(moment.nodes), text)))
    return table


def _claims(claims: tuple[Claim, ...]) -> str:
    return ", ".join(
        f"{wording.nodes(claim.nodes)} of job {claim.job_id} "
        + ("as soon as released" if claim.until_s is None else f"by {claim.until_s:.1f} s")
        for claim in claims
    )


def _flat(text: str) -> str:
    return " ".join(text.split())
