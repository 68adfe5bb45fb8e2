"""Place 0's side of a computation: members, workers, resizes, progress, reduction."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final, Generic, TypeVar

import apgas
from glb import affinity, messages, runner
from glb.bag import Bag, Result
from glb.config import Report, Setup, everywhere
from glb.core.leavers import Load, choose_leavers, deal, total_load
from glb.core.ledger import Ledger
from glb.core.pool import cut_in_pieces
from glb.errors import GlbError, LedgerError
from glb.statistics import Statistics, tasks_in

R = TypeVar("R", bound=Result)


class Computation(Generic[R]):
    """One computation. Resizes and the beginning and end exclude each other by the caller's lock.

    Args:
        setup: What every place knows.
        members: The places at the start.
        show: The program's progress callback.
        bound: The cores on which the job is to compute only, if it was asked to.
    """

    def __init__(
        self,
        setup: Setup[R],
        members: list[apgas.Place],
        show: Callable[[int, int, int], None] | None,
        bound: apgas.CoreIds | None = None,
    ) -> None:
        self.setup = setup
        self.members = members
        self.workers = Workers(setup.workers)
        self.progress = Progress(show, lambda: len(self.members), lambda: self.workers.total(self.members))
        self.statistics: dict[int, Statistics] = {}
        self.result = setup.make_result()
        self.aborted = threading.Event()
        self.reasons: list[str] = []
        self.wrong: LedgerError | None = None
        self.started = time.monotonic()
        self._homes: dict[int, affinity.Home] = {}
        self._used: dict[int, tuple[int, ...] | None] = {}
        self._bound = bound
        self._ledger = Ledger()
        self._latest: dict[int, Load] = {}
        self._initial = Statistics()

    # beginning and end ----------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Let all members join; place 0 first, so that kernels are compiled once and loaded by the others."""
        messages.enlist(self)
        registered = not self.setup.config.static
        for places in (self.members[:1], self.members[1:]):
            self._settle(places, everywhere(places, runner.join, self.setup, self.members, registered, self._bound))
        self._ledger.joined(place.id for place in self.members)
        self.share_cores()

    def start(self, bag: Bag[R]) -> None:
        """Deal the first bags, in the body of the computation's finish."""
        self.started = time.monotonic()
        self._initial.tasks += bag.work
        if not self.setup.config.static:
            self._deal(self.members[0], bag)
            return
        takers = [place for place in self.members for _ in range(self.workers.of(place))]
        parts = _partition(bag, len(takers))
        served = set()
        for index, part in enumerate(parts):
            place = takers[index * len(takers) // len(parts)]
            served.add(place)
            self._deal(place, part)
        for place in self.members:
            if place not in served:
                apgas.immediate(place, messages.begin, self.setup.number)

    def _deal(self, place: apgas.Place, bag: Bag[R]) -> None:
        tasks = tasks_in(bag)
        self._ledger.dealt(tasks)
        self._initial.sent += 1
        self._initial.tasks_sent += tasks
        apgas.async_at(place, messages.receive, self.setup.number, bag, None)

    def collect(self) -> Statistics:
        """Fold the results of all places and return the merged statistics.

        Raises:
            LedgerError: Bags or tasks were lost or doubled on the way.
        """
        for report in everywhere(self.members, messages.collect, self.setup.number):
            self._fold(report)
        self._ledger.close()
        total = Statistics()
        total.merge(self._initial)
        for statistics in self.statistics.values():
            total.merge(statistics)
        return total

    def abort(self, reason: str = "") -> None:
        """Stop all workers, because the computation has failed; the finish reports why. Never blocks."""
        if reason:
            self.reasons.append(reason)
        if not self.aborted.is_set():
            self.aborted.set()
            for place in self.members:
                apgas.immediate(place, messages.aborted, self.setup.number)

    def notice_losses(self) -> None:
        """Stop all workers if a member has died: no result can be right any more. Never blocks."""
        if not self.aborted.is_set() and not set(apgas.places()).issuperset(self.members):
            self.abort()

    def forget(self) -> None:
        """Free what the places still hold of a computation that is over."""
        messages.dismiss(self.setup.number)
        for place in apgas.places():
            apgas.immediate(place, messages.forget, self.setup.number)

    def _fold(self, report: Report[R]) -> None:
        # waiting for others to warm up is not starving
        early_s = max(0.0, report.present_s - (time.monotonic() - self.started))
        report.statistics.starving_s = max(0.0, report.statistics.starving_s - early_s * self.setup.workers)
        self._ledger.reported(report.place, report.statistics)
        self.result.merge(report.result)
        self.progress.settle(report.place, report.statistics.tasks)
        self.statistics.setdefault(report.place, Statistics()).merge(report.statistics)

    # resizes --------------------------------------------------------------------------------------------------------

    def choose(self, count: int) -> list[apgas.Place]:
        """Choose ``count`` members to leave, whole nodes, those that the scheduler wishes for first."""
        nodes = apgas.nodes()
        candidates = {node[0].id: node for node in nodes[1:] if all(place in self.members for place in node)}
        loads = self._latest = self._loads(self.members)
        wished = {place.id for place in apgas.shrink_wish()}
        home = self.members[0].node
        chosen = choose_leavers(
            count // max(map(len, nodes)),
            [total_load([loads[place.id] for place in node]) for node in candidates.values()],
            wished.intersection(candidates),
            {first for first, node in candidates.items() if node[0].node == home},
        )
        return sorted(place for first in chosen for place in candidates[first])

    def release(self, leavers: Sequence[apgas.Place]) -> None:
        """Move all work and results off ``leavers``; on an error they go on.

        Raises:
            LedgerError: Bags or tasks were doubled on the way.
        """
        survivors = [place for place in self.members if place not in leavers]
        before, self.members = self.members, survivors
        try:
            loads = self._latest if self._latest.keys() == {place.id for place in before} else self._loads(before)
            self._latest = {}
            turns = deal([loads[place.id] for place in leavers], [loads[place.id] for place in survivors])
            counts = self._announce(survivors)
            reports = everywhere(list(leavers), messages.evacuate, self.setup.number, survivors, turns)
            self._compare(counts | {report.place: report.statistics for report in reports})
        except BaseException:
            self.members = before
            self.abort("a place could not be evacuated")
            raise
        for report in reports:
            self._fold(report)
        self.share_cores()
        if self.aborted.is_set():
            # they do not hear of it as members any more
            for place in leavers:
                apgas.immediate(place, messages.aborted, self.setup.number)

    def admit(self, newcomers: Sequence[apgas.Place]) -> None:
        """Let newcomers take part, unless they do so already."""
        new = [place for place in newcomers if place not in self.members]
        if not new or self.aborted.is_set():
            return
        old = self.members
        self._join(new, old)
        self._compare(self._announce(old))
        self.share_cores()
        if self.aborted.is_set():
            for place in new:
                apgas.immediate(place, messages.aborted, self.setup.number)

    def readmit(self, places: Sequence[apgas.Place]) -> None:
        """Take back places that were evacuated, because they stay after all."""
        back = [place for place in places if place not in self.members]
        if not back or self.aborted.is_set():
            return
        members = sorted([*self.members, *back])
        joined = everywhere(back, messages.takes_part, self.setup.number)
        known = [place for place, joins in zip(back, joined, strict=True) if joins]
        strangers = [place for place in back if place not in known]
        old = [place for place in members if place not in strangers]
        self._join(strangers, old)
        everywhere(known, messages.readmit, self.setup.number, members)
        self._ledger.joined(place.id for place in known)
        self._compare(self._announce(old))
        self.share_cores()
        for place in known:
            apgas.immediate(place, messages.begin, self.setup.number)

    def _join(self, new: list[apgas.Place], old: list[apgas.Place]) -> None:
        self.members = sorted([*old, *new])
        usual = self.workers.usual
        homes = everywhere(new, runner.join_late, self.setup, self.members, old, usual, self._bound)
        self._settle(new, homes)
        self._ledger.joined(place.id for place in new)
        # not before: one that has work gives some to those that join with it
        for place in new:
            apgas.immediate(place, messages.begin, self.setup.number)

    # workers --------------------------------------------------------------------------------------------------------

    def set_workers(self, count: int, places: Sequence[apgas.Place] | None) -> None:
        """Let ``count`` workers work on each of ``places``; None: on all, and on those that join later."""
        chosen = self.members if places is None else [place for place in self.members if place in places]
        self.workers.set(count, None if places is None else chosen)
        everywhere(chosen, messages.set_workers, self.setup.number, count, self._bound)
        self.share_cores()

    def bind(self, bound: apgas.CoreIds | None) -> None:
        """Let the places compute on these cores only, from the next ``set_workers`` for all of them on.

        Raises:
            GlbError: A place may not use them; nothing has changed.
        """
        if bound is not None:
            for place in self.members:
                affinity.check(place, bound.on(place.node), self._homes[place.id].cores)
        if bound != self._bound:
            self._bound = bound
            self._used.clear()  # they compute on all that they are bound to, until they are notified of their shares

    def _settle(self, places: list[apgas.Place], homes: list[affinity.Home]) -> None:
        self._homes |= {place.id: home for place, home in zip(places, homes, strict=True)}

    def give_back_cores(self) -> None:
        """Let place 0 use all cores that it has inherited: processes that it starts inherit from it."""
        self._used[0] = None
        affinity.release()

    def share_cores(self) -> None:
        """Notify places whose share of their machine's cores has changed."""
        homes = {place.id: self._home(place) for place in self.members}
        shares: dict[int, tuple[int, ...]] = dict.fromkeys(homes, ())
        if self.setup.config.affinity:
            shares = affinity.shares(homes, {place.id: self.workers.of(place) for place in self.members})
        for place in self.members:
            if self._used.get(place.id, ()) == shares[place.id]:
                continue
            if place.id == 0:  # at once: a message to itself may come after its first tasks
                messages.use_cores(self.setup.number, shares[0])
            else:
                apgas.immediate(place, messages.use_cores, self.setup.number, shares[place.id])
        self._used |= shares

    def _home(self, place: apgas.Place) -> affinity.Home:
        """Where a place runs, with the cores that it may use."""
        home = self._homes[place.id]
        bound = self._bound.on(place.node) if self._bound is not None else ()
        return replace(home, cores=bound) if bound else home

    def _announce(self, places: list[apgas.Place]) -> dict[int, Statistics]:
        """Announce the members to ``places`` and return what they have counted so far."""
        counts = everywhere(places, messages.set_members, self.setup.number, self.members)
        return {place.id: statistics for place, statistics in zip(places, counts, strict=True)}

    def _loads(self, places: list[apgas.Place]) -> dict[int, Load]:
        """Return what ``places``, all members, have to do, and take a wave of what they have counted."""
        answers = everywhere(places, messages.load, self.setup.number)
        self._compare({load.place: statistics for load, statistics in answers})
        return {load.place: load for load, _ in answers}

    def _compare(self, counts: dict[int, Statistics]) -> None:
        try:
            self._ledger.wave(counts)
        except LedgerError as error:
            self.wrong = error
            self.abort()
            raise

    def missing(self, lost: Collection[int]) -> str:
        """Say what went down with places that died."""
        return self._ledger.missing(lost, self.progress.by_place())


def _partition(bag: Bag[R], count: int) -> list[Bag[R]]:
    cut = getattr(bag, "partition", None)
    if cut is None:
        return cut_in_pieces(bag, count)
    parts: list[Bag[R]] = list(cut(count))
    if len(parts) > count:
        raise GlbError(f"{type(bag).__name__}.partition({count}) returned {len(parts)} bags")
    return parts


# How far a computation is, as place 0 knows it -----------------------------------------------------------------------

_log = logging.getLogger("glb")

SHOW_EVERY_S: Final = 0.25


class Progress:
    """Adds up what the places report and shows it.

    ``show`` (tasks, places, workers) is called in a thread of its own, at most every ``SHOW_EVERY_S``; without it the
    scheduler is notified instead.

    Args:
        show: The program's callback.
        size: Returns the present number of places.
        workers: Returns the present number of workers on all places.
    """

    def __init__(
        self, show: Callable[[int, int, int], None] | None, size: Callable[[], int], workers: Callable[[], int]
    ) -> None:
        self._show = show
        self._size = size
        self._workers = workers
        self._lock = threading.Lock()
        self._by_place: dict[int, int] = {}
        self._settled = 0
        self._news = threading.Event()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def tasks(self) -> int:
        """Tasks processed, as far as reported."""
        with self._lock:
            return self._settled + sum(self._by_place.values())

    def by_place(self) -> dict[int, int]:
        """Return what each place has processed, as far as reported since it joined."""
        with self._lock:
            return dict(self._by_place)

    def start(self) -> None:
        """Begin to show."""
        if self._show is not None:
            self._thread = threading.Thread(target=self._run, name="glb-progress", daemon=True)
            self._thread.start()

    def update(self, place: int, tasks: int) -> None:
        """Note what ``place`` has processed; never blocks."""
        with self._lock:
            self._by_place[place] = tasks
        if self._show is None:
            apgas.progress(self.tasks)
        else:
            self._news.set()

    def settle(self, place: int, tasks: int) -> None:
        """Note the final count of ``place``; if it takes part again it counts from 0."""
        with self._lock:
            self._by_place.pop(place, None)
            self._settled += tasks

    def stop(self) -> None:
        """Show the last count and end the thread."""
        self._over.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._over.wait(SHOW_EVERY_S):
                self._news.wait()
                self._news.clear()
                self._call()
            self._call()
        except Exception:  # noqa: BLE001 - the picture may fail, the computation goes on
            _log.exception("on_progress failed; no more progress is shown")

    def _call(self) -> None:
        if self._show is not None:
            self._show(self.tasks, self._size(), self._workers())


# How many workers there are to be on each place ----------------------------------------------------------------------


class Workers:
    """The number of workers of each place of a computation.

    Args:
        usual: Workers of a place for which nothing else was said.
    """

    def __init__(self, usual: int) -> None:
        self.usual = usual
        self._own: dict[int, int] = {}

    def of(self, place: apgas.Place) -> int:
        """Return the workers of ``place``."""
        return self._own.get(place.id, self.usual)

    def total(self, places: Iterable[apgas.Place]) -> int:
        """Return the workers of ``places`` together."""
        return sum(map(self.of, places))

    def set(self, count: int, places: Iterable[apgas.Place] | None) -> None:
        """Let ``count`` be the number for ``places``; None: for all, and for those that join later."""
        if places is None:
            self.usual = count
            self._own.clear()
        else:
            self._own |= {place.id: count for place in places}
