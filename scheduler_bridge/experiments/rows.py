"""The file of a sweep: a row for each simulation, on disk as soon as the simulation is over.

Rows are appended to a CSV, of which a process that is killed leaves whole lines and at most one that is cut off. A
sweep that has all its rows puts them in order, into a Parquet file if that is asked for; then there is no CSV any more.
"""

from __future__ import annotations

import csv
import fcntl
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass, fields
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TextIO, TypeAlias

from apgas.provenance import commit, cpu_model, version

if TYPE_CHECKING:
    from pandas import DataFrame


class SweepFileError(ValueError):
    """The file of an earlier sweep cannot be gone on with; the text names it and says why."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One simulation.

    Attributes:
        trace: The name of the workload; another cut of it has another name.
        policy: Of this project.
        share: Malleable jobs in percent.
        seed: Determines what is drawn.
    """

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
    """Where a row comes from.

    Attributes:
        seconds: How long the simulation took, in wall time.
        version: Of this project.
        commit: That was checked out; empty: none.
        python: Its version.
        cpu: Name of the processor.
    """

    seconds: float
    version: str
    commit: str
    python: str
    cpu: str


@dataclass(frozen=True, slots=True)
class Found:
    """What a simulation found, and where."""

    figures: Figures
    origin: Origin


_KEY: Final = tuple(field.name for field in fields(Cell))
_ORIGIN: Final = tuple(field.name for field in fields(Origin))
_PARQUET_NEEDS: Final = ("pandas", "pyarrow")


def origin(seconds: float) -> Origin:
    """Tell where a row comes from that took ``seconds`` here and now."""
    return Origin(seconds, *_machine())


@lru_cache(maxsize=1)
def _machine() -> tuple[str, str, str, str]:
    ours = version("malleable-apgas") or ""
    return ours, commit(Path(__file__).parent) or "", platform.python_version(), cpu_model()


def default_form() -> Form:
    """Parquet where what it needs is installed, else CSV."""
    return "parquet" if all(find_spec(name) for name in _PARQUET_NEEDS) else "csv"


class RowFile:
    """The rows of one sweep. Use it in a ``with`` block; nobody else may write it meanwhile.

    Args:
        path: Ends in ``.parquet`` or ``.csv``, which is the form of the finished file; rows in the other form are gone
            on with, too. The folder is made.
        columns: The names of the figures.

    Attributes:
        found: What is known.

    Raises:
        SweepFileError: (on entering) It holds another sweep, another one writes it, or it cannot be read.
        OSError: It cannot be read or written.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.found: dict[Cell, Found] = {}
        self._parquet, self._csv = path.with_suffix(".parquet"), path.with_suffix(".csv")
        self._finished = path
        self._columns = tuple(columns)
        self._header = [*_KEY, *columns, *_ORIGIN]
        self._open = ExitStack()
        self._journal: TextIO | None = None

    def __enter__(self) -> Self:
        self._finished.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as undone:
            journal = undone.enter_context(self._csv.open("a+", encoding="utf-8", newline=""))
            try:
                fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SweepFileError(f"{self._csv} is being written by another sweep") from None
            if self._finished == self._parquet or self._parquet.exists():
                _need_pyarrow(self._parquet)
            if self._parquet.exists():
                self.found.update(self._read_parquet())
            self.found.update(self._read_csv(journal))
            self._open, self._journal = undone.pop_all(), journal
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._journal = None
        self._open.close()

    def append(self, cell: Cell, found: Found) -> None:
        """Keep a row; it is with the operating system when this returns."""
        if self._journal is None:
            raise ValueError(f"{self._csv} is not open")
        self.found[cell] = found
        csv.writer(self._journal, lineterminator="\n").writerow(self._line(cell, found))
        self._journal.flush()

    def finish(self, order: Iterable[Cell]) -> None:
        """Write all rows into one file, those of ``order`` first; an interruption leaves them where they were."""
        cells = [*order, *self.found]
        partial = self._finished.with_name(f".{self._finished.name}.{os.getpid()}")
        try:
            if self._finished == self._parquet:
                self._frame(dict.fromkeys(cells)).to_parquet(partial, engine="pyarrow", index=False)
            else:
                with partial.open("w", encoding="utf-8", newline="") as stream:
                    writer = csv.writer(stream, lineterminator="\n")
                    writer.writerow(self._header)
                    writer.writerows(self._line(cell, self.found[cell]) for cell in dict.fromkeys(cells))
            partial.replace(self._finished)
        finally:
            partial.unlink(missing_ok=True)
        other = self._csv if self._finished == self._parquet else self._parquet
        other.unlink(missing_ok=True)

    def _line(self, cell: Cell, found: Found) -> list[object]:
        return ["" if value is None else value for value in self._values_of(cell, found)]

    def _values_of(self, cell: Cell, found: Found) -> tuple[object, ...]:
        return (*astuple(cell), *(found.figures[column] for column in self._columns), *astuple(found.origin))

    def _read_csv(self, journal: TextIO) -> dict[Cell, Found]:
        """What whole lines say; what is cut off is cut off the file, too."""
        journal.seek(0)
        whole = [line for line in journal if line.endswith("\n")]
        journal.truncate(sum(len(line.encode()) for line in whole))
        journal.seek(0, os.SEEK_END)
        if not whole:
            csv.writer(journal, lineterminator="\n").writerow(self._header)
            journal.flush()
            return {}
        lines = csv.reader(whole)
        self._check(self._csv, next(lines))
        return dict(self._row(line) for line in lines if len(line) == len(self._header))

    def _row(self, line: Sequence[str]) -> tuple[Cell, Found]:
        trace, policy, share, seed, *values = line
        numbers = [_number(value) for value in values[: len(self._columns)]]
        seconds, *others = values[len(self._columns) :]
        figures = dict(zip(self._columns, numbers, strict=True))
        return Cell(trace, policy, int(share), int(seed)), Found(figures, Origin(float(seconds), *others))

    def _read_parquet(self) -> dict[Cell, Found]:
        import pandas as pd

        try:
            table = pd.read_parquet(self._parquet, engine="pyarrow", dtype_backend="numpy_nullable")
        except ValueError as error:  # pyarrow's errors on files that are none
            raise SweepFileError(f"{self._parquet} cannot be read: {error}") from None
        self._check(self._parquet, list(table.columns))
        rows = table.astype(object).where(table.notna(), None).itertuples(index=False, name=None)
        return dict(self._row_of(row) for row in rows)

    def _row_of(self, row: tuple[Any, ...]) -> tuple[Cell, Found]:
        key, figures, where = row[: len(_KEY)], row[len(_KEY) : -len(_ORIGIN)], row[-len(_ORIGIN) :]
        return Cell(*key), Found(dict(zip(self._columns, figures, strict=True)), Origin(*where))

    def _frame(self, cells: Iterable[Cell]) -> DataFrame:
        import pandas as pd

        rows = [self._values_of(cell, self.found[cell]) for cell in cells]
        columns = dict(zip(self._header, zip(*rows, strict=True), strict=True)) if rows else {}
        return pd.DataFrame({name: pd.array(values, dtype=_kind(values)) for name, values in columns.items()})

    def _check(self, file: Path, header: list[str]) -> None:
        if header != self._header:
            raise SweepFileError(f"{file} holds another sweep: its columns are {', '.join(header)}")


def _need_pyarrow(file: Path) -> None:
    if default_form() != "parquet":
        needs = " and ".join(_PARQUET_NEEDS)
        raise SweepFileError(f"{file} is, or would be, a Parquet file, and {needs} are not installed")


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
