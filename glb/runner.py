"""Runs one computation on one place: feeds the state machine and carries out its effects."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Final, Generic, TypeVar

import apgas
from glb.bag import Bag, Result
from glb.core.effects import Attend, Effect, Ended, Forward, Give, Message, Refuse, Request, Run, Start
from glb.core.idleness import Idleness, Stretch
from glb.core.leavers import Load
from glb.core.lifelines import Lifelines
from glb.core.phase import Phase
from glb.core.place import PlaceCore
from glb.sending import Sender
from glb.setup import Report, Setup
from glb.slots import Slot
from glb.statistics import Statistics, size_of
from glb.worker import Worker

R = TypeVar("R", bound=Result)

REPORT_EVERY_S: Final = 0.25


class PlaceRunner(Generic[R]):
    """One place in one computation.

    Args:
        setup: The computation.
        members: All places of it, this one included.
        workers: Worker slots here.
        registered: Whether the computation begins with every place known to its lifeline buddies.
        before: The members before this place joined; None: it is there from the start.
    """

    def __init__(
        self,
        setup: Setup[R],
        members: Sequence[apgas.Place],
        workers: int,
        *,
        registered: bool,
        before: Sequence[apgas.Place] | None = None,
    ) -> None:
        config = setup.config
        self.here = apgas.here()
        self.setup = setup
        self._changed = threading.Condition(threading.Lock())
        self._sender: Sender[R] = Sender(setup.number, members, self._give_failed)
        self.core: PlaceCore[R] = PlaceCore(
            self.here.id,
            _ids(members),
            setup.make_result,
            workers=workers,
            random_steals=config.random_steals,
            lifelines=Lifelines(config.lifelines, config.radix, config.seed),
            rng=Random(f"{config.seed} {setup.number} {self.here.id}"),
            registered=registered,
            before=None if before is None else _ids(before),
        )
        now = time.monotonic()
        self._slots = [Slot.of(number, config, now) for number in range(workers)]
        self._idle = Idleness(workers, now)
        self._present_since = now
        self._report_at = now + REPORT_EVERY_S
        self._running = 0
        self._may_begin = False
        self._warm = threading.Event()
        self._warm.set()

    # what arrives ---------------------------------------------------------------------------------------------------

    def receive(self, bag: Bag[R], nonce: int | None) -> None:
        """Take a bag; called in an activity of the computation's finish, which must not last: others wait for it."""
        with self._changed:
            effects = self.core.receive(bag, nonce)
            self._note_search()
            self._changed.notify_all()
        for effect in effects:
            match effect:
                case Run(slot, own):
                    self._sender.start(slot, own)
                case Forward(to, passing):
                    self._sender.forward(to, passing)
                case Attend():
                    self._sender.attend()
                case _:
                    raise AssertionError(f"an arriving bag led to {effect}")

    def requested(self, thief: apgas.Place, nonce: int | None) -> None:
        """Take the question of a thief."""
        self._sender.know([thief])
        self.take(lambda core: core.requested(thief.id, nonce))

    def set_members(self, members: Sequence[apgas.Place]) -> Statistics:
        """Learn the new members; return what was counted so far."""
        self._sender.know(members)
        self.take(lambda core: core.set_members(_ids(members)))
        with self._changed:
            return replace(self.core.statistics)

    def take(self, event: Callable[[PlaceCore[R]], list[Message]]) -> None:
        """Let the state machine take an event that leads to uncounted messages only."""
        with self._changed:
            effects = event(self.core)
            self._note_search()
            self._changed.notify_all()
        for effect in effects:
            self._sender.say(effect)

    def set_workers(self, count: int) -> None:
        """Let so many workers work here from now on."""
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

    def evacuate(self, survivors: Sequence[apgas.Place], turns: Sequence[int]) -> Report[R]:
        """Hand all work out to ``survivors``; return what was done here once the workers have stopped.

        ``turns`` has the ids of those among them who get the pieces.
        """
        self._sender.know(survivors)
        self.take(lambda core: core.evacuate(_ids(survivors), turns))
        with self._changed:
            self._changed.wait_for(
                lambda: self.core.phase is Phase.ABORTED or (self.core.phase is Phase.EVACUATED and not self._running)
            )
        return self.report()

    def readmit(self, members: Sequence[apgas.Place]) -> None:
        """Take part again after an evacuation that was called off."""
        with self._changed:
            self.core.readmit(_ids(members))

    def abort(self, reason: str = "") -> None:
        """Give the computation up, here and, through place 0, everywhere."""
        self.take(lambda core: core.abort())
        self._sender.fail(reason)

    def load(self) -> tuple[Load, Statistics]:
        """Tell how much there is to do, and what was counted so far."""
        with self._changed:
            held = [*(slot.held for slot in self._slots), *map(size_of, self.core.shared)]
            tasks, size_bytes = (sum(sizes) for sizes in zip(*held, strict=True))
            return Load(self.here.id, self.core.alive, tasks, size_bytes), replace(self.core.statistics)

    def report(self) -> Report[R]:
        """Hand over result and statistics, and begin new ones."""
        now = time.monotonic()
        with self._changed:
            self._note(self._idle.cut(now))
            result = self.core.take_result()
            statistics, self.core.statistics = self.core.statistics, Statistics()
            for slot in self._slots:
                slot.settle(statistics)
            present_s, self._present_since = now - self._present_since, now
        return Report(self.here.id, result, statistics, present_s)

    # workers --------------------------------------------------------------------------------------------------------

    def work(self, slot: int, bag: Bag[R]) -> None:
        """Be the worker in ``slot`` until there is nothing left to do; called in an activity of the finish."""
        with self._changed:
            self._running += 1
        own = self._slots[slot]
        self._warm.wait()
        began = time.monotonic()
        with self._changed:
            self._note(self._idle.begins(slot, began))
        try:
            Worker(own, self.core, self._changed, self._carry_out, self._report_progress).process(bag)
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

    def attend(self) -> None:
        """Share out what workers in long calls have set out; called in an activity of the finish."""
        with self._changed:
            self._running += 1
        try:
            ended = False
            while not ended:
                with self._changed:
                    effects = self.core.attend()
                    seen = self.core.calls
                ended = self._carry_out(effects, None, None)
                if not ended:
                    with self._changed:
                        self._changed.wait_for(lambda: self.core.calls != seen)  # noqa: B023 - called in this round only
        except BaseException:
            self.abort()
            raise
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _carry_out(self, effects: list[Effect[R]], own: Slot | None, bag: Bag[R] | None) -> bool:
        """Carry out what the activity of a worker with ``own`` and ``bag`` has to, or the attendant; True ends it."""
        ended = False
        for effect in effects:
            match effect:
                case Give():
                    # what is given back to a worker before a long call would be out of all others' reach
                    size_bytes = self._sender.give(effect, None if own is None or own.away else bag)
                    if own is not None:
                        own.bytes_sent += size_bytes
                    else:
                        with self._changed:
                            self.core.statistics.bytes_sent += size_bytes
                case Start(slot, part):
                    self._sender.start(slot, part)
                case Attend():
                    self._sender.attend()
                case Request() | Refuse():
                    self._sender.say(effect)
                case Ended():
                    ended = True
                    with self._changed:
                        self._note_search()
                case Run() | Forward():
                    raise AssertionError(f"a worker was asked to {effect}")
        return ended

    def _give_failed(self, give: Give[R]) -> None:
        with self._changed:
            self.core.give_failed(give)

    def _report_progress(self, own: Slot, bag: Bag[R], now: float) -> None:
        if now >= self._report_at:
            self._report_at = now + REPORT_EVERY_S
            own.held = size_of(bag)
            self._sender.tell_progress(sum(slot.tasks for slot in self._slots))

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


def _ids(places: Iterable[apgas.Place]) -> list[int]:
    return sorted(place.id for place in places)
