"""The report: one HTML page that opens from disk and fetches nothing.

The fixed parts are in ``page.html``; everything that comes from a record is escaped here.
"""

from __future__ import annotations

import html
import io
import json
import math
import re
import shlex
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Final, TypeVar

from scheduler_bridge.atomic_write import write_whole
from scheduler_bridge.printable import printable
from scheduler_bridge.record import first_submission_s, runtime_s, turnaround_s, wait_s
from scheduler_bridge.report import gantt, overview, words
from scheduler_bridge.report.charts import write_png

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from scheduler_bridge.record import JobRecord, ResizeRecord, RunRecord
    from scheduler_bridge.report.overview import Course, Window


_T = TypeVar("_T")
_LONG: Final = 300
"""Characters of a fact beyond which it is folded away."""
_MANY, _NAMES = 256, 16
"""At most this number of nodes of a run, and of a resize, are named; the others are counted."""
_CAPTION: Final = (
    "Top strip: share of the nodes that jobs held, with its mean. Middle: one row per node; a bar is a job, with its "
    "name or number in it where it fits. Bottom strip: jobs that waited; ticks are submissions."
)


def escape(text: str, quote: bool = True) -> str:
    """Make a text into one for a page, with control characters as others see them elsewhere."""
    return html.escape(printable(text, keep="\n"), quote)


def render(
    records: Sequence[RunRecord], *, reproduce: Sequence[str] = (), whole: tuple[Course, Window] | None = None
) -> str:
    """Write the page about ``records`` of one batch, the one that the claim is about last.

    Args:
        records: At least one record with at least one job.
        reproduce: Command lines that lead to this report.
        whole: Where there is one record, and it is only a part of a run that is too large to be drawn job by job: the
            course of all of it, and which part this is.

    Raises:
        ValueError: There is nothing to report.
    """
    origins_s = [first_submission_s(record) for record in records]
    if whole is None:
        picture, caption = inline(gantt.draw(records, titled=False), gantt.describe(records)), _CAPTION
        headline, claim, numbers = words.headline(records), words.claim(records), words.five_numbers(records)
    else:
        headline, claim = overview.headline(whole[0]), overview.claim(whole[0])
        numbers, caption = overview.five_numbers(whole[0]), overview.caption(*whole)
        shown = overview.draw(whole[0], records[0], whole[1], titled=False)
        picture, origins_s = inline(shown, overview.describe(*whole)), [whole[0].origin_s]
    body = Template(part("page.html")).substitute(
        picture=picture,
        headline=escape(headline),
        claim=escape(claim),
        caption=escape(caption),
        numbers=_numbers(numbers),
        jobs=_jobs(records, origins_s),
        resizes=_resizes(records, origins_s),
        notes="".join(f'<p class="note">{escape(note)}</p>' for note in words.notes(records)),
        provenance=_provenance(records),
        reproduce=_reproduce(reproduce),
    )
    return page(headline, body, part("run.css"), part("filter.js"))


def write_page(
    records: Sequence[RunRecord],
    path: Path,
    *,
    reproduce: Sequence[str] = (),
    whole: tuple[Course, Window] | None = None,
) -> None:
    """Write the page about ``records`` to ``path``; see ``render``."""
    write_whole(path, render(records, reproduce=reproduce, whole=whole).encode())


@dataclass(frozen=True)
class Drawn:
    """What is drawn of a run: job by job where that can be read, else an overview and a part of it.

    Attributes:
        record: What happened to jobs and nodes.
        whole: Where that is only a part of the run: the course of all of it, and which part.
    """

    record: RunRecord
    whole: tuple[Course, Window] | None = None

    def figure(self) -> Figure:
        """Draw it."""
        if self.whole is None:
            return gantt.draw([self.record])
        course, window = self.whole
        return overview.draw(course, self.record, window)

    def write(self, png: Path | None, html: Path | None) -> None:
        """Write the picture and the page, those that are asked for.

        Raises:
            OSError: One cannot be written.
        """
        if png is not None:
            write_png(self.figure(), png)
        if html is not None:
            write_page([self.record], html, whole=self.whole)


def _numbers(numbers: Sequence[words.Number]) -> str:
    items = [
        f"<div><dt>{escape(number.label)}</dt>"
        f'<dd><span class="value">{escape(number.value)}</span> '
        f'<span class="before">{escape(number.before)}</span>'
        f'<span class="hint">{escape(number.hint)}</span></dd></div>'
        for number in numbers
    ]
    return f'<dl class="numbers">{"".join(items)}</dl>'


def _jobs(records: Sequence[RunRecord], origins_s: Sequence[float]) -> str:
    timed = ("Submitted", "Wait", "Runtime", "Turnaround")
    ending = ("Resizes", "State", "Verified", "Result")
    heads = (*_policy(records, "Policy"), "Job", "Name", "Class", "Accepts", "Nodes over time", *timed, *ending)
    rows = [
        [*_policy(records, Cell(record.policy)), *_job_row(job, origin_s)]
        for record, origin_s in zip(records, origins_s, strict=True)
        for job in record.jobs
    ]
    caption = (
        "Seconds, submitted: since the first submission; accepts: nodes that the job can run on; resizes: grows + "
        "shrinks; verified: the job, or who runs it, has checked its result (-: it reported none)."
    )
    return table("job-table", caption, heads, rows, sortable=True)


def _policy(records: Sequence[RunRecord], shown: _T) -> tuple[_T, ...]:
    """The column that says under which policy, where there are several."""
    return (shown,) if len(records) > 1 else ()


def _job_row(job: JobRecord, origin_s: float) -> list[Cell]:
    tone = {True: "good", False: "bad", None: ""}[job.verified]
    grows, shrinks = job.done("grow"), job.done("shrink")
    state, _, reason = words.state(job).partition(": ") if job.reason else (job.state, "", "")
    found = words.result(job) if job.result is not None or not reason else ""
    state_tone = "" if job.state in ("waiting", "running", "completed") else "bad"
    return [
        Cell(str(job.job_id), job.job_id),
        Cell(job.name),
        Cell(job.job_class),
        Cell(words.bounds(job)),
        Cell(words.allocation(job), tone="wide"),
        _seconds(job.submit_s - origin_s),
        _seconds(wait_s(job)),
        _seconds(runtime_s(job)),
        _seconds(turnaround_s(job)),
        Cell(f"{grows} + {shrinks}" if job.malleable else words.NOTHING, grows + shrinks),
        Cell(state, tone=state_tone),
        Cell(words.verified(job), tone=tone),
        Cell("; ".join(filter(None, (reason, found))), tone="wide"),
    ]


def _seconds(value_s: float | None) -> Cell:
    return Cell(words.NOTHING) if value_s is None else Cell(f"{value_s:.2f}", value_s)


def _resizes(records: Sequence[RunRecord], origins_s: Sequence[float]) -> str:
    rows = [
        [*_policy(records, Cell(record.policy)), *_resize_row(job, resize, origin_s)]
        for record, origin_s in zip(records, origins_s, strict=True)
        for job in record.jobs
        for resize in sorted(job.resizes, key=lambda resize: resize.ordered_s)
    ]
    if not rows:
        return "<p>No job was resized.</p>"
    heads = (*_policy(records, "Policy"), "Job", "Order", "Ordered at", "Took", "Of it", "Outcome", "Nodes")
    caption = (
        "Seconds, ordered at: since the first submission. Took: from the order to its outcome. "
        "Of it: the phases, as the job measured them, and what is outside the job; they add up to what it took."
    )
    return scrolling(table("resize-table", caption, heads, rows), "Table of resizes")


def _resize_row(job: JobRecord, resize: ResizeRecord, origin_s: float) -> list[Cell]:
    outcome = f"{resize.outcome} ({resize.reason})" if resize.reason else resize.outcome
    return [
        Cell(f"{job.job_id} {job.name}"),
        Cell(f"{resize.kind} by {resize.count}"),
        _seconds(resize.ordered_s - origin_s),
        _seconds(words.resize_times(resize)[0]),
        Cell(words.phases(resize), tone="wide"),
        Cell(outcome, tone="good wide" if resize.outcome == "done" else "bad wide"),
        Cell(words.some(resize.nodes, _NAMES) or words.NOTHING, tone="wide"),
    ]


def _provenance(records: Sequence[RunRecord]) -> str:
    parts: list[str] = []
    for record in records:
        facts: Mapping[str, object] = {"started": record.started_at, "nodes": words.some(record.nodes, _MANY)}
        texts = {
            str(name): value if isinstance(value, str) else json.dumps(value, default=str)
            for name, value in {**facts, **record.provenance}.items()
        }
        rows = [[Cell(name), Cell(value)] for name, value in texts.items() if len(value) <= _LONG]
        shown = table(f"provenance-{len(parts)}", f"Run under {record.policy}", ("What", "Value"), rows)
        parts.append(scrolling(shown, "Provenance"))
        parts += [_folded(name, value) for name, value in texts.items() if len(value) > _LONG]
    commands = {shlex.join(job.command): None for job in records[-1].jobs if job.command}
    listed = escape("\n".join(commands))
    if listed:
        parts.append(f"<details><summary>Commands of the jobs</summary><pre>{listed}</pre></details>")
    return "\n".join(parts)


def _folded(name: str, value: str) -> str:
    return f'<details><summary>{escape(name)}</summary><pre class="wrapped">{escape(value)}</pre></details>'


def _reproduce(commands: Sequence[str]) -> str:
    if not commands:
        return "<p>The record that this page was made from lists every job's command.</p>"
    return f"<pre>{escape(chr(10).join(commands))}</pre>"


# Parts of all HTML pages ---------------------------------------------------------------------------------------------

_REFERENCE: Final = re.compile(r'(\bid="|href="#|url\(#)')
_NONE: Final = "-Infinity"
"""What a cell without a number is sorted by, in a column of numbers."""


@dataclass(frozen=True)
class Cell:
    """A cell of a table; ``number`` is what it is sorted by, where that is not its text."""

    text: str
    number: float | None = None
    tone: str = ""


def part(name: str, package: str = "scheduler_bridge.report") -> str:
    """A file that pages are made of, such as ``page.css``."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def page(title: str, body: str, style: str, script: str = "") -> str:
    """Put a page together, with what all pages share.

    Args:
        title: Of its tab; not escaped yet.
        body: HTML.
        style: What its style adds.
        script: What its script adds; tables can be sorted without.
    """
    return Template(part("frame.html")).substitute(
        title=escape(title), style=part("page.css") + style, body=body, script=part("sort.js") + script
    )


def table(
    identity: str, caption: str, heads: Sequence[str], rows: Iterable[Sequence[Cell]], *, sortable: bool = False
) -> str:
    """Build a table; a column whose cells carry numbers is set flush right.

    Args:
        identity: Its id in the page.
        caption: For people; not escaped yet, as all texts here.
        heads: Of the columns.
        rows: As many cells as heads.
        sortable: Whether ``sort.js`` lets people sort it.
    """
    lines = list(rows)
    numeric = [any(line[index].number is not None for line in lines) for index in range(len(heads))]
    head = "".join(
        f'<th scope="col"{_class("number" if number else "")}>{escape(text)}</th>'
        for text, number in zip(heads, numeric, strict=True)
    )
    body = "\n".join(
        "<tr>" + "".join(_cell(cell, number) for cell, number in zip(line, numeric, strict=True)) + "</tr>"
        for line in lines
    )
    return (
        f'<table id="{escape(identity, quote=True)}"{_class("sortable" if sortable else "")}>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
    )


def scrolling(shown: str, label: str) -> str:
    """Put something wide into a box that scrolls sideways, also with keys."""
    name = escape(label, quote=True)
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{name}, scrolls sideways">{shown}</div>'


def inline(figure: Figure, alt: str, prefix: str = "") -> str:
    """Draw a figure as an ``<svg>`` element to be put into a page: no header, no metadata, no links.

    Args:
        figure: Drawn by matplotlib.
        alt: What it shows, for those who do not see it.
        prefix: Of the ids in it; no two pictures of a page may have the same.
    """
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "malleable-apgas"}):
        figure.savefig(buffer, format="svg")
    svg = buffer.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], count=1, flags=re.DOTALL)
    if prefix:
        svg = _REFERENCE.sub(rf"\1{prefix}-", svg)
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(alt, quote=True)}"', 1)


def _cell(cell: Cell, numeric: bool) -> str:
    names = " ".join(filter(None, ("number" if numeric else "", cell.tone)))
    sort = f' data-sort="{_sorted_by(cell.number)}"' if numeric else ""
    return f"<td{_class(names)}{sort}>{escape(cell.text)}</td>"


def _sorted_by(number: float | None) -> str:
    if number is None or math.isnan(number):
        return _NONE
    return str(number).replace("inf", "Infinity")


def _class(names: str) -> str:
    return f' class="{names}"' if names else ""
