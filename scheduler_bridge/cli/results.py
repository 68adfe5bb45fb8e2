"""What commands say, write and draw about runs: figures, the reasons of decisions, files and pictures."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import msgspec

from scheduler_bridge.atomic_write import write_whole
from scheduler_bridge.cli import options
from scheduler_bridge.cli.common import CliError, now_and_then, plain_table, print_figures, print_json, say
from scheduler_bridge.cli.inputs import PICTURES, WORKLOADS, expect_file, read_duration
from scheduler_bridge.cli.options import described, option
from scheduler_bridge.core import Claim, Explanation, JobState
from scheduler_bridge.model import wording
from scheduler_bridge.printable import lines_of, one_line
from scheduler_bridge.report import words

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from scheduler_bridge.record import RunRecord
    from scheduler_bridge.report.overview import Course, Window
    from scheduler_bridge.report.page import Drawn
    from scheduler_bridge.sim import Means, Measures, Replay, Spread
    from scheduler_bridge.sim.jobs import Progress as OnProgress
    from scheduler_bridge.workloads import Finding, Workload

# The figures of a simulation, and how far it is -----------------------------------------------------------------------

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


@contextmanager
def progress(jobs: int, what: str = "simulating") -> Iterator[OnProgress]:
    """Show on standard error how many of the jobs are over: a bar on a terminal, a line now and then elsewhere."""
    if sys.stderr.isatty():
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        from scheduler_bridge.cli.terminal import Terminal

        columns = (what, BarColumn(), MofNCompleteColumn(), "jobs", TimeRemainingColumn())
        with Progress(*columns, console=Terminal(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=jobs)
            yield lambda _, over: bar.update(task, completed=over)
        return
    yield now_and_then(lambda now_s, over: f"{over} of {jobs} jobs are over, day {now_s / 86400:.1f} of the workload")


def show_figures(jobs: Workload, done: Replay, policy: str, nodes: int) -> None:
    """Print the figures for people, all jobs beside the two classes."""
    from scheduler_bridge.sim import spreads

    measures = done.measures
    say(f"{jobs.label}: {policy} on {words.plural(nodes, 'node')}")
    if line := _findings_line(jobs):
        say(line)
    spread = spreads(done.result.records.values(), measures.window)
    columns: list[tuple[str, Means, Spread]] = [("ALL", measures.every, spread.every)]
    if measures.rigid.jobs and measures.malleable.jobs:
        columns += [("RIGID", measures.rigid, spread.rigid), ("MALLEABLE", measures.malleable, spread.malleable)]
    rows = [["", *(name for name, _, _ in columns)]]
    for label, name, form in _MEANS:
        values = [getattr(means, name) for _, means, _ in columns]
        rows.append([label, *("-" if value is None else form.format(value) for value in values)])
    for label, name in _QUARTILES:
        parts = [getattr(each, name) for _, _, each in columns]
        rows.append([label, *("-" if part is None else " / ".join(map("{:,.0f}".format, part)) for part in parts)])
    print_figures(rows)
    for line in _further_lines(measures, done):
        say(line)


def _findings_line(workload: Workload) -> str:
    """What the reader left out and kept though it is odd, in one line; empty where there was nothing to find."""
    findings = workload.findings
    parts = []
    if findings.skipped:
        lost = f", {100 * workload.lost_share:.1f} % of the node-hours" if findings.lost_node_hours else ""
        parts.append(f"{findings.total_skipped:,} left out{lost} ({_reasons(findings.skipped)})")
    if findings.noted:
        parts.append(f"kept: {_reasons(findings.noted)}")
    return "; ".join([f"records: {findings.records:,} read", *parts]) if parts else ""


def _reasons(found: Mapping[str, Finding]) -> str:
    """The most frequent reasons with their numbers."""
    ordered = sorted(found.items(), key=lambda item: (-item[1].count, item[0]))
    shown = [f"{finding.count:,} {reason}" for reason, finding in ordered[:_MOST_REASONS]]
    return ", ".join([*shown, "others"] if len(ordered) > _MOST_REASONS else shown)


def _further_lines(measures: Measures, done: Replay) -> Iterator[str]:
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
    from scheduler_bridge.simulation import fault_lines

    yield from fault_lines(measures)
    if measures.refused:
        yield f"refused: {words.plural(measures.refused, 'job')}"
    jobs = len(done.result.records)  # also those that the figures leave out
    yield f"simulated in {done.seconds:.2f} s: {jobs / max(done.seconds, 1e-9):,.0f} jobs/s"


# What was decided about a job, live or simulated ----------------------------------------------------------------------

_PHRASES: Final = {JobState.QUEUED: "waits", JobState.ENDED: "is over"}


def explained(explanation: Explanation) -> Iterator[RenderableType]:
    """Word an explanation, live or simulated, for people."""
    where = _PHRASES.get(explanation.state, f"is {explanation.state}")
    yield f"job {explanation.job_id} ({explanation.name}) {where}: {one_line(explanation.text)}"
    if explanation.expected_start_s is not None:
        in_s = max(0.0, explanation.expected_start_s - explanation.now_s)
        yield f"it starts at {explanation.expected_start_s:.1f} s at the latest, {in_s:.1f} s from now"
    if explanation.counts_on:
        yield f"until then come free: {_claims(explanation.counts_on)}"
    if explanation.nodes:
        yield f"it holds {', '.join(explanation.nodes)}"
    if explanation.moments:
        yield ""
        yield _table(explanation)


def _table(explanation: Explanation) -> Table:
    from rich.text import Text

    table = plain_table(">AT s", ">NODES")
    table.add_column("WHAT, AND WHY")
    for moment in explanation.moments:
        text = one_line(moment.text)
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


# The picture and the page of a run: job by job where that can be read, else an overview and a part of it --------------

_EXAMPLE: Final = "for example: --window 36h:48h"

WindowOption = Annotated[
    str | None,
    described(
        "--window",
        "Draw nodes over this time since the first submission, such as 36h:48h, below an overview of the run.",
        "FROM:TO",
        show_default="the busiest part of a run that is too large to be drawn whole",
    ),
]


def read_window(text: str | None) -> tuple[float, float] | None:
    """From when to when a part of the run is drawn, in seconds since its first submission; None: it is not said."""
    if text is None:
        return None
    begin, colon, end = text.partition(":")
    if not colon:
        raise CliError(f"--window {text}", "it is given as from:to", _EXAMPLE)
    from_s, to_s = read_duration("--window", begin), read_duration("--window", end)
    if from_s >= to_s:
        raise CliError(f"--window {text}: it ends before it begins", hint=_EXAMPLE)
    return from_s, to_s


def window_of(course: Course, asked: tuple[float, float]) -> Window:
    """The part of a run that is drawn node by node."""
    from scheduler_bridge.report.overview import Window

    if asked[0] >= course.makespan_s:
        raise CliError(
            f"--window from {asked[0]:g} s on: nothing is left to draw",
            f"the run takes {course.makespan_s:,.0f} s from its first submission",
            "let it begin earlier",
        )
    return Window(asked[0], min(asked[1], course.makespan_s))


def drawn_of(record: RunRecord, asked: tuple[float, float] | None) -> Drawn:
    """What is drawn of a record."""
    from scheduler_bridge.report.overview import Course, cut, is_large, lives_of
    from scheduler_bridge.report.page import Drawn

    if all(job.state == "refused" for job in record.jobs):
        raise CliError("nothing to draw: no job was taken", hint="malleable history lists the runs and their jobs")
    if asked is None and not is_large(len(record.jobs), len(record.nodes)):
        return Drawn(record)
    course = Course(record.policy, len(record.nodes), lives_of(record), until_s=record.end_s, notes=record.notes)
    window = course.busiest() if asked is None else window_of(course, asked)
    return Drawn(cut(record, window, course.origin_s), (course, window))


# The files that a simulation writes -----------------------------------------------------------------------------------

_TABLES: Final = (".csv", ".parquet")
_STDOUT: Final = Path("-")
_PARQUET_NEEDS: Final = ("pandas", "pyarrow")


@dataclass(frozen=True, kw_only=True)
class Output:
    """What a simulation is to write and print: its options."""

    PANEL: ClassVar = "Output"

    explain: list[int] = option([], "--explain", "Say what was decided about this job, and why.", "JOB", min=0)
    json: Path | None = options.file(None, "--json", "Write the figures; - prints them and nothing else.")
    gantt: Path | None = options.file(None, "--gantt", "Write a PNG of nodes over time.")
    html: Path | None = options.file(None, "--html", "Write a page with jobs and nodes over time.")
    window: WindowOption = None
    table: Path | None = options.file(None, "--jobs", "Write a row for each job: .csv or .parquet.")
    swf: Path | None = options.file(None, "--swf", "Write the jobs as they ran, with their sizes.")

    @property
    def prints(self) -> bool:
        """Whether the figures are printed instead of a table."""
        return self.json == _STDOUT

    @property
    def written(self) -> list[Path]:
        """All that are written."""
        given = (self.json, self.gantt, self.html, self.table, self.swf)
        return [path for path in given if path is not None and path != _STDOUT]

    @property
    def draws(self) -> bool:
        """Whether nodes over time are to be drawn."""
        return self.gantt is not None or self.html is not None

    def check(self, inputs: Sequence[Path]) -> None:
        """See that the files can be written, as far as that can be said beforehand, and are none of ``inputs``."""
        if not self.prints:
            expect_file("--json", self.json, inputs=inputs)
        expect_file("--gantt", self.gantt, PICTURES, inputs=inputs)
        expect_file("--html", self.html, inputs=inputs)
        expect_file("--jobs", self.table, _TABLES, inputs=inputs)
        expect_file("--swf", self.swf, WORKLOADS, inputs=inputs)
        if self.table is not None and self.table.suffix == ".parquet" and not all(map(find_spec, _PARQUET_NEEDS)):
            raise CliError(
                f"--jobs {self.table}: {' and '.join(_PARQUET_NEEDS)} are not installed",
                "a Parquet file needs them",
                'pip install "malleable-apgas[sweeps]", or write a .csv',
            )
        if read_window(self.window) is not None and not self.draws:
            raise CliError(
                f"--window {self.window}: nothing is drawn", hint="say where to: --gantt FILE.png or --html FILE"
            )

    def write(self, document: dict[str, object], jobs: Workload, done: Replay, drawn: Drawn | None) -> None:
        """Write the files; each is whole at any time."""
        if self.prints:
            print_json(document)
        elif self.json is not None:
            write_whole(self.json, msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
        if self.table is not None:
            from scheduler_bridge.sim import COLUMNS, job_rows

            rows = job_rows(done.result.records.values(), jobs.label, str(document["policy"]))
            write_whole(
                self.table, _parquet(rows) if self.table.suffix == ".parquet" else csv_of(COLUMNS, rows).encode()
            )
        if self.swf is not None:
            from scheduler_bridge import workloads
            from scheduler_bridge.sim import as_it_ran

            ran = as_it_ran(jobs, done.result.records, str(document["policy"]))
            workloads.write_swf(ran, self.swf)
        if drawn is not None:
            drawn.write(self.gantt, self.html)


def _parquet(rows: Iterable[tuple[object, ...]]) -> bytes:
    import pandas as pd

    from scheduler_bridge.sim import COLUMNS

    buffer = io.BytesIO()
    pd.DataFrame(rows, columns=list(COLUMNS)).to_parquet(buffer, engine="pyarrow", index=False)
    return buffer.getvalue()


def csv_of(heads: Iterable[str], rows: Iterable[tuple[object, ...]]) -> str:
    """A table as CSV."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(map(lines_of, rows))
    return buffer.getvalue()
