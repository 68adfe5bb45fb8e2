"""``malleable queue --watch``: the queue as it changes. Plain lines, one per change, where there is no terminal."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from scheduler_bridge.cli.common import print_rich
from scheduler_bridge.cli.queue_lines import queue_lines
from scheduler_bridge.live import ControlClient, ControlError, JobStatus, Snapshot
from scheduler_bridge.report import words

INTERVAL_S: Final = 1.0
_ABOVE_LINES = 4
"""What is needed besides the jobs: summary, gap, heads, the line about further jobs."""


def watch(client: ControlClient, choose: Callable[[JobStatus], bool]) -> None:
    """Show the queue until Ctrl-C; wait for a scheduler that is gone to come back.

    Args:
        client: Whom to ask.
        choose: Whether a job is to be shown.

    Raises:
        ControlError: There is no scheduler at the beginning.
    """
    console = Console(highlight=False)
    snapshot = client.snapshot()
    if not console.is_terminal:
        _print_changes(client, snapshot)
        return
    with Live(console=console, auto_refresh=False, screen=True) as live:
        while True:
            live.update(picture(snapshot, choose, console.width, console.height), refresh=True)
            time.sleep(INTERVAL_S)
            try:
                snapshot = client.snapshot()
            except ControlError as error:
                gone = Text(f"{error}; waiting for it to come back (Ctrl-C ends this)", style="bold red")
                live.update(gone, refresh=True)


def picture(snapshot: Snapshot, choose: Callable[[JobStatus], bool], width: int, height: int) -> RenderableType:
    """Return what is shown: a summary, and as many jobs as fit into ``height`` lines, running ones first."""
    jobs = sorted(filter(choose, snapshot.jobs), key=lambda job: job.state in ("waiting", "held"))
    top = Text(summary(snapshot), style="bold")
    room = height - _ABOVE_LINES - (top.cell_len - 1) // width
    if not jobs:
        return Group(top, Text(""), Text("no job waits or runs"))
    lines = queue_lines(jobs[: max(1, room)], snapshot.now_s, width)
    shown = [lines.head, *lines.jobs[0]]
    count = 1
    for more in lines.jobs[1:]:
        if len(shown) - 1 + len(more) > room:
            break
        shown += more
        count += 1
    if len(jobs) > count:
        shown.append(Text(f"and {words.plural(len(jobs) - count, 'more job')}", style="dim"))
    return Group(top, Text(""), *shown)


def summary(snapshot: Snapshot) -> str:
    """Return the top line: nodes, jobs and utilization, now and since the start."""
    nodes = Counter(node.state for node in snapshot.nodes)
    jobs = Counter(job.state for job in snapshot.jobs)
    busy = nodes["busy"] + nodes["draining"]
    usable = busy + nodes["idle"]
    running = jobs["running"] + jobs["starting"] + jobs["ending"]
    return (
        f"{snapshot.policy}: {busy} busy, {nodes['idle']} idle, {nodes['down']} down; "
        f"{running} running, {jobs['waiting'] + jobs['held']} waiting; "
        f"{words.percent(busy / usable if usable else 0.0)} busy now, "
        f"{words.percent(snapshot.utilization)} since the start"
    )


def changes(before: Snapshot | None, after: Snapshot) -> list[str]:
    """Return a line for each job whose state, number of nodes or resize differs."""
    known = {job.job: _said(job) for job in before.jobs} if before is not None else {}
    lines = []
    for job in after.jobs:
        if known.get(job.job) != _said(job) and (before is not None or job.end_s is None):
            why = " ".join(job.reason.split())
            lines.append(f"{after.now_s:.1f} s: job {job.job} {job.name}: {_said(job)}" + (f": {why}" if why else ""))
    return lines


def _said(job: JobStatus) -> str:
    state = job.state if job.resizing is None else f"{job.state} ({job.resizing})"
    return f"{state} on {words.plural(len(job.nodes), 'node')}" if job.nodes else state


def _print_changes(client: ControlClient, snapshot: Snapshot) -> None:
    before = None
    while True:
        for line in changes(before, snapshot):
            print_rich(Text(line))
        before = snapshot
        time.sleep(INTERVAL_S)
        snapshot = client.snapshot()
