"""How a simulation is shown: progress, table, JSON."""

from __future__ import annotations

import csv
import io
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from scheduler_bridge.cli.common import print_json, print_rich
from scheduler_bridge.cli.errors import CliError
from scheduler_bridge.cli.targets import PICTURES, WORKLOADS, expect_file
from scheduler_bridge.report import words
from scheduler_bridge.report.workload_tables import findings_line
from scheduler_bridge.whole_file import write_whole

if TYPE_CHECKING:
    from scheduler_bridge.record import RunRecord
    from scheduler_bridge.sim import Means, Measures, Replay, Spread
    from scheduler_bridge.workloads import Workload

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
_TABLES: Final = (".csv", ".parquet")
_STDOUT: Final = Path("-")
_PARQUET_NEEDS: Final = ("pandas", "pyarrow")
_QUIET_S: Final = 10.0
"""Where nobody watches a bar, a line says this often how far it is."""


@contextmanager
def progress(jobs: int) -> Iterator[Told]:
    """Show on standard error how many of the jobs are over: a bar on a terminal, a line now and then elsewhere."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = ("simulating", BarColumn(), MofNCompleteColumn(), "jobs", TimeRemainingColumn())
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


@dataclass(frozen=True)
class Files:
    """The files that a simulation is to write.

    Attributes:
        json: The figures.
        gantt: A picture of nodes over time.
        html: A page with the picture and the jobs.
        table: A row for each job.
        swf: The jobs as they ran.
    """

    json: Path | None = None
    gantt: Path | None = None
    html: Path | None = None
    table: Path | None = None
    swf: Path | None = None

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
    def picture(self) -> bool:
        """Whether nodes over time are to be drawn."""
        return self.gantt is not None or self.html is not None

    def check(self) -> None:
        """See that they can be written, as far as that can be said beforehand.

        Raises:
            CliError: One cannot, or what it needs is not installed.
        """
        if not self.prints:
            expect_file("--json", self.json)
        expect_file("--gantt", self.gantt, PICTURES)
        expect_file("--html", self.html)
        expect_file("--jobs", self.table, _TABLES)
        expect_file("--swf", self.swf, WORKLOADS)
        if self.table is not None and self.table.suffix == ".parquet" and not all(map(find_spec, _PARQUET_NEEDS)):
            raise CliError(
                f"--jobs {self.table}: {' and '.join(_PARQUET_NEEDS)} are not installed",
                "a Parquet file needs them",
                'pip install "malleable-apgas[sweeps]", or write a .csv',
            )

    def write(self, document: dict[str, object], jobs: Workload, done: Replay, record: RunRecord | None) -> None:
        """Write them; each is whole at any time.

        Args:
            document: The figures.
            jobs: The workload.
            done: What came of it.
            record: What nodes did, where a picture is asked for.
        """
        if self.prints:
            print_json(document)
        elif self.json is not None:
            write_whole(self.json, msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
        if self.table is not None:
            from scheduler_bridge.sim import job_rows

            rows = job_rows(done.result.records.values(), jobs.label, str(document["policy"]))
            write_whole(self.table, _parquet(rows) if self.table.suffix == ".parquet" else _csv(rows))
        if self.swf is not None:
            from scheduler_bridge import workloads
            from scheduler_bridge.sim import as_it_ran

            ran = as_it_ran(jobs, done.result.records, str(document["policy"]))
            workloads.write_swf(ran, self.swf)
        if self.gantt is not None and record is not None:
            from scheduler_bridge.report.gantt import write_png

            write_png([record], self.gantt)
        if self.html is not None and record is not None:
            from scheduler_bridge.report.page import write_page

            write_page([record], self.html)


def _parquet(rows: Iterable[tuple[object, ...]]) -> bytes:
    import pandas as pd

    from scheduler_bridge.sim import COLUMNS

    buffer = io.BytesIO()
    pd.DataFrame(rows, columns=list(COLUMNS)).to_parquet(buffer, engine="pyarrow", index=False)
    return buffer.getvalue()


def _csv(rows: Iterable[tuple[object, ...]]) -> bytes:
    from scheduler_bridge.sim import COLUMNS

    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(["" if value is None else value for value in row] for row in rows)
    return buffer.getvalue().encode()


def show(jobs: Workload, done: Replay, policy: str, nodes: int) -> None:
    """Print the figures for people, all jobs beside the two classes."""
    from scheduler_bridge.sim import spreads

    measures = done.measures
    typer.echo(f"{jobs.label}: {policy} on {words.plural(nodes, 'node')}")
    if line := findings_line(jobs):
        typer.echo(line)
    spread = spreads(done.result.records.values(), measures.window)
    columns: list[tuple[str, Means, Spread]] = [("ALL", measures.every, spread.every)]
    if measures.rigid.jobs and measures.malleable.jobs:
        columns += [
            ("RIGID", measures.rigid, spread.rigid),
            ("MALLEABLE", measures.malleable, spread.malleable),
        ]
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name, _, _ in columns:
        table.add_column(name, justify="right")
    for label, field, form in _MEANS:
        values = [getattr(means, field) for _, means, _ in columns]
        table.add_row(label, *[Text("-" if value is None else form.format(value)) for value in values])
    for label, field in _QUARTILES:
        parts = [getattr(each, field) for _, _, each in columns]
        table.add_row(
            label, *[Text("-" if part is None else " / ".join(map("{:,.0f}".format, part))) for part in parts]
        )
    print_rich(table)
    for line in _lines(measures, done):
        typer.echo(line)


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
    if measures.refused or measures.unfinished:
        yield f"{measures.refused} jobs were refused, {measures.unfinished} never ended"
    jobs = len(done.result.records)  # also those that the figures leave out
    yield f"simulated in {done.seconds:.2f} s: {jobs / max(done.seconds, 1e-9):,.0f} jobs/s"
