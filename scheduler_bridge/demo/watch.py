"""The live view: nodes over time, running jobs with allocation and progress, the queue. Plain lines off a terminal."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from scheduler_bridge.report import words
from scheduler_bridge.report.looks import Look, looks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scheduler_bridge.daemon import JobStatus, Snapshot
    from scheduler_bridge.record import RunRecord

STRIP_CELLS = 60


@contextmanager
def watched(console: Console, batch: int) -> Iterator[Callable[[Snapshot, RunRecord], None]]:
    """Show one run while it goes on; yields what shows the present moment.

    Args:
        console: Where to.
        batch: Number of jobs that will come.
    """
    if console.is_terminal:
        with Live(console=console, transient=True, auto_refresh=False) as live:
            yield lambda snapshot, record: live.update(view(snapshot, record, batch), refresh=True)
        return
    seen: dict[int, JobStatus] = {}

    def show(snapshot: Snapshot, _: RunRecord) -> None:
        for line in changes(seen, snapshot):
            console.print(Text(line))
        seen.update({job.job: job for job in snapshot.jobs})

    yield show


def changes(before: Mapping[int, JobStatus], snapshot: Snapshot) -> list[str]:
    """Say in lines what happened since ``before``, the jobs of an earlier snapshot."""
    lines = []
    for job in snapshot.jobs:
        old = before.get(job.job)
        held = len(job.nodes)
        where = f"on {words.plural(held, 'node')} ({', '.join(job.nodes)})"
        if old is None:
            lines.append(f"{job.name} submitted ({job.job_class}, {_accepts(job)})")
        if job.end_s is not None:
            if old is None or old.end_s is None:
                lines.append(f"{job.name} {job.state}" + (f": {job.reason}" if job.reason else ""))
        elif held and (old is None or not old.nodes):
            lines.append(f"{job.name} starts {where}")
        elif old is not None and old.nodes and held != len(old.nodes):
            lines.append(f"{job.name} {'grew' if held > len(old.nodes) else 'shrank'} to {held}, {where}")
    return [f"{snapshot.now_s:6.1f} s  {line}" for line in lines]


def view(snapshot: Snapshot, record: RunRecord, batch: int) -> Group:
    """Draw the present moment for a terminal."""
    styles = looks([record])
    ended = sum(job.end_s is not None for job in snapshot.jobs)
    busy = sum(node.job is not None for node in snapshot.nodes)
    head = Text.assemble(
        (snapshot.policy, "bold"),
        f"  {snapshot.now_s:.0f} s   {busy} of {words.plural(len(snapshot.nodes), 'node')} busy"
        f"   {words.percent(snapshot.utilization)} utilization   {ended} of {batch} jobs done",
    )
    waiting = [job for job in snapshot.jobs if job.end_s is None and not job.nodes]
    queue = Text("waiting  ", style="dim")
    queue.append(", ".join(f"{job.name} ({_accepts(job)})" for job in waiting) or "no job")
    return Group(head, Text(), _strips(snapshot, record, styles), Text(), _running(snapshot, styles), Text(), queue)


def _strips(snapshot: Snapshot, record: RunRecord, styles: Mapping[int, Look]) -> Table:
    """One row per node: who held it, a cell for a slice of time, now at the right."""
    table = Table.grid(padding=(0, 1))
    slice_s = max(1.0, snapshot.now_s / STRIP_CELLS)
    cells = max(1, int(snapshot.now_s / slice_s))
    names = {job.job: job.name for job in snapshot.jobs}
    for node in snapshot.nodes:
        strip = Text()
        for cell in range(cells):
            moment_s = (cell + 0.5) * slice_s
            # The record ends with the last event; since then nothing has changed.
            holder = _holder(record, node.name, moment_s) if moment_s < record.end_s else node.job
            strip.append(
                "█" if holder is not None else "·", style=styles[holder].color if holder is not None else "dim"
            )
        now = names.get(node.job, "") if node.job is not None else node.state
        table.add_row(Text(node.name, style="bold"), strip, Text(now, style="" if node.job is not None else "dim"))
    return table


def _holder(record: RunRecord, node: str, at_s: float) -> int | None:
    for job in record.jobs:
        for segment in job.segments:
            if segment.from_s <= at_s < segment.to_s and node in segment.nodes:
                return job.job_id
    return None


def _running(snapshot: Snapshot, styles: Mapping[int, Look]) -> Table:
    """The running jobs: allocation out of what they could hold, progress, resize under way."""
    table = Table("running", "nodes", "progress", "", box=None, padding=(0, 2, 0, 0), header_style="dim")
    for job in snapshot.jobs:
        if job.end_s is not None or not job.nodes:
            continue
        held = len(job.nodes)
        color = styles[job.job].color
        table.add_row(
            Text.assemble(("█ ", color), job.name),
            Text.assemble(("■" * held, color), ("□" * (job.max_nodes - held), "dim")),
            _progress(job),
            Text({"grow": "grows ...", "shrink": "shrinks ..."}.get(job.resizing or "", ""), style="bold"),
        )
    return table


def _progress(job: JobStatus) -> Text:
    if job.progress is None or not job.progress_total:
        return Text(
            "starting" if job.progress is None else f"{words.large(job.progress)} {job.progress_unit}", style="dim"
        )
    share = min(1.0, job.progress / job.progress_total)
    filled = round(20 * share)
    return Text("━" * filled + "╌" * (20 - filled) + f" {words.percent(share):>5}")


def _accepts(job: JobStatus) -> str:
    least, most = job.min_nodes, job.max_nodes
    return words.plural(least, "node") if least == most else f"{least}-{most} nodes"
