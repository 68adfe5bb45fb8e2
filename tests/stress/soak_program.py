"""The job of the soak: traffic between all places while the job grows and shrinks; every activity is counted.

Traffic comes in waves. A wave is a random tree of activities under one finish that is opened on a random place: small
and large ones, calls and asynchronous ones, some that fail. When its finish has fired, the tallies of all places are
collected and compared with what the wave must have done. A leaver hands its book to place 0 in ``preShrink``, and
reports to place 0 what happens on it afterwards.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pickle import PickleBuffer
from typing import Final, TypeAlias

import apgas
from apgas.core.resize import ResizeRecord

STREAMS: Final = 2
"""How many waves are under way at a time."""
WITNESS: Final = 1
"""A place that never leaves, so that what grows there shows."""
ORDER_S: Final = 100.0
"""An order that takes longer hangs: its own deadlines are shorter in all."""

Books: TypeAlias = "apgas.PlaceLocal[Book]"


class PlannedError(Exception):
    """Raised by activities that are to fail."""


class SoakError(AssertionError):
    """Something that must hold does not."""


# on any place ---------------------------------------------------------------------------------------------------------


def visit(books: Books, wave: int, planned: PlannedActivity, cargo: bytearray, checksum: int) -> None:
    """Be an activity of a wave: check the cargo, count, start the children, fail if that is planned."""
    if zlib.crc32(cargo) != checksum or len(cargo) != planned.cargo_bytes:
        raise SoakError(f"activity {planned} of wave {wave} got damaged cargo of {len(cargo)} bytes")
    if not books.get().note(wave, planned.number):
        apgas.async_at(apgas.place(0), note, books, wave, planned.number)
    for child in planned.children():
        send(books, wave, child)
    if planned.fails:
        raise PlannedError(planned.number)


def note(books: Books, wave: int, number: int) -> None:
    """(place 0) Count what happened on a place after its book was closed."""
    if not books.get().note(wave, number):
        raise SoakError("the book of place 0 is closed")


def send(books: Books, wave: int, planned: PlannedActivity) -> None:
    """Start an activity on some place; if that one begins to leave, on another."""
    cargo = bytearray(planned.number.to_bytes(8, "big") * (planned.cargo_bytes // 8 + 1))[: planned.cargo_bytes]
    arguments = (books, wave, planned, PickleBuffer(cargo), zlib.crc32(cargo))
    while True:
        where = random.choice(apgas.places())
        if where == apgas.here():
            arguments = (books, wave, planned, cargo, zlib.crc32(cargo))  # type: ignore[assignment]  # of another length
        try:
            if planned.is_called:
                apgas.at(where, visit, *arguments)  # type: ignore[arg-type]  # of either length
            else:
                apgas.async_at(where, visit, *arguments)  # type: ignore[arg-type]  # of either length
        except apgas.PlaceGoneError:
            continue  # left or died: nothing of it counts
        except PlannedError as error:
            if not planned.fails or error.args != (planned.number,):
                raise SoakError(f"{planned} was to end otherwise than by {error!r}") from error
        return


def run_wave(books: Books, wave: int, seed: int) -> int:
    """Open the finish of a wave here; returns how many of its activities raised an error."""
    try:
        with apgas.finish():
            for planned in roots(wave, seed):
                send(books, wave, planned)
    except ExceptionGroup as group:
        expected_errors, others = group.split(PlannedError)
        if others is not None:
            raise others from None
        return _leaves(expected_errors)
    return 0


def _leaves(group: BaseExceptionGroup[PlannedError] | None) -> int:
    if group is None:
        return 0
    return sum(_leaves(error) if isinstance(error, BaseExceptionGroup) else 1 for error in group.exceptions)


def close_book(books: Books) -> dict[int, Tally]:
    """(leaver) Hand the book over."""
    return books.get().close()


def reopen_book(books: Books) -> None:
    """(leaver that stays) Count here again."""
    books.get().reopen()


def take(books: Books, wave: int) -> Tally:
    """Hand over what a wave did here."""
    return books.get().take(wave)


def waves_of(books: Books) -> list[int]:
    """Return which waves have something noted here."""
    return books.get().waves()


# on place 0 -----------------------------------------------------------------------------------------------------------


class Keeper(apgas.MalleableHandler):
    """Releases random places, never the witness, and keeps their books."""

    def __init__(self, books: Books, rng: random.Random) -> None:
        self.books = books
        self.moving = threading.Lock()
        self._rng = rng

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        """Choose leavers and take their books over; what happens there from now on is reported to place 0."""
        leavers = self._rng.sample([place for place in apgas.places() if place.id > WITNESS], nb_places)
        with self.moving:
            for leaver in leavers:
                for wave, tally in apgas.at(leaver, close_book, self.books).items():
                    self.books.get().add(wave, tally)
        return leavers

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None:
        """Nothing is left to do."""

    def preGrow(self, nb_places: int) -> None:
        """Nothing has to wait."""

    def postGrow(
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        """Nothing is left to do: the waves find the newcomers."""

    def shrinkAborted(self, places: Sequence[apgas.Place]) -> None:
        """Let places that stay count for themselves again."""
        for place in places:
            apgas.at(place, reopen_book, self.books)

    def collect(self, wave: int) -> Tally:
        """Put together what a wave did, wherever; no book moves meanwhile."""
        total = Tally()
        with self.moving:
            for place in apgas.places():
                try:
                    total.add(apgas.at(place, take, self.books, wave))
                except apgas.PlaceGoneError:
                    continue  # it began to leave just now: its book is here already
        return total


class Traffic:
    """Waves without end, until ``stop`` is set; ``failure`` is the first that did not come out right."""

    def __init__(self, keeper: Keeper, seed: int) -> None:
        self.stop = threading.Event()
        self.failure: BaseException | None = None
        self.activities = self.waves = self._next = 0
        self._keeper = keeper
        self._seed = seed
        self._lock = threading.Lock()

    def flow(self) -> None:
        """Run wave after wave."""
        try:
            while not self.stop.is_set():
                self._one_wave()
        except BaseException as error:
            self.failure = error
            self.stop.set()
            raise

    def _one_wave(self) -> None:
        with self._lock:
            wave, self._next = self._next, self._next + 1
        wanted = expected(wave, self._seed)
        while True:
            home = random.choice(apgas.places())
            try:
                errors = apgas.at(home, run_wave, self._keeper.books, wave, self._seed)
                break
            except apgas.PlaceGoneError:
                continue  # another one, then
        _compare(wave, wanted, Expected(self._keeper.collect(wave), errors))
        with self._lock:
            self.activities += wanted.tally.count
            self.waves += 1


def _compare(wave: int, wanted: Expected, found: Expected) -> None:
    if found != wanted:
        raise SoakError(f"wave {wave}: expected {wanted}, found {found}")


def order(change: int, rng: random.Random, traffic: Traffic) -> ResizeRecord:
    """Grow or shrink, and wait for the outcome, which has to be good."""
    before = len(apgas.resizes())
    apgas.schedule_orders(f"{rng.random() / 50:.4f}:{change:+d}")
    until = time.monotonic() + ORDER_S
    while len(apgas.resizes()) == before:
        if traffic.failure is not None:
            raise traffic.failure
        if time.monotonic() > until:
            raise SoakError(f"order {change:+d} has not ended within {ORDER_S:g} s")
        time.sleep(0.005)
    record = apgas.resizes()[-1]
    if record.outcome != "done" or record.reason:
        raise SoakError(f"order {change:+d} ended with {record}")
    return record


def say(**words: object) -> None:
    """Report to the command how far the job is: one JSON object on one line."""
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def run(cycles: int, seconds: float, seed: int, most: int) -> None:
    """Grow and shrink ``cycles`` times, or for ``seconds`` if that is longer, to at most ``most`` places."""
    rng = random.Random(seed)
    books: Books = apgas.PlaceLocal(Book)
    keeper = Keeper(books, rng)
    traffic = Traffic(keeper, seed)
    apgas.define_malleable_handler(keeper)
    say(place_0=os.getpid(), witness=apgas.at(apgas.place(WITNESS), os.getpid))
    until = time.monotonic() + seconds
    spawned = cycle = 0
    with apgas.finish():
        for _ in range(STREAMS):
            apgas.async_(traffic.flow)
        try:
            while cycle < cycles or time.monotonic() < until:
                cycle += 1
                growth = rng.randint(1, most - len(apgas.places()))
                grown = order(growth, rng, traffic)
                spawned += growth
                members = [place.id for place in apgas.places()]
                # one newcomer at most stays, so that sizes vary and there is always room to grow
                shrunk = order(-rng.randint(max(1, len(members) - 3), len(members) - 2), rng, traffic)
                say(
                    cycle=cycle,
                    spawned=spawned,
                    members=members,
                    waves=traffic.waves,
                    activities=traffic.activities,
                    grow_s=grown.seconds,
                    shrink_s=shrunk.seconds,
                )
        finally:
            traffic.stop.set()
    apgas.disable_malleable_handler()
    left = {place.id: waves for place in apgas.places() if (waves := apgas.at(place, waves_of, books))}
    if left:
        raise SoakError(f"waves that were over were counted again: {left}")
    say(over=True, cycle=cycle, waves=traffic.waves, activities=traffic.activities)


def main() -> None:
    """Start the job; its options are one JSON object."""
    apgas.run(run, **json.loads(sys.argv[1]))


# What the soak counts: who did which activity in which wave, on places that come and go ------------------------------

ROOTS: Final = 12
DEPTH: Final = 5
_MASK: Final = (1 << 64) - 1


def mix(number: int) -> int:
    """Scramble 64 bits (the finalizer of SplitMix64), so that sums of different sets of numbers differ."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)


@dataclass(slots=True)
class Tally:
    """A multiset of activities: how many, and a digest of which."""

    count: int = 0
    digest: int = 0

    def note(self, number: int) -> None:
        """Count the activity ``number``."""
        self.count += 1
        self.digest = (self.digest + mix(number)) & _MASK

    def add(self, other: Tally) -> None:
        """Count all of another tally."""
        self.count += other.count
        self.digest = (self.digest + other.digest) & _MASK


@dataclass(frozen=True, slots=True)
class PlannedActivity:
    """What an activity is to be, which its number decides: everybody can compute the whole tree of a wave."""

    number: int
    depth: int

    @property
    def fails(self) -> bool:
        """Whether it raises an error after its work."""
        return mix(self.number ^ 1) % 53 == 0

    @property
    def is_called(self) -> bool:
        """Whether its parent waits for it (``at``) instead of leaving it to the finish (``async_at``)."""
        return self.depth < DEPTH and mix(self.number ^ 2) % 8 == 0

    @property
    def cargo_bytes(self) -> int:
        """How much data it carries: mostly nothing, at times a lot."""
        luck = mix(self.number ^ 3) % 100
        if luck >= 12:
            return 0
        return (1 << 20) + luck if luck < 2 else 4096 * (1 + mix(self.number ^ 4) % 32)

    def children(self) -> Iterator[PlannedActivity]:
        """Those that it starts."""
        if self.depth == 0:
            return
        for child in range(1 + mix(self.number ^ 5) % 2):
            yield PlannedActivity(mix(self.number * 4 + child), self.depth - 1)


def roots(wave: int, seed: int) -> list[PlannedActivity]:
    """The activities that a wave begins with."""
    return [PlannedActivity(mix(mix(seed) ^ (wave * 1000 + root)), DEPTH) for root in range(ROOTS)]


@dataclass(slots=True)
class Expected:
    """What must have happened when a wave is over; ``errors``: how many its finish is to raise."""

    tally: Tally
    errors: int = 0


def expected(wave: int, seed: int) -> Expected:
    """Compute what a wave does, without doing it."""
    result = Expected(Tally())
    pending = roots(wave, seed)
    while pending:
        planned = pending.pop()
        result.tally.note(planned.number)
        result.errors += planned.fails and not planned.is_called
        pending += planned.children()
    return result


class Book:
    """One place's tallies by wave; a leaver's is closed, and what still happens there is reported to place 0."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tallies: dict[int, Tally] = {}
        self._closed = False

    def note(self, wave: int, number: int) -> bool:
        """Count an activity; False if the book is closed."""
        with self._lock:
            if self._closed:
                return False
            self._tallies.setdefault(wave, Tally()).note(number)
            return True

    def take(self, wave: int) -> Tally:
        """Hand over what a wave did here."""
        with self._lock:
            return self._tallies.pop(wave, Tally())

    def add(self, wave: int, tally: Tally) -> None:
        """Take over what a wave did on a leaver."""
        with self._lock:
            self._tallies.setdefault(wave, Tally()).add(tally)

    def close(self) -> dict[int, Tally]:
        """Hand everything over; from now on ``note`` refuses."""
        with self._lock:
            self._closed = True
            tallies, self._tallies = self._tallies, {}
            return tallies

    def reopen(self) -> None:
        """The place stays after all."""
        with self._lock:
            self._closed = False

    def waves(self) -> list[int]:
        """The waves that something is noted of."""
        with self._lock:
            return sorted(self._tallies)
