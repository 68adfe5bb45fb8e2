"""``compute``: one computation from the bag to the result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import apgas
from glb import affinity
from glb.bag import Bag, Result
from glb.config import Config, Setup, check_whole, everywhere
from glb.coordinator import Computation
from glb.elastic import Elastic
from glb.errors import GlbError
from glb.statistics import Statistics, text

R = TypeVar("R", bound=Result)


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """What a computation yields.

    Attributes:
        result: All partial results, folded.
        seconds: From the first task to the folded result; without starting and warming up the initial places.
        statistics: The counts of all places together.
        places: The counts of each place that took part, by id.
        workers: Workers per place, at the end where nothing else was said of one.
    """

    result: R
    seconds: float
    statistics: Statistics
    places: dict[int, Statistics]
    workers: int

    def summary(self) -> str:
        """Return a table of what each place did and a sentence on where the time went, for people."""
        return text(self.places, self.statistics)


class _Program:
    """What place 0 keeps between computations."""

    def __init__(self) -> None:
        self.elastic = Elastic()
        self.registered = False
        self.busy = threading.Lock()
        self.number = 0


_state = apgas.PlaceState(_Program)


def set_user_handler(handler: apgas.MalleableHandler | None) -> None:
    """Have ``handler`` called around every resize, in addition to the balancer's own (place 0).

    Its ``preShrink`` may return the places to release, or an empty list to leave the choice to the balancer; their
    tasks are moved afterwards. Its other methods are called after the balancer's.

    Raises:
        UsageError: Called outside of ``apgas.run``.
    """
    _state.get().elastic.user = handler


def set_workers(workers: int, places: Sequence[apgas.Place] | None = None) -> None:
    """Change how many workers each place has in the computation that runs (place 0, from another thread or activity).

    No task is lost, and nobody waits: workers that are too many hand their bags to those that stay, at their next look;
    new ones are given part of the others' bags. With ``Config.affinity`` the cores are shared out anew.

    Args:
        workers: How many, at least 1.
        places: Whose; None: everybody's, newcomers included. Places that take no part are passed over.

    Raises:
        ConfigError: ``workers`` is not a whole number of at least 1.
        UsageError: Not on place 0, or no computation runs.
    """
    check_whole("workers", workers, 1)
    if apgas.here().id != 0:
        raise apgas.UsageError(f"glb.set_workers works on place 0, not on {apgas.here()}")
    elastic = _state.get().elastic
    with elastic.changing:
        if elastic.current is None:
            raise apgas.UsageError("no computation runs whose workers could change; set Config.workers of the next one")
        elastic.current.set_workers(workers, places)


def compute(bag: Bag[R], result: Callable[[], R], config: Config | None = None) -> Outcome[R]:
    """Process all tasks of ``bag`` on all places, while the job may grow and shrink.

    Args:
        bag: The tasks; the computation takes it over.
        result: Makes an empty result.
        config: The settings.

    Raises:
        UsageError: Not on place 0, during another computation, or the program has registered a handler of its own.
        ExceptionGroup: Errors of ``process``; no worker runs any more.
        LedgerError: Bags or tasks were lost or doubled between places.
    """
    config = config or Config()
    if apgas.here().id != 0:
        raise apgas.UsageError(f"glb.compute works on place 0, not on {apgas.here()}")
    program = _state.get()
    if not program.busy.acquire(blocking=False):
        raise apgas.UsageError("glb.compute is running already; one computation at a time")
    try:
        if not program.registered:
            program.elastic.bound = affinity.told()  # orders for other cores come after that
            _register(program.elastic)
            program.registered = True
        return _compute(program, bag, result, config)
    finally:
        program.busy.release()


def _register(elastic: Elastic) -> None:
    try:
        apgas.define_malleable_handler(elastic)
    except apgas.UsageError as error:
        raise apgas.UsageError(f"{error}; glb registers its own: give yours to glb.set_user_handler instead") from None


def _compute(program: _Program, bag: Bag[R], result: Callable[[], R], config: Config) -> Outcome[R]:
    elastic = program.elastic
    with elastic.changing:
        members = elastic.members()
        workers = config.workers or _default_workers(members, bag, elastic.bound)
        program.number += 1
        setup = Setup(program.number, result, workers, config)
        computation = Computation(setup, members, config.on_progress, elastic.bound)
        try:
            computation.prepare()
        except BaseException:
            computation.forget()
            raise
        computation.progress.start()
        elastic.current = computation
    try:
        statistics = _run(elastic, computation, bag)
        seconds = time.monotonic() - computation.started
        return Outcome(computation.result, seconds, statistics, dict(computation.statistics), computation.workers.usual)
    finally:
        computation.progress.stop()


def _run(elastic: Elastic, computation: Computation[R], bag: Bag[R]) -> Statistics:
    try:
        with apgas.finish(), elastic.changing:
            elastic.changing.notify_all()
            try:
                computation.start(bag)
            except BaseException:
                computation.abort()
                raise
        with elastic.changing:
            elastic.current = None
            if computation.wrong is not None:
                raise computation.wrong
            if computation.reasons:
                raise GlbError("\n".join(computation.reasons))
            return computation.collect()
    except BaseException as error:
        if lost := _lost(error):
            error.add_note(computation.missing(lost))
        computation.abort()
        raise
    finally:
        with elastic.changing:
            elastic.current = None
        computation.forget()


def _lost(error: BaseException) -> set[int]:
    """Return the places whose death ``error`` tells of."""
    if isinstance(error, BaseExceptionGroup):
        return {place for each in error.exceptions for place in _lost(each)}
    return {error.place} if isinstance(error, apgas.DeadPlaceError) else set()


def _default_workers(members: list[apgas.Place], bag: Bag[R], bound: apgas.CoreIds | None) -> int:
    """Return the cores of place 0's machine, or those that it is bound to, divided by the places on it.

    For a bag that would not use them it is 1.
    """
    if not getattr(bag, "releases_gil", True):
        return 1
    machines = [home.machine for home in everywhere(members, affinity.home)]
    return max(1, affinity.cores_here(bound) // machines.count(machines[0]))
