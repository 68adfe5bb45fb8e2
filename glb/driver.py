"""``compute``: one computation from the bag to the result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import apgas
from apgas.malleability.handler import Companion
from apgas.runtime.malleable import register_companion
from apgas.runtime.program import program
from glb import affinity
from glb.bag import Bag, Result
from glb.books import Archive, archive_of_job, kept, mark_of
from glb.config import Config, Setup, check_whole, computation_survives, everywhere, suppress_losses
from glb.coordinator import Computation
from glb.errors import GlbError
from glb.statistics import Statistics, summary_text

if TYPE_CHECKING:
    from apgas.runtime.sizing import Look

R = TypeVar("R", bound=Result)


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """The result of a computation, and how it came about.

    Attributes:
        result: All partial results, folded.
        seconds: From the first task to the folded result; without starting and warming up the initial places.
        statistics: The counts of all places together.
        places: The counts of each place that took part, by id.
        workers: Workers per place, at the end where nothing else was said of one.
        held: Since when, in seconds from the first task, the job held how many nodes: from the beginning of a grow to
            the end of a shrink.
        looks: How busy the nodes were over time, and what the job wanted, if it sizes itself.
    """

    result: R
    seconds: float
    statistics: Statistics
    places: Mapping[int, Statistics]
    workers: int
    held: Sequence[tuple[float, int]] = ()
    looks: Sequence[Look] = ()

    @property
    def node_s(self) -> float:
        """The node-seconds that the job held while it computed."""
        ends = [*(from_s for from_s, _ in self.held[1:]), self.seconds]
        return sum(nodes * (to_s - from_s) for (from_s, nodes), to_s in zip(self.held, ends, strict=True))

    def summary(self) -> str:
        """Return a table of what each place did and a sentence on where the time went, for people."""
        return summary_text(self.places, self.statistics)


def set_user_handler(handler: apgas.MalleableHandler | None) -> None:
    """Have ``handler`` called around every resize, in addition to the balancer's own (place 0).

    Its ``preShrink`` may return the places to release, or an empty list to leave the choice to the balancer; their
    tasks are moved afterwards. Its other methods are called after the balancer's.

    Raises:
        UsageError: Called outside of ``apgas.run``.
    """
    _elastic.get().user = handler


def set_workers(workers: int, places: Sequence[apgas.Place] | None = None) -> None:
    """Change how many workers each place has in the computation that runs (place 0, from another thread or activity).

    No task is lost, and none waits: workers that are too many hand their bags to those that stay, at their next look;
    new ones are given part of the others' bags. With ``Config.affinity`` the cores are shared out anew.

    Args:
        workers: How many, at least 1.
        places: Whose; None: those of all places, newcomers included. Places that take no part are passed over.

    Raises:
        ConfigError: ``workers`` is not a whole number of at least 1.
        UsageError: Not on place 0, or no computation runs.
    """
    check_whole("workers", workers, 1)
    if apgas.here().id != 0:
        raise apgas.UsageError(f"glb.set_workers works on place 0, not on {apgas.here()}")
    elastic = _elastic.get()
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
        ExceptionGroup: Errors of ``process`` and ``split`` (``BagError``, ``LedgerError``); no worker runs any more.
        DeadPlaceError: A place of a resilient job died without ``Config.backup_s``, and its part of the result with it,
            as a note says; what else went wrong is its cause.
        LedgerError: Bags or tasks were lost or doubled between places.
    """
    config = config or Config()
    if apgas.here().id != 0:
        raise apgas.UsageError(f"glb.compute works on place 0, not on {apgas.here()}")
    if isinstance(bag, type):
        raise apgas.UsageError(f"glb.compute needs a bag, not the class {bag.__name__}: make one of it")
    elastic = _elastic.get()
    if not elastic.busy.acquire(blocking=False):
        raise apgas.UsageError("glb.compute is running already; one computation at a time")
    try:
        if not elastic.registered:
            elastic.bound = affinity.assigned_cores()  # orders for other cores come after that
            elastic.archive = archive_of_job()
            try:
                register_companion(elastic)
            except apgas.UsageError as error:
                said = f"{error}; glb registers its own: give yours to glb.set_user_handler instead"
                raise apgas.UsageError(said) from None
            elastic.registered = True
        return _compute(elastic, bag, result, config)
    except ExceptionGroup as group:
        if computation_survives(config) or not (losses := _losses(group)):
            raise
        first = losses[0]
        loss = apgas.DeadPlaceError(first.place, first.epoch, first.node, first.activities)
        for note in getattr(group, "__notes__", ()):
            loss.add_note(note)
        raise loss from group
    finally:
        elastic.busy.release()


def _compute(elastic: Elastic, bag: Bag[R], result: Callable[[], R], config: Config) -> Outcome[R]:
    elastic.number += 1
    archive = elastic.archive if computation_survives(config) else None
    mark: tuple[str, ...] = ()
    former: Any = None
    if archive is not None:
        mark = mark_of(bag, result())
        former = archive.find(elastic.number, mark)
        if isinstance(former, Outcome):
            return former
    elastic.size(config.target_efficiency)
    with elastic.changing:
        members = elastic.members()
        workers = config.workers or _default_workers(members, bag, elastic.bound)
        setup = Setup(elastic.number, result, workers, config, keeps=archive is not None)
        computation = Computation(setup, members, config.on_progress, elastic.bound, elastic.changing, former)
        try:
            computation.prepare()
        except BaseException:
            computation.forget()
            raise
        computation.progress.start()
        if elastic.sizing is not None:
            computation.gauge.measure(setup.number)  # what is measured next is so since now
        if not elastic.held:
            elastic.hold()
        elastic.current = computation
    with ExitStack() as stack:
        stack.callback(computation.progress.stop)
        if archive is not None:
            every_s = config.backup_s or 0.0
            stack.enter_context(kept(archive, setup.number, mark, computation.books, every_s))
        statistics = _run(elastic, computation, bag)
        seconds = time.monotonic() - computation.started
        outcome = Outcome(
            computation.result,
            seconds,
            statistics,
            computation.by_place,
            computation.workers.usual,
            elastic.held_since(computation.started, seconds),
            () if elastic.sizing is None else elastic.sizing.looks_since(computation.started),
        )
    if archive is not None:
        archive.keep(setup.number, mark, outcome)
    return outcome


def _run(elastic: Elastic, computation: Computation[R], bag: Bag[R]) -> Statistics:
    start = partial(computation.start, bag)
    try:
        while True:
            _finish(elastic, computation, start)
            computation.wait_for_rounds()
            with elastic.changing:
                if computation.wrong is not None:
                    raise computation.wrong
                if computation.reasons:
                    raise GlbError("\n".join(computation.reasons))
                lost = computation.recover()
                if not (lost or computation.rounds) and (statistics := computation.collect()) is not None:
                    elastic.current = None
                    return statistics
                start = partial(computation.start_again, lost or computation.recover())
    except BaseException as error:
        if (losses := _losses(error)) and not computation.setup.survives:
            error.add_note(computation.missing({loss.place for loss in losses}))
        computation.abort()
        raise
    finally:
        with elastic.changing:
            elastic.current = None
        computation.forget()


def _finish(elastic: Elastic, computation: Computation[R], start: Callable[[], None]) -> None:
    """Have the places work until nothing is left to do, but what is lost with places whose loss is survived."""
    survives = computation.setup.survives
    # with backups every bag comes from place 0, which is answered, and the reports go along with these answers
    with suppress_losses(survives), apgas.finish(dense=not survives), elastic.changing:
        elastic.changing.notify_all()
        try:
            start()
        except BaseException:
            computation.abort()
            raise


def _losses(error: BaseException) -> list[apgas.DeadPlaceError]:
    """Return what ``error`` consists of that reports the death of a place."""
    if isinstance(error, BaseExceptionGroup):
        return [loss for each in error.exceptions for loss in _losses(each)]
    return [error] if isinstance(error, apgas.DeadPlaceError) else []


def _default_workers(members: list[int], bag: Bag[R], bound: apgas.CoreIds | None) -> int:
    """Return the cores of place 0's machine, or those that it is bound to, divided by the places on it.

    For a bag that would not use them it is 1.
    """
    if not getattr(bag, "releases_gil", True):
        return 1
    homes = everywhere(members, affinity.home, survives=True)
    machines = [home.machine for home in homes.values()]
    return max(1, affinity.cores_here(bound) // machines.count(homes[0].machine))


# The balancer's malleable handler: what happens to a computation when the job grows or shrinks -----------------------

LOOK_EVERY_S: Final = 0.1
"""How often an order that waits for a computation looks whether it is still wanted."""


class Elastic(Companion):
    """What place 0 keeps between computations; registered once per program, by the first of them.

    Every change of a computation's members, its beginning and its end exclude each other (``changing``), so a resize
    that overlaps the end finds either a running computation or none. Between computations ``pre*`` waits, but not where
    the handler accompanies another one.

    Attributes:
        changing: Held while members change; notified when ``current`` does, the computation that runs.
        user: The program's own handler, called in addition.
        bound: The cores on which the job is to compute only, if it was asked to.
        held: From which time on, by ``time.monotonic``, the job held how many nodes.
        busy: Held from before a computation begins until it is over.
        number: That of the last computation.
    """

    def __init__(self) -> None:
        self.changing = threading.Condition()
        self.current: Computation[Any] | None = None
        self.user: apgas.MalleableHandler | None = None
        self.bound: apgas.CoreIds | None = None
        self._leaving: set[int] = set()
        self.held: list[tuple[float, int]] = []
        self.busy = threading.Lock()
        self.registered = False
        self.number = 0
        self.archive: Archive | None = None
        self.sizing: apgas.SelfSizing | None = None
        self._target: float | apgas.Sizing | None = None

    def size(self, target: float | apgas.Sizing | None) -> None:
        """Let the job size itself from now on, or no more; with the same target it goes on as before."""
        if target == self._target:
            return
        sizing = None if target is None else apgas.hold_efficiency(target, self._measure)  # or it refuses the target
        if self.sizing is not None:
            self.sizing.stop()
        self._target, self.sizing = target, sizing

    def _measure(self) -> apgas.Measured | None:
        computation = self.current
        return None if computation is None else computation.gauge.measure(computation.setup.number)

    def held_since(self, began_s: float, seconds: float) -> tuple[tuple[float, int], ...]:
        """Return when the number of nodes changed within ``seconds`` from ``began_s`` on, and what to."""
        held = tuple(self.held)
        first = max((at for at in held if at[0] <= began_s), default=held[0])
        later = [(at_s - began_s, nodes) for at_s, nodes in held if 0 < at_s - began_s < seconds]
        return ((0.0, first[1]), *later)

    def hold(self, arriving: int = 0) -> None:
        """Note how many nodes the job holds, with places that arrive."""
        nodes = apgas.nodes()
        self.held.append((time.monotonic(), len(nodes) + arriving // max(map(len, nodes))))

    def members(self) -> list[int]:
        """Return the places that a computation which begins now may use."""
        return [place.id for place in apgas.places() if place.id not in self._leaving]

    @contextmanager
    def _running(self) -> Iterator[Computation[Any] | None]:
        """Wait for a running computation and keep it from ending.

        Yields None if the order is not awaited any more: it was withdrawn meanwhile, or took too long.
        """
        resizing = program().resizing
        with self.changing:
            while self.current is None and resizing.awaits_handler:
                self.changing.wait(LOOK_EVERY_S)
            yield self.current if resizing.awaits_handler else None

    def preShrink(self, nb_places: int) -> Sequence[int]:
        """Evacuate the places with the least work, or those that the program's handler chooses."""
        with self._running() as computation:
            if computation is None:
                return []
        named = self.user.preShrink(nb_places) if self.user is not None else ()
        chosen = [apgas.Place.number(place) for place in named]
        with self._running() as computation:
            if computation is None:
                return chosen
            leavers = chosen or computation.choose(nb_places)
            if any(place == 0 or place not in computation.members for place in leavers):
                raise GlbError(f"{nb_places} places are to leave, never place 0; chosen were {leavers}")
            computation.release(leavers)  # if the order is given up meanwhile, ``shrinkAborted`` follows
            self._leaving.update(leavers)
        return leavers

    def evacuate(self, places: Sequence[apgas.Place]) -> None:
        """Move the work off places that another handler has chosen; computations that begin now do without them."""
        ids = [place.id for place in places]
        with self.changing:
            if self.current is not None and (leavers := [place for place in ids if place in self.current.members]):
                self.current.release(leavers)
            self._leaving.update(ids)

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None:
        """The leavers are gone; everything was moved before."""
        with self.changing:
            self._leaving.difference_update(place.id for place in removed_places)
        if self.user is not None:
            self.user.postShrink(nb_places, removed_places)

    def preGrow(self, nb_places: int) -> None:
        """Wait for a computation that newcomers can join."""
        self.hold(nb_places)
        with self._running() as computation:
            if computation is not None:
                computation.give_back_cores()
        if self.user is not None and computation is not None:
            self.user.preGrow(nb_places)

    def postGrow(
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        """Let the newcomers join the running computation; the next one uses them anyway."""
        with self.changing:
            if self.current is not None:
                self.current.admit([place.id for place in new_places])
        if self.user is not None:
            self.user.postGrow(nb_places, continued_places, new_places)

    def setWorkers(self, nb_workers: int) -> None:
        """Change the workers of the computation that runs, and the cores on which they are.

        Raises:
            GlbError: None runs, or a place may not use such cores.
        """
        with self.changing:
            if self.current is None:
                raise GlbError("no computation runs whose workers could change")
            bound = affinity.assigned_cores()
            self.current.bind(bound)
            self.current.set_workers(nb_workers, None)
            self.bound = bound

    def shrinkAborted(self, places: Sequence[apgas.Place]) -> None:
        """Take evacuated places back."""
        ids = [place.id for place in places]
        with self.changing:
            self._leaving.difference_update(ids)
            if self.current is not None:
                self.current.readmit(ids)
        if self.user is not None:
            self.user.shrinkAborted(places)

    def orderEnded(self, record: apgas.ResizeRecord) -> None:
        """Take place 0's share of the cores again if no newcomer came for whom it had given way."""
        if record.kind != "workers":
            self.hold()
        with self.changing:
            if record.kind == "grow" and record.outcome != "done" and self.current is not None:
                self.current.share_cores()
        if self.user is not None:
            self.user.orderEnded(record)


_elastic: Final = apgas.PlaceState(Elastic)
