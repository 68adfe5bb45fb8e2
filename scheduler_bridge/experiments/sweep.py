"""Many simulations of one experiment: which have to be run, what is known already, how long the rest takes.

The rows are kept in one CSV, one for each simulation as soon as it is over, so that an interrupted sweep goes on.
"""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, TextIO, TypeAlias


class SweepFileError(ValueError):
    """The file of an earlier sweep has other columns than this one; the text names it."""


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


Figures: TypeAlias = Mapping[str, float | None]
"""What a simulation found, by column; None: there is no such number."""


@dataclass(frozen=True, slots=True)
class Row:
    """A simulation and what it found."""

    cell: Cell
    figures: Figures


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a sweep is.

    Attributes:
        cell: What was simulated last; None: nothing yet.
        done: Cells that are known.
        cells: All cells.
        left_s: About how long the others take; None: not known yet.
    """

    cell: Cell | None
    done: int
    cells: int
    left_s: float | None


Told: TypeAlias = Callable[[Standing], None]
_KEY: Final = tuple(field.name for field in fields(Cell))


def sweep(
    cells: Iterable[Cell],
    simulate: Callable[[Cell], Figures],
    columns: Sequence[str],
    *,
    file: Path | None = None,
    told: Told = lambda _: None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Row]:
    """Simulate the cells of which nothing is known.

    Args:
        cells: In the order in which they are simulated.
        simulate: Simulates one and gives a number for each column.
        columns: The names of the numbers.
        file: Where rows are kept, and from where known ones come; None: nowhere.
        told: Is told how far it is.
        clock: Seconds, for the time left.

    Returns:
        A row for each cell, in their order.

    Raises:
        SweepFileError: The file holds another sweep.
        OSError: It cannot be read or written.
    """
    wanted = list(dict.fromkeys(cells))
    known = {} if file is None else _kept(file, columns)
    open_cells = [cell for cell in wanted if cell not in known]
    took: dict[str, list[float]] = {}
    told(Standing(None, len(wanted) - len(open_cells), len(wanted), None))
    with _appending(file) as out:
        for number, cell in enumerate(open_cells, start=1):
            began = clock()
            known[cell] = simulate(cell)
            took.setdefault(cell.trace, []).append(clock() - began)
            if out is not None:
                csv.writer(out, lineterminator="\n").writerow(_line(cell, known[cell], columns))
                out.flush()
            left_s = _left_s(open_cells[number:], took)
            told(Standing(cell, len(wanted) - len(open_cells) + number, len(wanted), left_s))
    return [Row(cell, known[cell]) for cell in wanted]


def _left_s(cells: Sequence[Cell], took: Mapping[str, Sequence[float]]) -> float:
    """A cell takes as long as those of its trace did on average, or as all did where none was simulated."""
    means = {trace: sum(times) / len(times) for trace, times in took.items()}
    every = sum(means.values()) / len(means)
    return sum(means.get(cell.trace, every) for cell in cells)


def _line(cell: Cell, figures: Figures, columns: Sequence[str]) -> list[object]:
    values = [figures[column] for column in columns]
    return [getattr(cell, name) for name in _KEY] + ["" if value is None else repr(value) for value in values]


def _kept(file: Path, columns: Sequence[str]) -> dict[Cell, Figures]:
    """What is known from before; the file then has whole lines only."""
    header = [*_KEY, *columns]
    found: dict[Cell, Figures] = {}
    if file.exists():
        with file.open(encoding="utf-8", newline="") as stream:
            lines = csv.reader(line for line in stream if line.endswith("\n"))
            if (there := next(lines, header)) != header:
                raise SweepFileError(f"{file} holds another sweep: its columns are {', '.join(there)}")
            for trace, policy, share, seed, *values in (line for line in lines if len(line) == len(header)):
                numbers = [float(value) if value else None for value in values]
                found[Cell(trace, policy, int(share), int(seed))] = dict(zip(columns, numbers, strict=True))
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with partial.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(_line(cell, figures, columns) for cell, figures in found.items())
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    return found


def _appending(file: Path | None) -> AbstractContextManager[TextIO | None]:
    return nullcontext() if file is None else file.open("a", encoding="utf-8", newline="")
