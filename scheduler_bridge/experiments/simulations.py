"""A sweep on places: simulations are the tasks of a bag, whose rows go to place 0 as soon as they are there.

A simulation takes between milliseconds and minutes, and neither thieves should wait so long for work nor the
scheduler for nodes. So it runs in a thread beside the worker, which looks often. A place that leaves does not wait for
its simulation but gives it away with its other tasks, and another place begins it anew; a row is sent by the worker
only, which has given the simulation up then, so there is never a second one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Final, TypeAlias

import apgas
import glb
from scheduler_bridge.experiments.sweep import Books, Cell, Row

LOOK_S: Final = 0.02
"""So often a worker looks after its place while a simulation runs."""
Run: TypeAlias = Callable[[Cell], Row]
Deliver: TypeAlias = Callable[[Row], None]
Task: TypeAlias = tuple[int, Cell]


class Done:
    """The numbers of the simulations that are over."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def merge(self, other: Done) -> None:
        """Add those of ``other``."""
        self.numbers += other.numbers


class Simulations:
    """Numbered cells that are to be simulated, in ascending order, lowest first.

    ``run`` and ``deliver``, which takes a row on the place where the simulation has run, travel with them.
    """

    releases_gil = False

    def __init__(self, tasks: list[Task], run: Run, deliver: Deliver) -> None:
        self.work = 0
        self._tasks = tasks
        self._run = run
        self._deliver = deliver
        self._under_way: tuple[Task, Future[Row]] | None = None
        self._done: list[int] = []

    def __len__(self) -> int:
        return len(self._tasks) + (self._under_way is not None)

    def process(self, n: int) -> bool:
        """End up to ``n`` simulations; return early where one takes longer than a worker should not look."""
        for _ in range(n):
            if self._under_way is None:
                if not self._tasks:
                    return False
                task = self._tasks.pop(0)
                self._under_way = task, _begun(task, self._run)
            (number, _), row = self._under_way
            if not wait((row,), LOOK_S).done:
                return True
            self._under_way = None
            self._deliver(row.result())
            self._done.append(number)
            self.work += 1
        return not self.is_empty()

    def split(self, all: bool) -> Simulations | None:
        """Give every other simulation away, so that all places begin with the first ones; or all of them."""
        if all:
            given, self._tasks = self._all(), []
            self._under_way = None
        elif self._under_way is None:
            given, self._tasks = self._tasks[1::2], self._tasks[::2]
        else:
            given, self._tasks = self._tasks[::2], self._tasks[1::2]
        return Simulations(given, self._run, self._deliver) if given else None

    def merge(self, other: Simulations) -> None:
        """Take the simulations of ``other``, and what it has done."""
        self._tasks = sorted([*self._tasks, *other._all()])
        self._done += other._done
        other._tasks, other._under_way, other._done = [], None, []

    def is_empty(self) -> bool:
        """Return whether none is left."""
        return not len(self)

    def is_splittable(self) -> bool:
        """Return whether there is one beside that under way, or the one that would be next."""
        return len(self) > 1

    def submit(self, result: Done) -> None:
        """Fold the numbers of what was done into ``result``."""
        result.numbers += self._done
        self._done = []

    def _all(self) -> list[Task]:
        return self._tasks if self._under_way is None else [self._under_way[0], *self._tasks]

    def __getstate__(self) -> dict[str, object]:
        """A simulation that is under way stays here; its task travels."""
        return {**self.__dict__, "_tasks": self._all(), "_under_way": None}


def _begun(task: Task, run: Run) -> Future[Row]:
    """Begin a simulation in a thread of its own, which no process waits for when it ends."""
    number, cell = task
    found: Future[Row] = Future()

    def simulate() -> None:
        try:
            found.set_result(run(cell))
        except BaseException as error:  # noqa: BLE001 - the worker raises it
            error.add_note(f"in the simulation of {cell}")
            found.set_exception(error)

    threading.Thread(target=simulate, name=f"simulation-{number}", daemon=True).start()
    return found


class _Desk:
    """Where place 0 takes rows, and how many places it was asked for."""

    def __init__(self) -> None:
        self.books: Books | None = None
        self.missing = 0


_desk = apgas.PlaceState(_Desk)


def start_places(count: int) -> None:
    """(place 0) Let the next sweep begin by growing to ``count`` places in all."""
    _desk.get().missing = max(0, count - len(apgas.places()))


def on_all_places(books: Books, run: Run) -> None:
    """(place 0) Simulate what is open in ``books`` on all places, while the job may grow and shrink.

    Raises:
        BaseException: What went wrong in a simulation, or in keeping its row.
    """
    desk, cells = _desk.get(), books.open()
    if not cells:
        return
    desk.books = books
    bag = Simulations(list(enumerate(cells)), run, _send)
    # progress is reported with every row, with the number of all simulations
    config = glb.Config(workers=1, granularity=1, static=True, on_progress=lambda *_: None, warm_up=_grow)
    try:
        outcome = glb.compute(bag, Done, config)
    except BaseExceptionGroup as group:
        raise _first(group) from group
    finally:
        desk.books = None
    if sorted(outcome.result.numbers) != list(range(len(cells))):
        raise RuntimeError(f"{len(outcome.result.numbers)} of {len(cells)} simulations were run")


def _grow() -> None:
    """(any place, before it works) An order that came before the computation would be refused."""
    missing, _desk.get().missing = _desk.get().missing, 0
    if missing:
        apgas.schedule_orders(f"0:+{missing}")


def _send(row: Row) -> None:
    """(any place) The computation's finish waits for the row, too, and hears of it if it cannot be kept."""
    apgas.async_at(apgas.place(0), _take, row)


def _take(row: Row) -> None:
    books = _desk.get().books
    if books is None:
        raise RuntimeError(f"a row of {row.cell} came when no sweep was running")
    now = books.take(row)
    apgas.progress(now.done, now.cells, "simulations")


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
