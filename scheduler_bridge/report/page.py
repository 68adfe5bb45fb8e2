"""The report: one HTML page that opens from disk and fetches nothing.

The fixed parts are in ``page.html``; everything that comes from a record is escaped here.
"""

from __future__ import annotations

import json
import shlex
from html import escape
from string import Template
from typing import TYPE_CHECKING

from scheduler_bridge.record import runtime_s, turnaround_s, wait_s
from scheduler_bridge.report import gantt, words
from scheduler_bridge.report.markup import Cell, inline, page, part, scrolling, table
from scheduler_bridge.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from scheduler_bridge.record import JobRecord, ResizeRecord, RunRecord


def render(records: Sequence[RunRecord], *, reproduce: Sequence[str] = ()) -> str:
    """Write the page about ``records`` of one batch, the one that the claim is about last.

    Args:
        records: At least one record with at least one job.
        reproduce: Command lines that lead to this report.

    Raises:
        ValueError: There is nothing to report.
    """
    picture = _picture(records)
    body = Template(part("page.html")).substitute(
        picture=picture,
        headline=escape(words.headline(records)),
        claim=escape(words.claim(records)),
        numbers=_numbers(records),
        jobs=_jobs(records),
        resizes=_resizes(records),
        notes=_notes(records),
        provenance=_provenance(records),
        reproduce=_reproduce(reproduce),
    )
    return page(words.headline(records), body, part("run.css"), part("filter.js"))


def write_page(records: Sequence[RunRecord], path: Path, *, reproduce: Sequence[str] = ()) -> None:
    """Write the page about ``records`` to ``path``."""
    write_whole(path, render(records, reproduce=reproduce).encode())


def _picture(records: Sequence[RunRecord]) -> str:
    return inline(gantt.draw(records), gantt.describe(records))


def _numbers(records: Sequence[RunRecord]) -> str:
    items = [
        f"<div><dt>{escape(number.label)}</dt>"
        f'<dd><span class="value">{escape(number.value)}</span> '
        f'<span class="before">{escape(number.before)}</span>'
        f'<span class="hint">{escape(number.hint)}</span></dd></div>'
        for number in words.five_numbers(records)
    ]
    return f'<dl class="numbers">{"".join(items)}</dl>'


def _jobs(records: Sequence[RunRecord]) -> str:
    timed = ("Submitted", "Wait", "Runtime", "Turnaround")
    ending = ("Grows", "Shrinks", "State", "Verified", "Result")
    heads = ("Policy", "Job", "Name", "Class", "Accepts", "Nodes over time", *timed, *ending)
    rows = [_job_row(record.policy, job) for record in records for job in record.jobs]
    caption = "Times in seconds; accepts: nodes that the job can run on."
    return table("job-table", caption, heads, rows, sortable=True)


def _job_row(policy: str, job: JobRecord) -> list[Cell]:
    tone = {True: "good", False: "bad", None: ""}[job.verified]
    state_tone = "" if job.state in ("waiting", "running", "completed") else "bad"
    return [
        Cell(policy),
        Cell(str(job.job_id), job.job_id),
        Cell(job.name),
        Cell(job.job_class),
        Cell(words.bounds(job)),
        Cell(words.allotment(job)),
        _seconds(job.submit_s),
        _seconds(wait_s(job)),
        _seconds(runtime_s(job)),
        _seconds(turnaround_s(job)),
        Cell(str(job.done("grow")), job.done("grow")),
        Cell(str(job.done("shrink")), job.done("shrink")),
        Cell(words.state(job), tone=state_tone),
        Cell(words.verified(job), tone=tone),
        Cell(words.result(job)),
    ]


def _seconds(value_s: float | None) -> Cell:
    return Cell(words.NOTHING) if value_s is None else Cell(f"{value_s:.2f}", value_s)


def _resizes(records: Sequence[RunRecord]) -> str:
    rows = [
        _resize_row(record.policy, job, resize)
        for record in records
        for job in record.jobs
        for resize in sorted(job.resizes, key=lambda resize: resize.ordered_s)
    ]
    if not rows:
        return "<p>No job was resized.</p>"
    heads = ("Policy", "Job", "Order", "Ordered at", "Scheduler saw", "Job measured", "Phases", "Outcome", "Nodes")
    caption = (
        "Seconds. Scheduler saw: from the order to its outcome. Job measured: from receiving the order to the commit "
        "(grow) or until the processes were gone (shrink)."
    )
    return scrolling(table("resize-table", caption, heads, rows), "Table of resizes")


def _resize_row(policy: str, job: JobRecord, resize: ResizeRecord) -> list[Cell]:
    took_s = None if resize.done_s is None else resize.done_s - resize.ordered_s
    outcome = f"{resize.outcome} ({resize.reason})" if resize.reason else resize.outcome
    return [
        Cell(policy),
        Cell(f"{job.job_id} {job.name}"),
        Cell(f"{resize.kind} by {resize.count}"),
        _seconds(resize.ordered_s),
        _seconds(took_s),
        _seconds(resize.seconds),
        Cell(words.phases(resize)),
        Cell(outcome, tone="good" if resize.outcome == "done" else "bad"),
        Cell(", ".join(resize.nodes) or words.NOTHING),
    ]


def _notes(records: Sequence[RunRecord]) -> str:
    return "".join(f'<p class="note">{escape(note)}</p>' for note in words.notes(records))


def _provenance(records: Sequence[RunRecord]) -> str:
    parts: list[str] = []
    for record in records:
        facts: Mapping[str, object] = {"started": record.started_at, "nodes": ", ".join(record.nodes)}
        rows = [
            [Cell(str(name)), Cell(value if isinstance(value, str) else json.dumps(value, default=str))]
            for name, value in {**facts, **record.provenance}.items()
        ]
        shown = table(f"provenance-{len(parts)}", f"Run under {record.policy}", ("What", "Value"), rows)
        parts.append(scrolling(shown, "Provenance"))
    commands = {shlex.join(job.command): None for job in records[-1].jobs if job.command}
    listed = escape("\n".join(commands))
    if listed:
        parts.append(f"<details><summary>Commands of the jobs</summary><pre>{listed}</pre></details>")
    return "\n".join(parts)


def _reproduce(commands: Sequence[str]) -> str:
    if not commands:
        return "<p>The record that this page was made from lists every job's command.</p>"
    return f"<pre>{escape(chr(10).join(commands))}</pre>"
