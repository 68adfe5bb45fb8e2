"""The files that a simulation writes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler_bridge.atomic_write import write_whole
from scheduler_bridge.cli.common import PICTURES, WORKLOADS, CliError, expect_file, print_json

if TYPE_CHECKING:
    from scheduler_bridge.cli.pictures import Drawn
    from scheduler_bridge.sim import Replay
    from scheduler_bridge.workloads import Workload

_TABLES: Final = (".csv", ".parquet")
_STDOUT: Final = Path("-")
_PARQUET_NEEDS: Final = ("pandas", "pyarrow")


class Files(msgspec.Struct, frozen=True):
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

    def write(self, document: dict[str, object], jobs: Workload, done: Replay, drawn: Drawn | None) -> None:
        """Write them; each is whole at any time.

        Args:
            document: The figures.
            jobs: The workload.
            done: What came of it.
            drawn: What nodes did, where a picture is asked for.
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
        if drawn is not None:
            drawn.write(self.gantt, self.html)


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
