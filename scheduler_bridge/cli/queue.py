"""``malleable queue``."""

from __future__ import annotations

import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from scheduler_bridge.cli import operations
from scheduler_bridge.cli.common import (
    CliError,
    JsonOption,
    ReachOption,
    client,
    print_json,
    print_rich,
    say,
    terminal_width,
)
from scheduler_bridge.cli.options import option
from scheduler_bridge.cli.terminal import Terminal
from scheduler_bridge.daemon import ControlClient, ControlError, JobStatus, Snapshot
from scheduler_bridge.printable import one_line
from scheduler_bridge.report import words


def queue(
    everything: bool = option(False, "--all", "Ended jobs too (JSON always has them)."),
    watch: bool = option(False, "--watch -w", "Show it as it changes, until Ctrl-C."),
    state: ReachOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the jobs that wait and run, with the reason why a job waits.

    Example: malleable queue --all
    """
    if watch:
        if as_json:
            raise CliError("--watch and --json exclude each other", hint="ask again and again with --json")
        watch_queue(client(state), lambda job: everything or job.end_s is None)
    snapshot = client(state).snapshot()
    if as_json:
        print_json(snapshot.jobs)
        return
    if snapshot.log_behind:
        say(f"the log cannot be written: {snapshot.log_behind}; no jobs are taken")
    jobs = [job for job in snapshot.jobs if everything or job.end_s is None]
    if jobs:
        lines = queue_lines(jobs, snapshot.now_s, terminal_width())
        print_rich(Group(lines.head, *chain.from_iterable(lines.jobs)))
    else:
        say("no job waits or runs")
    for kept in snapshot.reservations:
        say(f"reserved: {words.plural(len(kept.nodes), 'node')} for {operations.reservation_line(kept, snapshot)}")


# The jobs of a queue as lines: a line each where there is room, or else the remark below ------------------------------

_LEFT: Final = frozenset(("NAME", "USER", "CLASS", "STATE"))
_SPARED: Final = frozenset(("CLASS", "GROWS", "SHRINKS"))
"""What a narrow terminal does without."""
_DISTINGUISHING: Final = frozenset(("USER", "PRIO"))
"""What is left out where it is the same of all jobs."""
_GAP: Final = "  "
_REMARK: Final = "REMARK"
_REMARK_CELLS: Final = 40
"""Beside so few cells for the remark it goes below."""
_REMARK_MOST: Final = 600
"""Characters on a terminal: a longer one, such as a failed program's error, would hide the other jobs."""
_LEAST_NAME: Final = 8
_SOON_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class QueueLines:
    """What is to be printed: ``head`` once, and the lines of each job."""

    head: Text
    jobs: list[list[Text]]


def queue_lines(jobs: Sequence[JobStatus], now_s: float, width: int | None) -> QueueLines:
    """Word the jobs, of which there is at least one, in lines of ``width`` cells; None: of any number."""
    rows = [_cells(job, now_s) for job in jobs]
    remarks = [remark(job, now_s) for job in jobs]
    shown = [head for head in rows[0] if head not in _DISTINGUISHING or len({row[head] for row in rows}) > 1]
    widths = {head: max(cell_len(head), *(cell_len(row[head]) for row in rows)) for head in shown}
    beside = width is None or width - _taken(widths) >= min(max(map(cell_len, remarks)), _REMARK_CELLS)
    if width is not None and not beside:  # names are cut short, too
        widths = {head: cells for head, cells in widths.items() if head not in _SPARED}
        widths["NAME"] = max(_LEAST_NAME, widths["NAME"] - max(0, _taken(widths) - len(_GAP) - width))
    indent = _taken(widths) if beside else widths["JOB"] + len(_GAP)
    lines = []
    for row, text in zip(rows, remarks, strict=True):
        first = _line(row, widths)
        short = text if len(text) <= _REMARK_MOST else text[:_REMARK_MOST] + "… (malleable explain)"
        parts = [text] if width is None else textwrap.wrap(short, max(1, width - indent))
        if beside:
            first = (first + _GAP + "".join(parts[:1])).rstrip()
            parts = parts[1:]
        lines.append([Text(first), *(Text(" " * indent + part, style="" if beside else "dim") for part in parts)])
    heads = _line({head: head for head in widths}, widths) + (_GAP + _REMARK if beside else "")
    return QueueLines(Text(heads, style="bold"), lines)


def _taken(widths: dict[str, int]) -> int:
    """Cells of a line up to the remark."""
    return sum(widths.values()) + len(_GAP) * len(widths)


def _line(row: dict[str, str], widths: dict[str, int]) -> str:
    parts = []
    for head, cells in widths.items():
        text = row[head]
        if cell_len(text) > cells:
            text = set_cell_size(text, cells - 1).rstrip() + "…"
        pad = " " * (cells - cell_len(text))
        parts.append(text + pad if head in _LEFT else pad + text)
    return _GAP.join(parts)


def _cells(job: JobStatus, now_s: float) -> dict[str, str]:
    until_s = now_s if job.end_s is None else job.end_s
    started_s = until_s if job.start_s is None else job.start_s
    return {
        "JOB": str(job.job),
        "NAME": one_line(job.name),
        "USER": job.user or "-",
        "PRIO": str(job.priority),
        "CLASS": job.job_class,
        "STATE": _state(job),
        "NODES": str(len(job.nodes)),
        "ACCEPTS": str(job.min_nodes) if job.min_nodes == job.max_nodes else f"{job.min_nodes}-{job.max_nodes}",
        "WAIT s": f"{started_s - job.submit_s:.1f}",
        "RUN s": "-" if job.start_s is None else f"{until_s - job.start_s:.1f}",
        "GROWS": str(job.grows),
        "SHRINKS": str(job.shrinks),
    }


def _state(job: JobStatus) -> str:
    return job.state if job.resizing is None else f"{job.state} ({job.resizing})"


def remark(job: JobStatus, now_s: float) -> str:
    """The progress of a running job that reports it; why it waits, or what was last decided about it."""
    if job.state != "running" or job.progress is None:
        reason = one_line(words.from_now(job.reason, now_s))
        if job.state == "waiting" and job.expected_start_s is not None:
            in_s = job.expected_start_s - now_s
            return f"{reason}; expected to start {f'within {words.seconds(in_s)}' if in_s >= _SOON_S else 'now'}"
        return reason
    if job.progress_total:
        share = words.percent(job.progress / job.progress_total)
        return one_line(f"{share} of {words.large(job.progress_total)} {job.progress_unit}")
    return one_line(f"{words.large(job.progress)} {job.progress_unit}")


# ``malleable queue --watch``: the queue as it changes. Plain lines, one per change, where there is no terminal -------

INTERVAL_S: Final = 1.0
_ABOVE_LINES = 4
"""What is needed besides the jobs: summary, gap, heads, the line about further jobs."""


def watch_queue(client: ControlClient, choose: Callable[[JobStatus], bool]) -> None:
    """Show the jobs that are chosen until Ctrl-C; wait for a scheduler that is gone to come back."""
    console = Terminal()
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, screen=True) as live:
            for now in _looks(client):
                seen = Text(now, "bold red") if isinstance(now, str) else picture(now, choose, *console.size)
                live.update(seen, refresh=True)
    before, gone = None, False
    for now in _looks(client):
        if isinstance(now, Snapshot):
            lines, before, gone = changes(before, now), now, False
        else:
            lines, gone = [] if gone else [now], True
        for line in lines:
            print_rich(Text(line))
        sys.stdout.flush()


def _looks(client: ControlClient) -> Iterator[Snapshot | str]:
    """Yield what the scheduler says again and again, or that it is gone; the first time it has to be there."""
    now: Snapshot | str = client.snapshot()
    while True:
        yield now
        time.sleep(INTERVAL_S)
        try:
            now = client.snapshot()
        except ControlError as error:
            now = f"{error}; waiting for it to come back (Ctrl-C ends this)"


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
            why = f": {job.reason}" if job.reason else ""
            lines.append(one_line(f"{after.now_s:.1f} s: job {job.job} {job.name}: {_said(job)}{why}"))
    return lines


def _said(job: JobStatus) -> str:
    return f"{_state(job)} on {words.plural(len(job.nodes), 'node')}" if job.nodes else _state(job)
