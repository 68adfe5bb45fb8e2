"""Many simulations of one experiment: which have to be run, what is known already, how long the rest takes.

Within ``apgas.run`` they are tasks that all places share, as many as there are at the time (``simulations``); without
it they are run one after the other. Rows are the same either way, and are kept as soon as a simulation is over
(``RowFile``), so that a sweep that was interrupted, however hard, goes on.
"""

from __future__ import annotations

import csv
import fcntl
import io
import os
import platform
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import astuple, dataclass, field, fields, replace
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO, TypeAlias

from apgas.provenance import commit, cpu_model, version
from scheduler_bridge.atomic_write import write_whole
from scheduler_bridge.core.settings import Settings, settings_for

if TYPE_CHECKING:
    from pandas import DataFrame


Scale: TypeAlias = Literal["small", "full"]


@dataclass(frozen=True, slots=True)
class Standing:
    """How far an experiment is: a sweep, or runs of real jobs.

    Attributes:
        done: Cells that are known.
        cells: All cells.
        left_s: About how long the others take; None: not known yet.
        places: How many simulate at a time.
        now: What is under way.
    """

    done: int
    cells: int
    left_s: float | None
    places: int = 1
    now: str = ""


Reporter: TypeAlias = Callable[[Standing], None]


def sweep(
    cells: Iterable[Cell],
    simulate: Callable[[Cell], Figures],
    columns: Sequence[str],
    *,
    file: Path | None = None,
    reporter: Reporter = lambda _: None,
) -> list[Row]:
    """Simulate the cells of which nothing is known.

    Args:
        cells: In the order in which they are simulated, as far as places that take turns keep to it.
        simulate: Simulates one and gives a number for each column; has to travel to other places.
        columns: The names of the numbers.
        file: Where rows are kept, and from where known ones come, in the form that its ending names; None: nowhere.
        reporter: Called with how far it is, by one thread at a time.

    Returns:
        A row for each cell, in their order.

    Raises:
        SweepFileError: The file cannot be gone on with.
        OSError: It cannot be read or written.
    """
    wanted = list(dict.fromkeys(cells))
    with nullcontext() if file is None else row_file(file, columns) as kept:
        places = _places()
        books = Books(wanted, kept, places or (lambda: 1), reporter)
        run = partial(_timed, simulate)
        books.report()
        if places is None:
            for cell in books.open():
                books.take(run(cell))
        else:
            from scheduler_bridge.experiments.simulations import on_all_places

            on_all_places(books, run)
        books.close()
    return [books.found[cell] for cell in wanted]


def _timed(simulate: Callable[[Cell], Figures], cell: Cell) -> Row:
    began = perf_counter()
    figures = simulate(cell)
    return Row(cell, figures, origin(perf_counter() - began))


class Books:
    """What is known of the ``wanted`` cells of a sweep (``found``), and what is not."""

    def __init__(
        self, wanted: Sequence[Cell], file: RowFile | None, places: Callable[[], int], reporter: Reporter
    ) -> None:
        self.found = {} if file is None else dict(file.found)
        self._places = places
        self._wanted = wanted
        self._open = dict.fromkeys(cell for cell in wanted if cell not in self.found)
        self._file = file
        self._reporter = reporter
        self._took: dict[str, list[float]] = {}
        self._lock = threading.Lock()

    def open(self) -> list[Cell]:
        """The cells of which nothing is known, in order."""
        return list(self._open)

    def take(self, row: Row) -> Standing:
        """Take and keep a row; return how far it is then.

        Raises:
            RuntimeError: There is one of that cell already.
            OSError: It cannot be kept.
        """
        cell = row.cell
        with self._lock:
            if cell not in self._open:
                raise RuntimeError(f"{cell} was simulated twice, or was not asked for")
            if self._file is not None:
                self._file.append(row)
            del self._open[cell]
            self.found[cell] = row
            if row.origin is not None:
                self._took.setdefault(cell.trace, []).append(row.origin.seconds)
            return self.report()

    def close(self) -> None:
        """Put the rows in order.

        Raises:
            RuntimeError: Some are missing.
            OSError: They cannot be written.
        """
        if self._open:
            first = next(iter(self._open))
            raise RuntimeError(f"{len(self._open)} of {len(self._wanted)} simulations are missing: {first}, ...")
        if self._file is not None:
            self._file.finish(self._wanted)

    def report(self) -> Standing:
        """Report how far it is."""
        cells = len(self._wanted)
        standing = Standing(cells - len(self._open), cells, self._left_s(), self._places())
        self._reporter(standing)
        return standing

    def _left_s(self) -> float | None:
        """A cell takes as long as those of its trace did on average, or as all did where none was simulated."""
        if not self._took:
            return None
        means = {trace: sum(times) / len(times) for trace, times in self._took.items()}
        every = sum(means.values()) / len(means)
        return sum(means.get(cell.trace, every) for cell in self._open) / self._places()


def _places() -> Callable[[], int] | None:
    """Counts the places of the program that this is; None: it has none, for it is not within ``apgas.run``."""
    import apgas

    try:
        apgas.here()
    except apgas.UsageError:
        return None
    return lambda: len(apgas.places())


@dataclass(frozen=True, slots=True)
class Sweeping:
    """How the sweep of an experiment is run.

    Attributes:
        scale: How much of it.
        out: The folder of its file, ``cells-SCALE`` with an ending; None: nothing is kept.
        reporter: Called with how far it is.
        form: Of the finished file; None: Parquet where it can be written, else CSV.
        report_only: Whether nothing is simulated, and the rows are those that are kept.
    """

    scale: Scale
    out: Path | None = None
    reporter: Reporter = lambda _: None
    form: Form | None = None
    report_only: bool = False

    def rows(self, cells: Iterable[Cell], simulate: Callable[[Cell], Figures], columns: Sequence[str]) -> list[Row]:
        """Simulate what is not known yet, see ``sweep``; or give the rows that are kept, of some of the cells.

        Raises:
            SweepFileError: The file cannot be gone on with, or holds nothing to report.
            OSError: It cannot be read or written.
        """
        file = None if self.out is None else self.out / f"cells-{self.scale}.{self.form or default_form()}"
        if not self.report_only:
            return sweep(cells, simulate, columns, file=file, reporter=self.reporter)
        if file is None or not any(file.with_suffix(form).exists() for form in (".csv", ".parquet")):
            raise SweepFileError(f"there is no {file or 'file of simulations'} to report")
        with row_file(file, columns) as kept:
            known = [cell for cell in dict.fromkeys(cells) if cell in kept.found]
            kept.finish(known)
            return [kept.found[cell] for cell in known]


# Simulations that several experiments have in common -----------------------------------------------------------------

_NEVER_S: Final = 1e9


def unending(policy: str, *, scaled: bool = False) -> Settings:
    """The settings for ``policy``, with which no job is killed: walltimes, ``scaled`` or not, are for reservations."""
    return replace(settings_for(policy), walltime="scaled" if scaled else "fixed", walltime_grace_s=_NEVER_S)


# The file of a sweep: a row for each simulation, on disk as soon as the simulation is over ---------------------------
#
# Rows are appended to a CSV, of which a process that is killed leaves whole lines and at most one that is cut off. A
# sweep that has all its rows puts them in order, into a Parquet file if that is asked for; then there is no CSV any
# more.


class SweepFileError(ValueError):
    """The file of an earlier sweep cannot be gone on with; the text names it and says why."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One simulation: a workload (another cut has another name), a policy, malleable jobs in percent, a seed."""

    trace: str
    policy: str
    share: int
    seed: int


Number: TypeAlias = int | float | None
Figures: TypeAlias = Mapping[str, Number]
"""What a simulation found, by column; None: there is no such number."""
Form: TypeAlias = Literal["parquet", "csv"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a row comes from: wall time, version of this project, commit (empty: none), Python, processor."""

    seconds: float
    version: str
    commit: str
    python: str
    cpu: str


@dataclass(frozen=True, slots=True)
class Row:
    """A simulation, what it found, and where; two rows that found the same are alike, whatever they come from."""

    cell: Cell
    figures: Figures
    origin: Origin | None = field(default=None, compare=False)


_KEY: Final = tuple(field.name for field in fields(Cell))
_ORIGIN: Final = tuple(field.name for field in fields(Origin))
_PARQUET_NEEDS: Final = ("pandas", "pyarrow")


def origin(seconds: float) -> Origin:
    """Say where a row comes from that took ``seconds`` here and now."""
    return Origin(seconds, *_machine())


@lru_cache(maxsize=1)
def _machine() -> tuple[str, str, str, str]:
    ours = version("malleable-apgas") or ""
    return ours, commit(Path(__file__).parent) or "", platform.python_version(), cpu_model()


def default_form() -> Form:
    """Parquet where what it needs is installed, else CSV."""
    return "parquet" if all(find_spec(name) for name in _PARQUET_NEEDS) else "csv"


@contextmanager
def row_file(path: Path, columns: Sequence[str]) -> Iterator[RowFile]:
    """Open the rows of one sweep; within the block no other process may write them.

    Args:
        path: Ends in ``.parquet`` or ``.csv``, which is the form of the finished file; rows in the other form are gone
            on with, too. The folder is made.
        columns: The names of the figures.

    Raises:
        SweepFileError: It holds another sweep, another one writes it, or it cannot be read.
        OSError: It cannot be read or written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".csv").open("a+", encoding="utf-8", newline="") as journal:
        try:
            fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SweepFileError(f"{journal.name} is being written by another sweep") from None
        yield RowFile(path, columns, journal)


class RowFile:
    """The rows of one sweep; see ``row_file``. What is known of it is ``found``."""

    def __init__(self, path: Path, columns: Sequence[str], journal: TextIO) -> None:
        self._parquet, self._csv = path.with_suffix(".parquet"), path.with_suffix(".csv")
        self._finished = path
        self._columns = tuple(columns)
        self._header = [*_KEY, *columns, *_ORIGIN]
        self._journal = journal
        if (path == self._parquet or self._parquet.exists()) and default_form() != "parquet":
            needs = " and ".join(_PARQUET_NEEDS)
            what = f"{self._parquet} is, or would be, a Parquet file"
            raise SweepFileError(f"{what}, and {needs} are not installed")
        rows = [*(self._read_parquet() if self._parquet.exists() else ()), *self._read_csv()]
        self.found = {row.cell: row for row in rows}

    def append(self, row: Row) -> None:
        """Keep a row; it is with the operating system when this returns."""
        self.found[row.cell] = row
        csv.writer(self._journal, lineterminator="\n").writerow(self._values_of(row))
        self._journal.flush()

    def finish(self, order: Iterable[Cell]) -> None:
        """Write all rows into one file, those of ``order`` first; an interruption leaves them where they were."""
        rows = [self._values_of(self.found[cell]) for cell in dict.fromkeys((*order, *self.found))]
        if self._finished == self._parquet:
            table = io.BytesIO()
            self._frame(rows).to_parquet(table, engine="pyarrow", index=False)
            write_whole(self._finished, table.getvalue())
            self._csv.unlink(missing_ok=True)
        else:
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows([self._header, *rows])
            write_whole(self._finished, text.getvalue().encode())
            self._parquet.unlink(missing_ok=True)

    def _values_of(self, row: Row) -> tuple[object, ...]:
        if row.origin is None:
            raise ValueError(f"a row of {row.cell} that does not say where it comes from cannot be kept")
        return (*astuple(row.cell), *(row.figures[column] for column in self._columns), *astuple(row.origin))

    def _read_csv(self) -> list[Row]:
        """What whole lines say; what is cut off is cut off the file, too, and what is damaged is left out."""
        journal = self._journal
        whole, end, _ = self._csv.read_bytes().rpartition(b"\n")
        journal.truncate(len(whole + end))
        journal.seek(0, os.SEEK_END)
        if not whole:
            csv.writer(journal, lineterminator="\n").writerow(self._header)
            journal.flush()
            return []
        header, *lines = map(_fields, whole.decode(errors="replace").split("\n"))
        self._check(self._csv, header)
        # names come first, then numbers, then what else the origin has
        names, others = 2, len(_ORIGIN) - 1
        rows = []
        for line in lines:
            with suppress(TypeError, ValueError):  # too few fields or many, or one that should be a number
                rows.append(self._row([*line[:names], *map(_number, line[names:-others]), *line[-others:]]))
        return rows

    def _read_parquet(self) -> list[Row]:
        import pandas as pd

        try:
            table = pd.read_parquet(self._parquet, engine="pyarrow", dtype_backend="numpy_nullable")
        except ValueError as error:  # pyarrow's errors on files that are none
            raise SweepFileError(f"{self._parquet} cannot be read: {error}") from None
        self._check(self._parquet, list(table.columns))
        rows = table.astype(object).where(table.notna(), None).itertuples(index=False, name=None)
        return [self._row(values) for values in rows]

    def _row(self, values: Sequence[Any]) -> Row:
        """A row of the file: which cell, its figures, where it comes from."""
        key, figures, where = values[: len(_KEY)], values[len(_KEY) : -len(_ORIGIN)], values[-len(_ORIGIN) :]
        return Row(Cell(*key), dict(zip(self._columns, figures, strict=True)), Origin(*where))

    def _frame(self, rows: Sequence[Sequence[object]]) -> DataFrame:
        import pandas as pd

        columns = dict(zip(self._header, zip(*rows, strict=True), strict=True)) if rows else {}
        return pd.DataFrame({name: pd.array(values, dtype=_kind(values)) for name, values in columns.items()})

    def _check(self, file: Path, header: list[str]) -> None:
        if header != self._header:
            raise SweepFileError(f"{file} holds another sweep: its columns are {', '.join(header)}")


def _fields(line: str) -> list[str]:
    """What a line says by itself; nothing if it is damaged."""
    with suppress(csv.Error):
        return next(csv.reader([line]), [])
    return []


def _number(text: str) -> Number:
    if not text:
        return None
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _kind(values: Iterable[object]) -> str:
    """The type of a column: one with a fraction, or a number that came as one, is a float."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {str}:
        return "string"
    return "Int64" if kinds <= {int} else "Float64"
