"""Place 0's side of a computation: members, workers, resizes, progress, reduction."""

from __future__ import annotations

import logging
import pickle
import threading
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Final, Generic, TypeVar

import msgspec

import apgas
from apgas.runtime.context import Future
from apgas.runtime.driver import required_driver
from apgas.runtime.malleable import choose_nodes
from glb import affinity, messages, runner
from glb.bag import Bag, Result
from glb.books import pickled
from glb.config import Harvest, PlaceResult, Setup, everywhere, freeze, suppress_losses
from glb.core.backup import Backup, Books, Frozen, Gift, Keeper
from glb.core.leavers import Load, cost_of_leaving, deal
from glb.core.ledger import Ledger
from glb.core.pool import cut_in_pieces
from glb.errors import GlbError, LedgerError
from glb.sizing import Gauge
from glb.statistics import ByPlace, Statistics, added_up, places_in, tasks_in

R = TypeVar("R", bound=Result)
T = TypeVar("T")

_log = logging.getLogger("glb")


class Computation(Generic[R]):
    """One computation. Resizes and the beginning and end exclude each other by the caller's lock, ``changing``.

    ``members`` are the ids of its places, in their order; ``bound`` the cores on which the job is to compute only, if
    it was asked to; ``former`` the books of an earlier life of the program, from which the computation goes on.
    """

    def __init__(
        self,
        setup: Setup[R],
        members: list[int],
        show: Callable[[int, int, int], None] | None,
        bound: apgas.CoreIds | None,
        changing: threading.Condition,
        former: Books | None = None,
    ) -> None:
        self.setup = setup
        self.members = members
        self.workers = Workers(setup.workers)
        self.progress = Progress(None if show is None else partial(self._show, show))
        self.statistics: dict[int, Statistics] = {}
        self.result: R = setup.make_result() if former is None else pickle.loads(former.result)
        self.aborted = threading.Event()
        self.reasons: list[str] = []
        self.wrong: LedgerError | None = None
        self.started = time.monotonic()
        self.gauge = Gauge()
        self._homes: dict[int, affinity.Home] = {}
        self._used: dict[int, tuple[int, ...] | None] = {}
        self._bound = bound
        self._ledger = Ledger()
        self._keeper: Keeper[R] = Keeper()
        """Of a computation that survives losses: it does what ``_ledger`` does for others, too."""
        self._books = threading.Lock()
        self._changing = changing
        self._driver = required_driver()
        self.rounds: list[Future[None]] = []
        """What is being done again beside the rest, for places that have died."""
        self._former = former
        self._dealt = False
        self._over = False
        self._latest: dict[int, Load] = {}
        self._initial = Statistics()
        self._rows = b""

    # beginning and end ----------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Let all members join; place 0 first, so that kernels are compiled once and loaded by the others."""
        messages.enlist(self)
        if self.setup.survives:
            self._driver.on_place_died.append(self._died)
        registered = not self.setup.config.static
        for places in (self.members[:1], self.members[1:]):
            self._homes |= self._ask(places, runner.join, self.setup, self.members, registered, self._bound)
        self.members = [place for place in self.members if place in self._homes]
        self._joined(self.members)
        self.share_cores()

    def start(self, bag: Bag[R]) -> None:
        """Deal the first bags, in the body of the computation's finish."""
        self.started = time.monotonic()
        self.gauge.counted = hasattr(type(bag), "__len__")
        if self._former is not None:
            self._initial.tasks += self._former.tasks
            self.progress.settle(-1, self._former.tasks)
            self._deal_frozen(list(zip(cycle(self.members), self._former.bags, strict=False)))
            served = set(self.members[: len(self._former.bags)])
        else:
            self._initial.tasks += bag.work
            parts = self._parts(bag)
            served = {place for place, _ in parts}
            self._deal(parts)
        if self.setup.config.static:
            self._tell([place for place in self.members if place not in served], messages.begin)

    def _parts(self, bag: Bag[R]) -> list[tuple[int, Bag[R]]]:
        """Return who gets which of the first bags."""
        if not self.setup.config.static:
            return [(self.members[0], bag)]
        takers = [place for place in self.members for _ in range(self.workers[place])]
        parts = _partition(bag, len(takers))
        return [(takers[index * len(takers) // len(parts)], part) for index, part in enumerate(parts)]

    def _deal(self, parts: Sequence[tuple[int, Bag[R]]]) -> None:
        self._initial.sent += len(parts)
        self._initial.tasks_sent += sum(tasks_in(bag) for _, bag in parts)
        if self.setup.survives:
            self._deal_frozen([(place, Frozen(freeze(bag), tasks_in(bag))) for place, bag in parts])
            return
        for place, bag in parts:
            self._ledger.dealt(tasks_in(bag))
            apgas.async_at(place, messages.receive, self.setup.number, bag, None)

    def collect(self) -> Statistics | None:
        """Fold the results of all places and return the merged statistics; None: others have died meanwhile.

        Raises:
            LedgerError: Bags or tasks were lost or doubled on the way.
        """
        total = replace(self._initial)
        if not self.setup.survives:
            total.merge(self._collect())
        else:
            for report in self._ask(self.members, messages.hand_in, self.setup.number).values():
                self._fold(report)
            if not self._living().issuperset(self.members):
                return None
            self._keeper.close()
            for place, tasks in self._keeper.tasks.items():
                self.statistics.setdefault(place, Statistics()).tasks = tasks
            mine, kept = self.statistics[0], self._keeper
            mine.backups, mine.backup_bytes, mine.kept_bytes = kept.backups, kept.backup_bytes, kept.peak_bytes
        for statistics in self.statistics.values():
            total.merge(statistics)
        return total

    def _collect(self) -> Statistics:
        """Take the results of all places, and what they have counted together."""
        below = array("q", self.members[1:])
        harvest: Harvest[R] = messages.collect(self.setup.number, below, time.monotonic() - self.started)
        self.result.merge(harvest.result)
        self._rows = harvest.rows
        counted = added_up(harvest.rows)
        self._ledger.reported(places_in(harvest.rows), counted)
        self.progress.close(counted.tasks)
        self._ledger.close()
        return counted

    @property
    def by_place(self) -> ByPlace:
        """What each place has counted; after ``collect``."""
        return ByPlace(self._rows, self.statistics)

    def abort(self, reason: str = "") -> None:
        """Stop all workers, because the computation has failed; the finish reports why. Never blocks."""
        if reason:
            self.reasons.append(reason)
        if not self.aborted.is_set():
            self.aborted.set()
            self._tell(self.members, messages.aborted)

    def _show(self, show: Callable[[int, int, int], None], tasks: int) -> None:
        members = self.members
        show(tasks, len(members), sum(self.workers[place] for place in members))

    def notice_losses(self) -> None:
        """If a member has died, stop, unless that is survived: no result can be right any more. Never blocks."""
        if not self.setup.survives and not self.aborted.is_set() and not self._living().issuperset(self.members):
            self.abort()

    def forget(self) -> None:
        """Free what the places still hold of a computation that is over."""
        messages.dismiss(self.setup.number)
        self._over = True
        with suppress(ValueError):  # it has no backups, or did not begin
            self._driver.on_place_died.remove(self._died)
        # those that have handed in have forgotten it already
        self._tell(sorted(self._living().difference(places_in(self._rows))), messages.forget)

    def _living(self) -> set[int]:
        with self._driver.lock:
            return set(self._driver.core.membership.staying_ids)

    # losses that the computation survives ---------------------------------------------------------------------------

    def keep(self, backup: Backup[R]) -> None:
        """Take a backup, and send its gifts on; in an activity of the computation's finish, or there are none."""
        with self._books:
            try:
                results, gifts = self._keeper.take(backup)
            except LedgerError as error:
                self.wrong = error
                self.abort()
                raise
            for result in results:
                self.result.merge(result)
        for gift in gifts:
            self._send(gift)

    def redirect(self, ident: int, to: int) -> None:
        """Send a gift on to place ``to``."""
        with self._books:
            gift = self._keeper.redirect(ident, to)
        if gift is not None:
            self._send(gift)

    def books(self) -> Books | None:
        """Return all that there is of the computation at this moment; None before its first bags are dealt."""
        with self._books:
            if not self._dealt:
                return None
            tasks = self._initial.tasks + self._keeper.tasks.total()
            return Books(self._keeper.open, tasks, pickled(self.result))

    def recover(self) -> list[Gift]:
        """Return what is to be done again, because places have died; when the finish has fired, under the lock.

        If that is nothing, and nothing is being done again, all is done, unless a place dies before it has handed in.
        """
        if not self.setup.survives:
            return []
        self._leave_out_the_dead()
        with self._books:
            gifts = self._recover()
            self._over = not (gifts or self.rounds)
            return gifts

    def _recover(self) -> list[Gift]:
        again: list[Gift] = []
        for place in sorted(set(self._keeper.places) - self._living()):
            if gifts := self._keeper.recover([place]):
                tasks = sum(gift.bag.tasks for gift in gifts)
                _log.info("without place %d: %d bags with %d tasks are done again", place, len(gifts), tasks)
            again += gifts
            self.progress.lose(place, self._keeper.tasks[place])
        return again

    def start_again(self, gifts: Sequence[Gift]) -> None:
        """Deal what is to be done again, in the body of another finish."""
        with self._books:  # newcomers are members before they have joined
            takers = sorted(self._living().intersection(self._keeper.places))
        for gift, place in zip(gifts, cycle(takers), strict=False):
            with self._books:
                again = self._keeper.deal_again(gift, place)
            self._send(again)

    def _died(self, _: apgas.Place) -> None:
        self._driver.uncounted(self._driver.place(0), (self.go_on, (), {}))

    def go_on(self) -> None:
        """Have the others do what places that have died had to do: under a finish of its own, for the first goes on."""
        this_round: Future[None] = Future()
        with self._books:
            if self._done:
                return
            if gifts := self._recover():  # at once: a resize may last
                self.rounds.append(this_round)
        try:
            with suppress_losses(), apgas.finish():
                self.start_again(gifts)
                with self._changing:
                    if not self._done:
                        self._leave_out_the_dead()
        except BaseException as error:  # noqa: BLE001 - it is raised where the computation is waited for
            self.abort()
            this_round.set_exception(error)
        else:
            this_round.set_result(None)

    @property
    def _done(self) -> bool:
        return self._over or self.aborted.is_set()

    def _leave_out_the_dead(self) -> None:
        """Announce the members to each other, if some have died; under the lock."""
        living = self._living()
        if not living.issuperset(self.members):
            self.members = [place for place in self.members if place in living]
            self._announce(self.members)
            self.share_cores()

    def wait_for_rounds(self) -> None:
        """Wait until all that is being done again is done.

        Raises:
            ExceptionGroup: Errors of ``process`` there.
        """
        while self.rounds:
            self._driver.wait(self.rounds[0])
            del self.rounds[0]

    def _deal_frozen(self, parts: Sequence[tuple[int, Frozen]]) -> None:
        """Deal the first bags: all at once, for between two of them the books would lack one."""
        with self._books:
            gifts = [self._keeper.deal(place, bag) for place, bag in parts]
            self._dealt = True
        for gift in gifts:
            self._send(gift)

    def _send(self, gift: Gift) -> None:
        try:
            apgas.async_at(gift.to, messages.receive_gift, self.setup.number, gift)
        except apgas.PlaceGoneError:
            self.redirect(gift.ident, 0)

    def _ask(self, places: Sequence[int], fn: Callable[..., T], *args: object) -> dict[int, T]:
        """Run ``fn(*args)`` on ``places`` and return the values; without those that die, if that is survived."""
        return everywhere(places, fn, *args, survives=self.setup.survives)

    def _tell(self, places: Iterable[int], message: Callable[[int], None]) -> None:
        """Send each of ``places`` a message, uncounted; never blocks."""
        for place in places:
            apgas.immediate(place, message, self.setup.number)

    def _joined(self, places: Iterable[int]) -> None:
        if not self.setup.survives:
            self._ledger.joined(places)
            return
        with self._books:
            for place in places:
                self._keeper.join(place)

    def _fold(self, report: PlaceResult[R]) -> None:
        statistics = report.counted(time.monotonic() - self.started, self.setup.workers)
        if not self.setup.survives:
            self._ledger.reported([report.place], statistics)
        elif report.backup is None:
            raise GlbError(f"place {report.place} has given the computation up")
        else:
            self.keep(report.backup)
        if report.result is not None:
            self.result.merge(report.result)
        self.progress.settle(report.place, statistics.tasks)
        before = self.statistics.setdefault(report.place, statistics)
        if before is not statistics:
            before.merge(statistics)

    # resizes --------------------------------------------------------------------------------------------------------

    def choose(self, count: int) -> list[int]:
        """Choose ``count`` members to leave, whole nodes, those that the scheduler wishes for first."""
        loads = self._latest = self._loads(self.members)
        candidates = [node for node in apgas.nodes()[1:] if all(place.id in loads for place in node)]
        home = apgas.place(0).node

        def cost(node: Sequence[apgas.Place]) -> object:
            return cost_of_leaving([loads[place.id] for place in node], beside=node[0].node == home)

        return [place.id for place in choose_nodes(count, candidates, cost)]

    def release(self, leavers: Sequence[int]) -> None:
        """Move all work and results off ``leavers``; on an error they go on.

        Raises:
            LedgerError: Bags or tasks were doubled on the way.
        """
        survivors = [place for place in self.members if place not in leavers]
        before, self.members = self.members, survivors
        try:
            loads = self._latest if self._latest.keys() == set(before) else self._loads(before)
            self._latest = {}
            leavers = [place for place in leavers if place in loads]
            self.members = survivors = [place for place in survivors if place in loads]
            turns = deal([loads[place] for place in leavers], [loads[place] for place in survivors])
            counts = self._announce(survivors)
            evacuated = self._ask(leavers, messages.evacuate, self.setup.number, survivors, turns)
            reports = list(evacuated.values())
            self._compare(counts | {report.place: report.statistics for report in reports})
        except BaseException:
            self.members = before
            self.abort("a place could not be evacuated")
            raise
        for report in reports:
            self._fold(report)
        self.share_cores()
        if self.aborted.is_set():
            self._tell(leavers, messages.aborted)  # they do not hear of it as members any more

    def admit(self, newcomers: Iterable[int]) -> None:
        """Let newcomers take part, unless they do so already."""
        new = [place for place in newcomers if place not in self.members]
        if not new or self.aborted.is_set():
            return
        old = self.members
        self._join(new, old)
        self._compare(self._announce(old))
        self.share_cores()
        if self.aborted.is_set():
            self._tell(new, messages.aborted)

    def readmit(self, places: Iterable[int]) -> None:
        """Take back places that were evacuated, because they stay after all."""
        living = self._living()
        back = [place for place in places if place in living and place not in self.members]
        if not back or self.aborted.is_set():
            return
        members = sorted([*self.members, *back])
        known = [place for place in back if place in self._homes]  # others were about to leave when this began
        strangers = [place for place in back if place not in known]
        old = [place for place in members if place not in back or place in known]
        self._join(strangers, old)
        self._ask(known, messages.readmit, self.setup.number, members)
        self._joined(known)
        self._compare(self._announce(old))
        self.share_cores()
        self._tell(known, messages.begin)

    def _join(self, new: list[int], old: list[int]) -> None:
        self.members = sorted([*old, *new])
        usual = self.workers.usual
        homes = self._ask(new, runner.join_late, self.setup, self.members, old, usual, self._bound)
        self._homes |= homes
        if len(homes) < len(new):
            new = [place for place in new if place in homes]
            self.members = sorted([*old, *new])
            self._announce(new)
        self._joined(new)
        # not before: one that has work gives some to those that join with it
        self._tell(new, messages.begin)

    # workers --------------------------------------------------------------------------------------------------------

    def set_workers(self, count: int, places: Sequence[apgas.Place] | None) -> None:
        """Let ``count`` workers work on each of ``places``; None: on all, and on those that join later."""
        chosen = self.members
        if places is None:
            self.workers = Workers(count)
        else:
            ids = {place.id for place in places}
            chosen = [place for place in chosen if place in ids]
            self.workers |= dict.fromkeys(chosen, count)
        self._ask(chosen, messages.set_workers, self.setup.number, count, self._bound)
        self.share_cores()

    def bind(self, bound: apgas.CoreIds | None) -> None:
        """Let the places compute on these cores only, from the next ``set_workers`` for all of them on.

        Raises:
            GlbError: A place may not use them; nothing has changed.
        """
        if bound is not None:
            for place in map(apgas.place, self.members):
                affinity.check(place, bound.on(place.node), self._homes[place.id].cores)
        if bound != self._bound:
            self._bound = bound
            self._used.clear()  # they compute on all that they are bound to, until they are notified of their shares

    def give_back_cores(self) -> None:
        """Let place 0 use all cores that it has inherited: processes that it starts inherit from it."""
        self._used[0] = None
        affinity.release()

    def share_cores(self) -> None:
        """Notify places whose share of their machine's cores has changed."""
        homes = {place: self._home(place) for place in self.members}
        shares: dict[int, tuple[int, ...]] = dict.fromkeys(homes, ())
        if self.setup.config.affinity:
            shares = affinity.shares(homes, self.workers)
        for place in self.members:
            if self._used.get(place, ()) == shares[place]:
                continue
            if place == 0:  # at once: a message to itself may come after its first tasks
                messages.use_cores(self.setup.number, shares[0])
            else:
                apgas.immediate(place, messages.use_cores, self.setup.number, shares[place])
        self._used |= shares

    def _home(self, place: int) -> affinity.Home:
        """Where a place runs, with the cores that it may use."""
        home = self._homes[place]
        bound = self._bound.on(apgas.place(place).node) if self._bound is not None else ()
        return msgspec.structs.replace(home, cores=bound) if bound else home

    def _announce(self, places: Sequence[int]) -> dict[int, Statistics]:
        """Announce the members to ``places`` and return what they have counted so far."""
        return self._ask(places, messages.set_members, self.setup.number, self.members)

    def _loads(self, places: Sequence[int]) -> dict[int, Load]:
        """Return what ``places``, all members, have to do, and take a wave of what they have counted."""
        answers = self._ask(places, messages.load, self.setup.number)
        self._compare({place: statistics for place, (_, statistics) in answers.items()})
        return {place: load for place, (load, _) in answers.items()}

    def _compare(self, counts: dict[int, Statistics]) -> None:
        if self.setup.survives:
            return  # which looks at every single bag
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

SHOW_EVERY_S: Final = 0.25


class Progress:
    """Adds up what the places report and shows it.

    ``show`` is called with the tasks done, in a thread of its own, at most every ``SHOW_EVERY_S``; without it the
    scheduler is notified instead.
    """

    def __init__(self, show: Callable[[int], None] | None) -> None:
        self._show = show
        self._lock = threading.Lock()
        self._by_place: dict[int, int] = {}
        self._lost: set[int] = set()
        self._settled = 0
        self._closed = False
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
            self._thread = threading.Thread(target=self._run, args=(self._show,), name="glb-progress", daemon=True)
            self._thread.start()

    def update(self, place: int, tasks: int) -> None:
        """Note what ``place`` has processed; never blocks."""
        with self._lock:
            if place in self._lost or self._closed:
                return
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

    def lose(self, place: int, tasks: int) -> None:
        """Note that ``place`` has died, and that ``tasks`` of what it has processed count."""
        with self._lock:
            self._lost.add(place)
            if self._by_place.pop(place, None) is not None:
                self._settled += tasks

    def close(self, tasks: int) -> None:
        """All places have processed ``tasks`` since they joined: what they have said before may come later still."""
        with self._lock:
            self._closed = True
            self._by_place.clear()
            self._settled += tasks

    def stop(self) -> None:
        """Show the last count and end the thread."""
        self._over.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, show: Callable[[int], None]) -> None:
        try:
            while not self._over.wait(SHOW_EVERY_S):
                self._news.wait()
                self._news.clear()
                show(self.tasks)
            show(self.tasks)
        except Exception:  # noqa: BLE001 - the picture may fail, the computation goes on
            _log.exception("on_progress failed; no more progress is shown")


# How many workers there are to be on each place ----------------------------------------------------------------------


class Workers(dict[int, int]):
    """The number of workers of each place, by id; it is ``usual`` where nothing else was said."""

    def __init__(self, usual: int) -> None:
        super().__init__()
        self.usual = usual

    def __missing__(self, _: int) -> int:
        return self.usual
