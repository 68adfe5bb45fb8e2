"""Runs one computation on one place: feeds the state machine, and carries out its effects with workers and messages."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final, Generic, TypeVar

import msgspec

import apgas
from apgas.runtime.serialization import Pickled
from glb import affinity, messages
from glb.bag import Bag, Result
from glb.config import Config, PlaceResult, Setup, freeze
from glb.core.backup import Backup, Saver
from glb.core.effects import Attend, Effect, Ended, Forward, Give, Message, Refuse, Request, Save, Start
from glb.core.leavers import Load
from glb.core.lifelines import graph_of
from glb.core.pacing import VERY_LONG_CALL_S, Backups, Granularity, Idleness, Pacer, Stretch
from glb.core.place import PlaceCore
from glb.core.view import Phase
from glb.errors import BagError
from glb.sizing import PlaceCounts
from glb.statistics import Statistics, size_of

R = TypeVar("R", bound=Result)


REPORT_EVERY_S: Final = 0.25


class PlaceRunner(Generic[R]):
    """One place in one computation.

    ``members``, ``registered`` and ``before`` are as for ``PlaceCore``.
    """

    def __init__(
        self,
        setup: Setup[R],
        members: Sequence[int],
        workers: int,
        *,
        registered: bool,
        before: Sequence[int] | None = None,
    ) -> None:
        config = setup.config
        me = apgas.here().id
        self.setup = setup
        self._changed = threading.Condition(threading.Lock())
        self.core: PlaceCore[R] = PlaceCore(
            me,
            members,
            setup.make_result,
            workers=workers,
            random_steals=config.random_steals,
            lifelines=graph_of(config.lifelines, config.radix, config.seed),
            rng=Random(f"{config.seed} {setup.number} {me}"),
            registered=registered,
            before=before,
            saver=Saver(me, self._freeze, holds=me != 0 or setup.keeps) if setup.survives else None,
        )
        now = time.monotonic()
        self._backups = Backups(config.backup_s or 0.0, now)
        self._freezes, self._freezing_s = 0, 0.0
        self._slots = [Slot.of(number, config, now) for number in range(workers)]
        self._idle = Idleness(workers, now)
        self._present_since = now
        self._report_at = now + REPORT_EVERY_S
        self._running = 0
        self._may_begin = False
        self._warm = threading.Event()
        self._warm.set()

    # what arrives ---------------------------------------------------------------------------------------------------

    def receive(self, bag: Bag[R], nonce: int | None, ident: int | None = None) -> None:
        """Take a bag; called in an activity of the computation's finish, which must not last: others wait for it."""
        with self._changed:
            effects = self.core.receive(bag, nonce, ident)
            self._note_search()
            self._changed.notify_all()
        self._carry_out(effects)

    def set_members(self, members: Sequence[int]) -> Statistics:
        """Learn the new members; return what was counted so far."""
        self.take(lambda core: core.set_members(members))
        with self._changed:
            return replace(self.core.statistics)

    def take(self, event: Callable[[PlaceCore[R]], list[Message]]) -> None:
        """Let the state machine take an event that leads to uncounted messages only."""
        with self._changed:
            effects = event(self.core)
            self._note_search()
            self._changed.notify_all()
        for effect in effects:
            self._say(effect)

    def set_workers(self, count: int) -> None:
        """Let ``count`` workers work here from now on."""
        with self._changed:
            now = time.monotonic()
            self._slots += [Slot.of(number, self.setup.config, now) for number in range(len(self._slots), count)]
            self._note(self._idle.want(count, now))
        self.take(lambda core: core.set_workers(count))

    # joining and leaving --------------------------------------------------------------------------------------------

    def warm_up(self) -> None:
        """Warm up in a thread of its own; bags that arrive meanwhile wait, and ``begin`` has no effect before."""
        self._warm.clear()
        # no daemon: a place that leaves meanwhile must not take a compiler apart that is at work
        threading.Thread(target=self._warm_up, name="glb-warm-up").start()

    def _warm_up(self) -> None:
        try:
            with apgas.trace_span("warms up", "glb"):
                self.setup.warm_up()
        except BaseException:  # noqa: BLE001 - whatever the program raises ends the computation, with its text
            self.abort(traceback.format_exc())
        finally:
            with self._changed:
                # to load is not to starve
                self._idle.cut(time.monotonic())
            self._warm.set()
        if self._may_begin:
            self.take(lambda core: core.begin())

    def begin(self) -> None:
        """Begin to steal, as soon as this place is warm: every member has joined by now, and may be given a bag."""
        self._may_begin = True
        if self._warm.is_set():
            self.take(lambda core: core.begin())

    def evacuate(self, survivors: Sequence[int], turns: Sequence[int]) -> PlaceResult[R]:
        """Hand all work out to ``survivors``, in ``turns``; return what was done here once the workers have stopped."""
        self.take(lambda core: core.evacuate(survivors, turns))
        with self._changed:
            self._changed.wait_for(
                lambda: self.core.phase is Phase.ABORTED or (self.core.phase is Phase.EVACUATED and not self._running)
            )
        return self.report()

    def readmit(self, members: Sequence[int]) -> None:
        """Take part again after an evacuation that was called off."""
        with self._changed:
            self.core.readmit(members)

    def abort(self, reason: str = "") -> None:
        """Give the computation up, here and, through place 0, everywhere."""
        self.take(lambda core: core.abort())
        apgas.immediate(0, messages.failed, self.setup.number, reason)

    def load(self) -> tuple[Load, Statistics]:
        """Return how much there is to do, and what was counted so far."""
        with self._changed:
            held = [*(slot.held for slot in self._slots), *map(size_of, self.core.shared)]
            tasks, size_bytes = (sum(sizes) for sizes in zip(*held, strict=True))
            return Load(self.core.me, self.core.alive, tasks, size_bytes), replace(self.core.statistics)

    def count_up(self) -> PlaceCounts:
        """Return how busy this place was so far, and how many tasks wait."""
        with self._changed:
            now, statistics = time.monotonic(), self.core.statistics
            tasks = sum(slot.held[0] for slot in self._slots) + sum(size_of(bag)[0] for bag in self.core.shared)
            return PlaceCounts(
                self.core.me,
                now,
                statistics.stealing_s + statistics.starving_s + self._idle.open_s(now),
                self._idle.wanted,
                statistics.steals_tried,
                statistics.steals_won,
                max(0, tasks - len(self._idle.busy)),
                self._warm.is_set(),
            )

    def report(self) -> PlaceResult[R]:
        """Hand over result and statistics, and begin new ones."""
        with self._changed:
            now = time.monotonic()
            self._note(self._idle.cut(now))
            backup = None if self.core.phase is Phase.ABORTED else self.core.back_up()
            result = None if self.setup.survives else self.core.take_result()
            statistics, self.core.statistics = self.core.statistics, Statistics()
            for slot in self._slots:
                slot.settle(statistics)
            present_s, self._present_since = now - self._present_since, now
        return PlaceResult(self.core.me, result, statistics, present_s, backup)

    # workers --------------------------------------------------------------------------------------------------------

    def work(self, slot: int, bag: Bag[R]) -> None:
        """Be the worker in ``slot`` until there is nothing left to do; called in an activity of the finish."""
        with self._changed:
            self._running += 1
        own = self._slots[slot]
        self._warm.wait()
        with self._changed:
            # the worker before has given the slot back, so that the core fills it again, and may not have left it yet
            self._changed.wait_for(lambda: slot not in self._idle.busy)
            began = time.monotonic()
            self._note(self._idle.begins(slot, began))
        try:
            self._process(own, bag)
        except BaseException:
            with self._changed:
                self.core.failed(slot)
            self.abort()
            raise
        finally:
            ended = time.monotonic()
            own.alive_s += ended - began
            apgas.trace_between("busy", "glb", began, ended, row=_row(slot))
            with self._changed:
                self._idle.ends(slot, ended)
                self._running -= 1
                self._changed.notify_all()

    def _process(self, own: Slot, bag: Bag[R]) -> None:
        """Process ``bag`` until there is nothing left to do, and attend to the place between two calls."""
        core, clock, pid = self.core, time.monotonic, os.getpid()
        granularity, pacer = own.granularity, own.pacer
        own.held = size_of(bag)
        if pacer is not None:
            pacer.resume(clock())
        looked = False
        # having looked before a long call, a worker looks after it, too
        while looked or not ((core.attention or self._goes_away(own) or own.away) and self._turn(core.look, own, bag)):
            looked = False
            before = bag.work
            # the time in which others had the core makes no call long, but asking for it takes 10 us
            asks = own.call_s >= VERY_LONG_CALL_S
            waited_s = affinity.waited_s() if asks else 0.0
            start = clock()
            try:
                more = bag.process(granularity.n)
            finally:
                if os.getpid() != pid:  # a child that ``process`` has forked: its parent goes on with the bag
                    os._exit(1)
            now = clock()
            if asks:
                waited_s = affinity.waited_s() - waited_s
            done = bag.work - before
            own.tasks += done
            own.call_s = now - start
            own.busy_s += own.call_s
            granularity.observe(done, max(0.0, own.call_s - waited_s))
            self._report_progress(own, bag, now)
            if pacer is not None and self._pause(own, bag, pacer.done(done, now)):
                return
            if more:
                continue
            if bag.is_empty():
                if self._turn(core.dry, own, bag):
                    return
                looked = own.away
            elif done == 0:
                raise BagError(f"{type(bag).__name__}.process returned False and did nothing, but the bag is not empty")

    def _goes_away(self, own: Slot) -> bool:
        """Whether the next call is so long that what it does not process is set out for others before."""
        return own.granularity.very_long or (own.granularity.long and self.core.sets_out)

    def _turn(self, turn: Callable[[int, Bag[R], int], list[Effect[R]]], own: Slot, bag: Bag[R]) -> bool:
        """Let a worker ``look``, or run ``dry``; True ends it."""
        own.away = long = self._goes_away(own)
        with self._changed:
            before = self.core.calls
            effects = turn(own.number, bag, own.granularity.n if long else 0)
            own.seen = self.core.calls
            own.held = size_of(bag)
            if own.seen != before:
                self._changed.notify_all()
        # what is given back to a worker before a long call would be out of all others' reach
        return self._carry_out(effects, None if long else bag)

    def _pause(self, own: Slot, bag: Bag[R], until: float) -> bool:
        """Wait until the worker is on schedule, but attend to thieves and evacuation at once; True ends the worker."""
        start = now = time.monotonic()
        ended = False
        while now < until and not ended:
            with self._changed:
                woken = self._changed.wait_for(lambda: self.core.calls != own.seen, until - now)
            if woken:
                ended = self._turn(self.core.look, own, bag)
            now = time.monotonic()
        own.busy_s += now - start
        return ended

    def attend(self) -> None:
        """Share out what workers in long calls have set out; called in an activity of the finish."""
        with self._changed:
            self._running += 1
        try:
            while True:
                with self._changed:
                    effects, seen = self.core.attend(), self.core.calls
                if self._carry_out(effects):
                    return
                with self._changed:
                    self._changed.wait_for(lambda: self.core.calls != seen)  # noqa: B023 - called in this round only
        except BaseException:
            self.abort()
            raise
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _carry_out(self, effects: list[Effect[R]], own: Bag[R] | None = None) -> bool:
        """Carry out what an activity has to; True ends it. ``own``: a worker's bag, if bags may be given back to it."""
        ended = False
        for effect in effects:
            match effect:
                case Give():
                    self._give(effect, own)
                case Save(backup):
                    self._save(backup)
                case Start(slot, part):
                    apgas.async_(messages.work, self.setup.number, slot, part)
                case Attend():
                    apgas.async_(messages.attend, self.setup.number)
                case Request() | Refuse():
                    self._say(effect)
                case Forward(to, _, int(ident)):
                    apgas.async_at(0, messages.redirect, self.setup.number, ident, to)
                case Forward(to, passing):
                    self._forward(to, passing)
                case Ended():
                    ended = True
                    with self._changed:
                        self._note_search()
        return ended

    def _say(self, message: Message) -> None:
        """Ask a place for work, or refuse it some."""
        match message:
            case Request(to, nonce):
                apgas.trace_instant("asks", "glb", place=to)
                apgas.immediate(to, messages.requested, self.setup.number, self.core.me, nonce)
            case Refuse(to, nonce):
                apgas.immediate(to, messages.refused, self.setup.number, nonce)

    def _give(self, give: Give[R], own: Bag[R] | None) -> None:
        """Give a bag away; if its taker is gone, back into ``own``, or to place 0 (evacuation, or no ``own``)."""
        pickled = Pickled(give.bag)
        try:
            apgas.async_at(give.to, messages.receive, self.setup.number, pickled, give.nonce)
        except apgas.PlaceGoneError:
            if own is None or give.why == "evacuation":
                self._forward(0, give.bag)
            else:
                with self._changed:
                    self.core.give_failed(give)
                own.merge(give.bag)
            return
        apgas.trace_instant(f"gives ({give.why})", "glb", place=give.to, bytes=pickled.size_bytes)
        with self._changed:
            self.core.statistics.bytes_sent += pickled.size_bytes

    def _forward(self, to: int, bag: Bag[R]) -> None:
        """Pass a bag on; to place 0 if ``to`` is gone."""
        try:
            apgas.async_at(to, messages.receive, self.setup.number, bag, None)
        except apgas.PlaceGoneError:
            apgas.async_at(0, messages.receive, self.setup.number, bag, None)

    # backups --------------------------------------------------------------------------------------------------------

    def _save(self, backup: Backup[R]) -> None:
        """Send a backup to place 0, and with it the bags that are given away."""
        began_s = time.thread_time()
        for gift in backup.gifts:
            apgas.trace_instant("gives (backed up)", "glb", place=gift.to, bytes=gift.bag.size_bytes)
        if self.core.me == 0:
            messages.keep(self.setup.number, backup)
        else:
            apgas.async_at(0, messages.keep, self.setup.number, backup)
        sending_s, now = time.thread_time() - began_s, time.monotonic()
        with self._changed:
            if not backup.gifts:  # with gifts it is made in any case; to take it takes as long as to send it
                frozen_s = len(backup.bags) * self._freezing_s / max(1, self._freezes)
                self._backups.spent(frozen_s + (2 if self.core.me else 1) * sending_s, now)
            if self.core.workers == 1:  # others' bags may be as they were when they last looked
                self._backups.made(now)
            self.core.statistics.bytes_sent += sum(gift.bag.size_bytes for gift in backup.gifts)

    def _report_progress(self, own: Slot, bag: Bag[R], now: float) -> None:
        if now >= self._report_at:
            self._report_at = now + REPORT_EVERY_S
            own.held = size_of(bag)
            tasks = sum(slot.tasks for slot in self._slots)
            apgas.immediate(0, messages.progressed, self.setup.number, self.core.me, tasks)
            if self.setup.survives:
                waited_s = own.waited_s()
                with self._changed:
                    self._backups.waited(waited_s / len(self._idle.busy))
                    if self._backups.due(now):
                        self.core.want_backup()

    def _freeze(self, bag: Bag[R]) -> tuple[bytes, ...]:
        began_s = time.thread_time()
        frozen = freeze(bag)
        self._freezing_s += time.thread_time() - began_s
        self._freezes += 1
        return frozen

    # what idle slots do; under the lock -----------------------------------------------------------------------------

    def _note_search(self) -> None:
        self._note(self._idle.stealing(self.core.phase is Phase.STEALING, time.monotonic()))

    def _note(self, stretches: Iterable[Stretch]) -> None:
        statistics = self.core.statistics
        for stretch in stretches:
            seconds = stretch.ended - stretch.began
            if stretch.kind == "stealing":
                statistics.stealing_s += seconds
            else:
                statistics.starving_s += seconds
            apgas.trace_between(stretch.kind, "glb", stretch.began, stretch.ended, row=_row(stretch.slot))


def _row(slot: int) -> str:
    return f"worker {slot}"


# What the worker slots of a place remember: how much to process at a time, how fast, and what was done ---------------


class Slot(msgspec.Struct, eq=False):
    """The memory of one worker slot between bags; written by the worker in it only.

    Attributes:
        pacer: Holds the worker to a rate; None: no limit.
        seen: What the state machine's ``calls`` were when the worker last looked.
        away: Whether everything that the present call does not process was set out before it.
        held: Tasks and bytes of the worker's bag when it last looked.
        call_s: How long its last call took, until it returned.
        tasks: Tasks processed.
        busy_s: Seconds spent processing, pauses included.
        alive_s: Seconds with a bag.
        waited: How long a thread had waited for a core when the worker last asked: the thread, and its seconds.
    """

    number: int
    granularity: Granularity
    pacer: Pacer | None
    seen: int = 0
    away: bool = False
    held: tuple[int, int] = (0, 0)
    call_s: float = 0.0
    tasks: int = 0
    busy_s: float = 0.0
    alive_s: float = 0.0
    waited: tuple[int, float] = (0, 0.0)

    @classmethod
    def of(cls, number: int, config: Config, now: float) -> Slot:
        """Return a new slot for a computation with these settings."""
        granularity = Granularity(config.granularity, config.target_s, config.rate)
        return cls(number, granularity, None if config.rate is None else Pacer(config.rate, now))

    def waited_s(self) -> float:
        """(the worker) Return how long it has waited for a core since it last asked; a worker that begins, none."""
        (thread, before_s), self.waited = self.waited, (threading.get_native_id(), affinity.waited_s())
        return self.waited[1] - before_s if self.waited[0] == thread else 0.0

    def settle(self, statistics: Statistics) -> None:
        """Add what was done to ``statistics``, and begin anew; no worker is in the slot."""
        statistics.tasks += self.tasks
        statistics.busy_s += self.busy_s
        statistics.balancing_s += self.alive_s - self.busy_s
        if self.pacer is not None:
            statistics.worst_lag_s = max(statistics.worst_lag_s, self.pacer.worst_lag_s)
            statistics.given_up_s += self.pacer.given_up_s
            self.pacer.given_up_s = 0.0
        self.held = (0, 0)
        self.tasks = 0
        self.busy_s = self.alive_s = 0.0


# How a place begins to take part in a computation; called and waited for by place 0 ----------------------------------


def join(setup: Setup[Any], members: Sequence[int], registered: bool, cores: apgas.CoreIds | None) -> affinity.Home:
    """Take part from the start, on ``cores`` only: warm up, then be ready; return where this place runs."""
    affinity.bind(cores)
    setup.warm_up()
    messages.register(setup.number, PlaceRunner(setup, members, setup.workers, registered=registered))
    return affinity.home()


def join_late(
    setup: Setup[Any],
    members: Sequence[int],
    before: Sequence[int],
    workers: int,
    cores: apgas.CoreIds | None,
) -> affinity.Home:
    """Take part from now on: answer at once, warm up, steal after ``begin``; return where this place runs."""
    affinity.bind(cores)
    runner = PlaceRunner(setup, members, workers, registered=False, before=before)
    messages.register(setup.number, runner)
    runner.warm_up()
    return affinity.home()
