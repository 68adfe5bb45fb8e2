"""``compute``: one computation from the bag to the result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import apgas
from glb import messages
from glb.bag import Bag, Result
from glb.config import Config
from glb.coordinator import Computation
from glb.elastic import Elastic
from glb.errors import GlbError
from glb.setup import Setup, everywhere
from glb.statistics import Statistics

R = TypeVar("R", bound=Result)


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """What a computation yields.

    Attributes:
        result: All partial results, folded.
        seconds: From the first task to the folded result; without starting and warming up the initial places.
        statistics: The counts of all places together.
        places: The counts of each place that took part, by id.
        workers: Workers per place.
    """

    result: R
    seconds: float
    statistics: Statistics
    places: dict[int, Statistics]
    workers: int


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
        workers = config.workers or _default_workers(members)
        program.number += 1
        setup = Setup(program.number, result, workers, config)
        computation = Computation(setup, members, config.on_progress)
        try:
            computation.prepare()
        except BaseException:
            computation.forget()
            raise
        computation.progress.start()
        elastic.current = computation
    try:
        statistics = _run(elastic, computation, bag)
        seconds = time.perf_counter() - computation.started
        return Outcome(computation.result, seconds, statistics, dict(computation.statistics), workers)
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


def _default_workers(members: list[apgas.Place]) -> int:
    """Return the cores of place 0's machine divided by the places on it."""
    machines = everywhere(members, messages.describe)
    name, cores = machines[0]
    return max(1, cores // sum(machine == name for machine, _ in machines))
