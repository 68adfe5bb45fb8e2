"""Runs one computation on one place: feeds the state machine and carries out its effects."""

from __future__ import annotations

import pickle
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Generic, TypeVar

import cloudpickle

import apgas
from glb import messages
from glb.bag import Bag, Result
from glb.core.effects import Effect, Ended, Forward, Give, Message, Refuse, Request, Run, Start
from glb.core.leavers import Load
from glb.core.lifelines import Lifelines
from glb.core.pacing import Granularity, Pacer
from glb.core.place import Phase, PlaceCore
from glb.errors import BagError
from glb.setup import Report, Setup
from glb.statistics import Statistics, size_of

R = TypeVar("R", bound=Result)

REPORT_EVERY_S: Final = 0.25


@dataclass(eq=False)
class _Slot:
    """What one worker slot remembers between bags; written by the worker in it only."""

    granularity: Granularity
    pacer: Pacer | None
    seen: int = 0
    held: tuple[int, int] = (0, 0)
    tasks: int = 0
    bytes_sent: int = 0
    busy_s: float = 0.0
    alive_s: float = 0.0


class PlaceRunner(Generic[R]):
    """One place in one computation.

    Args:
        setup: The computation.
        members: All places of it, this one included.
        registered: Whether the computation begins with every place known to its lifeline buddies.
        before: The members of before this place joined a running computation.
    """

    def __init__(
        self,
        setup: Setup[R],
        members: Sequence[apgas.Place],
        *,
        registered: bool,
        before: Sequence[apgas.Place] | None = None,
    ) -> None:
        config = setup.config
        self.here = apgas.here()
        self.setup = setup
        self._changed = threading.Condition(threading.Lock())
        self._places = {place.id: place for place in members}
        self.core: PlaceCore[R] = PlaceCore(
            self.here.id,
            sorted(self._places),
            setup.make_result,
            workers=setup.workers,
            random_steals=config.random_steals,
            lifelines=Lifelines(config.lifelines, config.radix, config.seed),
            rng=Random(f"{config.seed} {setup.number} {self.here.id}"),
            registered=registered,
            before=None if before is None else sorted(place.id for place in before),
        )
        now = time.perf_counter()
        self._slots = [
            _Slot(
                Granularity(config.granularity, config.target_s, config.rate),
                None if config.rate is None else Pacer(config.rate, now),
            )
            for _ in range(setup.workers)
        ]
        self._present_since = now
        self._report_at = now + REPORT_EVERY_S
        self._running = 0
        self._warm = threading.Event()
        self._warm.set()

    # what arrives ---------------------------------------------------------------------------------------------------

    def receive(self, bag: Bag[R], nonce: int | None) -> None:
        """Take a bag; called in an activity of the computation's finish, which must not last: others wait for it."""
        with self._changed:
            effects = self.core.receive(bag, nonce)
        for effect in effects:
            match effect:
                case Run(slot, own):
                    apgas.async_(messages.work, self.setup.number, slot, own)
                case Forward(to, passing):
                    self._forward(to, passing)
                case _:
                    raise AssertionError(f"an arriving bag led to {effect}")

    def requested(self, thief: apgas.Place, nonce: int | None) -> None:
        """Take the question of a thief."""
        self._places.setdefault(thief.id, thief)
        self.take(lambda core: core.requested(thief.id, nonce))

    def set_members(self, members: Sequence[apgas.Place]) -> Statistics:
        """Learn the new members; return what was counted so far."""
        self._places.update((place.id, place) for place in members)
        self.take(lambda core: core.set_members(sorted(place.id for place in members)))
        with self._changed:
            return replace(self.core.statistics)

    def take(self, event: Callable[[PlaceCore[R]], list[Message]]) -> None:
        """Let the state machine take an event that leads to uncounted messages only."""
        with self._changed:
            effects = event(self.core)
            self._changed.notify_all()
        for effect in effects:
            self._say(effect)

    # joining and leaving --------------------------------------------------------------------------------------------

    def warm_up_then_begin(self) -> None:
        """Warm up in a thread of its own, then begin to steal; bags that arrive meanwhile wait."""
        self._warm.clear()
        # no daemon: a place that leaves meanwhile must not take a compiler apart that is at work
        threading.Thread(target=self._warm_up, name="glb-warm-up").start()

    def _warm_up(self) -> None:
        try:
            self.setup.warm_up()
        except BaseException:  # noqa: BLE001 - whatever the program raises ends the computation, with its text
            self.abort(traceback.format_exc())
        finally:
            self._warm.set()
        self.take(lambda core: core.begin())

    def evacuate(self, survivors: Sequence[apgas.Place], turns: Sequence[int]) -> Report[R]:
        """Hand all work out to ``survivors``; return what was done here once the workers have stopped.

        ``turns`` has the ids of those among them who get the pieces.
        """
        self._places.update((place.id, place) for place in survivors)
        self.take(lambda core: core.evacuate(sorted(place.id for place in survivors), turns))
        with self._changed:
            self._changed.wait_for(
                lambda: self.core.phase is Phase.ABORTED or (self.core.phase is Phase.EVACUATED and not self._running)
            )
        return self.report()

    def readmit(self, members: Sequence[apgas.Place]) -> None:
        """Take part again after an evacuation that was called off."""
        with self._changed:
            self.core.readmit(sorted(place.id for place in members))

    def abort(self, reason: str = "") -> None:
        """Give the computation up, here and, through place 0, everywhere."""
        self.take(lambda core: core.abort())
        apgas.immediate(apgas.place(0), messages.failed, self.setup.number, reason)

    def load(self) -> tuple[Load, Statistics]:
        """Tell how much there is to do, and what was counted so far."""
        with self._changed:
            tasks, size_bytes = (sum(held) for held in zip(*(slot.held for slot in self._slots), strict=True))
            return Load(self.here.id, self.core.alive, tasks, size_bytes), replace(self.core.statistics)

    def report(self) -> Report[R]:
        """Hand over result and statistics, and begin new ones."""
        now = time.perf_counter()
        with self._changed:
            result = self.core.take_result()
            statistics, self.core.statistics = self.core.statistics, Statistics()
            for slot in self._slots:
                statistics.tasks += slot.tasks
                statistics.bytes_sent += slot.bytes_sent
                statistics.busy_s += slot.busy_s
                statistics.starving_s += now - self._present_since - slot.alive_s
                if slot.pacer is not None:
                    statistics.worst_lag_s = max(statistics.worst_lag_s, slot.pacer.worst_lag_s)
                slot.tasks = slot.bytes_sent = 0
                slot.held = (0, 0)
                slot.busy_s = slot.alive_s = 0.0
            present_s, self._present_since = now - self._present_since, now
        return Report(self.here.id, result, statistics, present_s)

    # workers --------------------------------------------------------------------------------------------------------

    def work(self, slot: int, bag: Bag[R]) -> None:
        """Be the worker in ``slot`` until there is nothing left to do; called in an activity of the finish."""
        with self._changed:
            self._running += 1
        began = time.perf_counter()
        try:
            self._warm.wait()
            self._process(slot, bag)
        except BaseException:
            with self._changed:
                self.core.failed(slot)
            self.abort()
            raise
        finally:
            self._slots[slot].alive_s += time.perf_counter() - began
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _process(self, slot: int, bag: Bag[R]) -> None:
        core, own, clock = self.core, self._slots[slot], time.perf_counter
        granularity, pacer = own.granularity, own.pacer
        own.held = size_of(bag)
        if pacer is not None:
            pacer.resume(clock())
        while not (core.attention and self._look(slot, bag)):
            before = bag.work
            start = clock()
            more = bag.process(granularity.n)
            now = clock()
            done = bag.work - before
            own.tasks += done
            own.busy_s += now - start
            granularity.observe(done, now - start)
            if now >= self._report_at:
                self._tell_progress(own, bag, now)
            if pacer is not None and self._pause(slot, bag, pacer.done(done, now)):
                return
            if not more and _is_empty(bag, done) and self._dry(slot, bag):
                return

    def _look(self, slot: int, bag: Bag[R]) -> bool:
        own = self._slots[slot]
        with self._changed:
            effects = self.core.look(slot, bag)
            own.seen = self.core.calls
            own.held = size_of(bag)
        return self._carry_out(effects, own, bag)

    def _dry(self, slot: int, bag: Bag[R]) -> bool:
        own = self._slots[slot]
        with self._changed:
            effects = self.core.dry(slot, bag)
            own.held = size_of(bag)
        return self._carry_out(effects, own, bag)

    def _pause(self, slot: int, bag: Bag[R], until: float) -> bool:
        """Wait until the worker is on schedule, but attend to thieves and evacuation at once; True ends the worker."""
        own, core = self._slots[slot], self.core
        start = now = time.perf_counter()
        ended = False
        while now < until and not ended:
            with self._changed:
                woken = self._changed.wait_for(lambda: core.calls != own.seen, until - now)
            if woken:
                ended = self._look(slot, bag)
            now = time.perf_counter()
        own.busy_s += now - start
        return ended

    def _tell_progress(self, own: _Slot, bag: Bag[R], now: float) -> None:
        self._report_at = now + REPORT_EVERY_S
        own.held = size_of(bag)
        done = sum(slot.tasks for slot in self._slots)
        apgas.immediate(apgas.place(0), messages.progressed, self.setup.number, self.here.id, done)

    # effects --------------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: list[Effect[R]], own: _Slot, bag: Bag[R]) -> bool:
        """Carry out what a worker's activity has to; True if the worker is to end."""
        ended = False
        for effect in effects:
            match effect:
                case Give():
                    self._give(effect, own, bag)
                case Start(slot, part):
                    apgas.async_(messages.work, self.setup.number, slot, part)
                case Request() | Refuse():
                    self._say(effect)
                case Ended():
                    ended = True
                case Run() | Forward():
                    raise AssertionError(f"a worker was asked to {effect}")
        return ended

    def _say(self, effect: Message) -> None:
        to = self._place(effect.to)
        match effect:
            case Request():
                apgas.trace_instant("asks", "glb", place=effect.to)
                apgas.immediate(to, messages.requested, self.setup.number, self.here, effect.nonce)
            case Refuse():
                apgas.immediate(to, messages.refused, self.setup.number, effect.nonce)

    def _give(self, give: Give[R], own: _Slot, bag: Bag[R]) -> None:
        size_bytes = _size_bytes(give.bag)
        try:
            apgas.async_at(self._place(give.to), messages.receive, self.setup.number, give.bag, give.nonce)
        except apgas.PlaceGoneError:
            if give.why == "evacuation":
                self._forward(0, give.bag)
                return
            with self._changed:
                self.core.give_failed(give)
            bag.merge(give.bag)
        else:
            own.bytes_sent += size_bytes
            apgas.trace_instant(f"gives ({give.why})", "glb", place=give.to, bytes=size_bytes)

    def _forward(self, to: int, bag: Bag[R]) -> None:
        try:
            apgas.async_at(self._place(to), messages.receive, self.setup.number, bag, None)
        except apgas.PlaceGoneError:
            apgas.async_at(apgas.place(0), messages.receive, self.setup.number, bag, None)

    def _place(self, number: int) -> apgas.Place:
        return self._places[number]


def _is_empty(bag: Bag[R], done: int) -> bool:
    """Return whether ``bag``, which says that nothing remains, is empty.

    Raises:
        BagError: It holds tasks and processes none.
    """
    if bag.is_empty():
        return True
    if done == 0:
        raise BagError(f"{type(bag).__name__}.process returned False and did nothing, but the bag is not empty")
    return False


def _size_bytes(bag: object) -> int:
    """Return the bytes that ``bag`` takes on the way; classes of the main program count with their code."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        body = pickle.dumps(bag, protocol=5, buffer_callback=buffers.append)
    except (pickle.PicklingError, AttributeError, TypeError):
        buffers.clear()
        body = cloudpickle.dumps(bag, protocol=5, buffer_callback=buffers.append)
    return len(body) + sum(buffer.raw().nbytes for buffer in buffers)
