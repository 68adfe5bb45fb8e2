"""Many simulations of one experiment: which have to be run, what is known already, how long the rest takes.

Within ``apgas.run`` they are tasks that all places share, as many as there are at the time (``simulations``); without
it they are run one after the other. Rows are the same either way, and are kept as soon as a simulation is over
(``rows``), so that a sweep that was interrupted, however hard, goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Literal, Protocol, Self, TypeAlias, TypeVar

from scheduler_bridge.experiments.rows import (
    Cell,
    Figures,
    Form,
    Found,
    Origin,
    RowFile,
    SweepFileError,
    default_form,
    origin,
)

__all__ = ["Cell", "Figures", "Origin", "Row", "Scale", "Standing", "SweepFileError", "Sweeping", "Told", "sweep"]

Scale: TypeAlias = Literal["small", "full"]


@dataclass(frozen=True, slots=True)
class Row:
    """A simulation, what it found, and where; two rows that found the same are alike, whatever they come from."""

    cell: Cell
    figures: Figures
    origin: Origin | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a sweep is.

    Attributes:
        cell: What was simulated last; None: nothing yet.
        done: Cells that are known.
        cells: All cells.
        left_s: About how long the others take; None: not known yet.
        places: How many simulate at a time.
    """

    cell: Cell | None
    done: int
    cells: int
    left_s: float | None
    places: int = 1


Told: TypeAlias = Callable[[Standing], None]


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
        cells: In the order in which they are simulated, as far as places that take turns keep to it.
        simulate: Simulates one and gives a number for each column; has to travel to other places.
        columns: The names of the numbers.
        file: Where rows are kept, and from where known ones come, in the form that its ending names; None: nowhere.
        told: Is told how far it is, by one thread at a time.
        clock: Seconds, for the time that a simulation takes; has to travel likewise.

    Returns:
        A row for each cell, in their order.

    Raises:
        SweepFileError: The file cannot be gone on with.
        OSError: It cannot be read or written.
    """
    wanted = list(dict.fromkeys(cells))
    with ExitStack() as stack:
        kept = None if file is None else stack.enter_context(RowFile(file, columns))
        books = Books(wanted, {} if kept is None else kept.found, kept, told)
        run = Simulate(simulate, clock)
        if (count := _places()) is None:
            books.begin()
            for cell in books.open():
                books.take(cell, run(cell))
        else:
            from scheduler_bridge.experiments.simulations import on_all_places

            books.places = count
            books.begin()
            on_all_places(books, run)
        books.close()
    return [Row(cell, (found := books.found[cell]).figures, found.origin) for cell in wanted]


@dataclass(frozen=True, slots=True)
class Simulate:
    """Runs a simulation and takes its time; travels to other places."""

    simulate: Callable[[Cell], Figures]
    clock: Callable[[], float]

    def __call__(self, cell: Cell) -> Found:
        """Simulate ``cell``."""
        began = self.clock()
        figures = self.simulate(cell)
        return Found(figures, origin(self.clock() - began))


class Books:
    """What is known of a sweep, and what is not.

    Args:
        wanted: All cells, in order.
        found: What is known from before.
        file: Where rows are kept; None: nowhere.
        told: Is told how far it is.

    Attributes:
        found: What is known.
        places: Returns how many places simulate at a time.
    """

    def __init__(self, wanted: Sequence[Cell], found: dict[Cell, Found], file: RowFile | None, told: Told) -> None:
        self.found = dict(found)
        self.places: Callable[[], int] = lambda: 1
        self._wanted = wanted
        self._open = dict.fromkeys(cell for cell in wanted if cell not in found)
        self._file = file
        self._told = told
        self._took: dict[str, list[float]] = {}
        self._lock = threading.Lock()

    def open(self) -> list[Cell]:
        """The cells of which nothing is known, in order."""
        return list(self._open)

    def begin(self) -> None:
        """Tell what is known from before."""
        self._tell(None)

    def take(self, cell: Cell, found: Found) -> None:
        """Take and keep a row.

        Raises:
            RuntimeError: There is one of that cell already.
            OSError: It cannot be kept.
        """
        with self._lock:
            if cell not in self._open:
                raise RuntimeError(f"{cell} was simulated twice, or nobody asked for it")
            if self._file is not None:
                self._file.append(cell, found)
            del self._open[cell]
            self.found[cell] = found
            self._took.setdefault(cell.trace, []).append(found.origin.seconds)
            self._tell(cell)

    def standing(self) -> tuple[int, int]:
        """How many cells are known, of how many."""
        return len(self._wanted) - len(self._open), len(self._wanted)

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

    def _tell(self, cell: Cell | None) -> None:
        self._told(Standing(cell, *self.standing(), self._left_s(), self.places()))

    def _left_s(self) -> float | None:
        """A cell takes as long as those of its trace did on average, or as all did where none was simulated."""
        if not self._took:
            return None
        means = {trace: sum(times) / len(times) for trace, times in self._took.items()}
        every = sum(means.values()) / len(means)
        return sum(means.get(cell.trace, every) for cell in self._open) / self.places()


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
        told: Is told how far it is.
        form: Of the finished file; None: Parquet where it can be written, else CSV.
        seeds: Other seeds than those of the plan.
    """

    scale: Scale
    out: Path | None = None
    told: Told = lambda _: None
    form: Form | None = None
    seeds: tuple[int, ...] | None = None

    def seeds_of(self, plan: Mapping[Scale, tuple[int, ...]]) -> tuple[int, ...]:
        """The seeds that were asked for, or else those of a plan."""
        return plan[self.scale] if self.seeds is None else self.seeds

    def rows(self, cells: Iterable[Cell], simulate: Callable[[Cell], Figures], columns: Sequence[str]) -> list[Row]:
        """Simulate what is not known yet; see ``sweep``.

        Raises:
            SweepFileError: The file cannot be gone on with.
            OSError: It cannot be read or written.
        """
        file = None if self.out is None else self.out / f"cells-{self.scale}.{self.form or default_form()}"
        return sweep(cells, simulate, columns, file=file, told=self.told)


# A sweep whose cells are simulated on workloads that are read or drawn once, by their names --------------------------


class Named(Protocol):
    """A workload of an experiment."""

    @property
    def name(self) -> str:
        """As cells have it."""


_Trace = TypeVar("_Trace", bound=Named)


@dataclass(frozen=True, slots=True)
class OnTraces(Generic[_Trace]):
    """Simulates cells, each on its workload; travels to other places."""

    traces: Mapping[str, _Trace]
    simulate: Callable[[_Trace, Cell], Figures]

    @classmethod
    def of(cls, traces: Iterable[_Trace], simulate: Callable[[_Trace, Cell], Figures]) -> Self:
        """From the workloads that there are."""
        return cls({trace.name: trace for trace in traces}, simulate)

    def __call__(self, cell: Cell) -> Figures:
        """Simulate ``cell``."""
        return self.simulate(self.traces[cell.trace], cell)
