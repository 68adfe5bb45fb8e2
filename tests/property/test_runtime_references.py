"""Copies of references travel at random: objects are let go exactly when no copy is left anywhere, on all places."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.in_places.validation import validate

from apgas.core.effects import FinishFired
from apgas.core.finish import FinishTable, Flush, ReferenceEffect, References, Unreferenced
from apgas.core.messages import Carries, FinishId, Freed, Message, RefId, RefReport
from apgas.errors import ApgasError


class World:
    """A few places, ordered channels between them, and the truth about all copies.

    Places join, of which the others hear one by one, each in an epoch of its own. Every reference is that of a
    ``PlaceLocal``: a place that has a handle may have an object, too.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.places = {place: References(place) for place in range(self.rng.randint(1, 5))}
        self.channels: dict[tuple[int, int], deque[Message]] = {}
        self.handles: Counter[tuple[int, RefId]] = Counter()
        self.travelling: Counter[RefId] = Counter()
        self.made: set[RefId] = set()
        self.freed: set[RefId] = set()
        self.left: set[int] = set()
        self.objects: set[tuple[int, RefId]] = set()
        self.joined: list[int] = []
        """By epoch, from 1 on, who joined in it."""
        self.known = {place: set(self.places) for place in self.places}
        self.epochs = dict.fromkeys(self.places, 0)

    def run(self, steps: int) -> World:
        """Let things happen at random, then let everything go."""
        acts: list[Callable[[], None]] = [self._make, self._send, self._send, self._deliver, self._deliver, self._drop]
        for _ in range(steps):
            self.rng.choice([*acts, self._use])()
            if self.rng.random() < 0.02:
                self._leave()
            if self.rng.random() < 0.05:
                self.rng.choice((self._join, self._hear))()
        while self.handles or self.channels or any(epoch < len(self.joined) for epoch in self.epochs.values()):
            self.rng.choice([self._hear, *[self._drop, self._deliver] * 10])()
        at_living_homes = {ref for ref in self.made if ref.home in self.places}
        assert at_living_homes <= self.freed, f"{at_living_homes - self.freed} are never let go"
        left = {(place, ref) for place, ref in self.objects if {place, ref.home} <= self.places.keys()}
        assert not left, f"objects of references that were let go are left on their places: {left}"
        return self

    def _join(self) -> None:
        place = max([*self.places, *self.left]) + 1
        self.joined.append(place)
        self.places[place] = References(place)
        self.known[place] = set(self.places)
        self.epochs[place] = len(self.joined)
        while self.epochs[0] < len(self.joined):
            self._enter(0)

    def _hear(self) -> None:
        """News of a newcomer reach one place."""
        late = [place for place, epoch in self.epochs.items() if epoch < len(self.joined)]
        if late:
            self._enter(self.rng.choice(late))

    def _enter(self, place: int) -> None:
        self.known[place].add(self.joined[self.epochs[place]])
        self.epochs[place] += 1
        self._perform(place, self.places[place].entered(self.epochs[place]))

    def _use(self) -> None:
        """A place makes its object of a reference of which it has a handle."""
        if self.handles:
            self.objects.add(self.rng.choice(list(self.handles)))

    def _make(self) -> None:
        place = self.rng.choice(list(self.places))
        ref = self.places[place].make()
        self.made.add(ref)
        self.handles[place, ref] += 1

    def _send(self) -> None:
        if not self.handles:
            return
        src, ref = self.rng.choice(list(self.handles))
        dst = self.rng.choice([place for place in self.places if place in self.known[src] and place != src] or [src])
        if dst != src:
            self.travelling[ref] += 1
            self._perform(src, [self.places[src].sent(dst, [ref], self.epochs[src])])

    def _deliver(self) -> None:
        if not self.channels:
            return
        src, dst = self.rng.choice(list(self.channels))
        message = self.channels[src, dst].popleft()
        if not self.channels[src, dst]:
            del self.channels[src, dst]
        if dst in self.left:
            assert not isinstance(message, Carries), "a copy was sent to a place that has left"
            return
        core = self.places[dst]
        if isinstance(message, RefReport):
            self._perform(dst, core.reported(message, self.epochs[dst]))
        elif isinstance(message, Freed):
            self.objects.discard((dst, message.ref))
        elif isinstance(message, Carries):
            for ref in message.refs:
                self.travelling[ref] -= 1
                core.arrived(ref, src)
                self.handles[dst, ref] += 1
                if self.handles[dst, ref] > 1 and self.rng.random() < 0.7:
                    self._drop_one(dst, ref)
        validate(core)

    def _drop(self) -> None:
        if self.handles:
            self._drop_one(*self.rng.choice(list(self.handles)))

    def _drop_one(self, place: int, ref: RefId) -> None:
        self.handles[place, ref] -= 1
        if not self.handles[place, ref]:
            del self.handles[place, ref]
        self._perform(place, self.places[place].dropped(ref, self.epochs[place]))
        validate(self.places[place])

    def _leave(self) -> None:
        """A place that nothing is under way to goes, with all it holds."""
        place = self.rng.choice(list(self.places))
        if place == 0 or any(dst == place for _, dst in self.channels):
            return
        for held in [held for held in self.handles if held[0] == place]:
            del self.handles[held]
        core = self.places.pop(place)
        self.left.add(place)
        effects = core.leave(self.epochs.pop(place))
        assert core.dropped(RefId(0, 0), 0) == [], "it holds on to something"
        self._perform(place, effects)

    def _perform(self, here: int, effects: list[ReferenceEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Unreferenced):
                holders = [place for place, ref in self.handles if ref == effect.ref]
                assert not holders, f"{effect.ref} is let go, and places {holders} have copies"
                assert not self.travelling[effect.ref], f"{effect.ref} is let go while a copy travels"
                assert effect.ref not in self.freed, f"{effect.ref} is let go twice"
                assert effect.ref.home == here, "somebody else's object is let go"
                self.freed.add(effect.ref)
                self.objects.discard((here, effect.ref))
                # what a home that leaves has made is kept by the others
                for place in self.known[here] - self.left - {here} if here in self.places else ():
                    self.channels.setdefault((here, place), deque()).append(Freed(self.epochs[here], effect.ref))
            else:
                self.channels.setdefault((here, effect.dst), deque()).append(effect.message)


@given(seed=st.integers(0, 2**32), steps=st.integers(1, 300))
def test_objects_go_exactly_when_no_copy_is_left(seed: int, steps: int) -> None:
    World(seed).run(steps)


def _forget_what_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    original = FinishTable.spawned

    def spawned(self: FinishTable, finish: FinishId, at: int) -> None:
        if at != 1:
            original(self, finish, at)

    monkeypatch.setattr(FinishTable, "spawned", spawned)


def _let_go_when_home_has_no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    def reported(self: FinishTable, src: int, report: Flush) -> FinishFired | None:
        return FinishFired(report.finish, ()) if self._homed.pop(report.finish, None) else None

    monkeypatch.setattr(FinishTable, "reported", reported)


def _leave_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(self: References, epoch: int) -> list[ReferenceEffect]:
        self._left = True
        return []

    monkeypatch.setattr(References, "leave", leave)


def _drop_more_than_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    original = References.arrived

    def arrived(self: References, ref: RefId, src: int) -> None:
        if ref not in self._held:
            original(self, ref, src)

    monkeypatch.setattr(References, "arrived", arrived)


def _take_reports_of_newcomers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The home has objects freed on the members that it knows, and a newcomer that it does not know keeps its own."""
    original = References.reported
    monkeypatch.setattr(References, "reported", lambda self, report, epoch: original(self, report, report.epoch))


@pytest.mark.parametrize(
    "plant",
    [
        _forget_what_was_sent,
        _let_go_when_home_has_no_copy,
        _leave_without_a_word,
        _drop_more_than_it_has,
        _take_reports_of_newcomers_at_once,
    ],
)
def test_the_net_catches(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    def run_many() -> None:
        for seed in range(300):
            World(seed).run(60)

    with pytest.raises((AssertionError, ApgasError)):
        run_many()
