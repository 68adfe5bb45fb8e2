"""Joins, leaves and aborted leaves over several places, step by step, against the history that place 0 writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.in_places.validation import validate

from apgas.core import effects as e
from apgas.core import messages as m
from apgas.core.place import PlaceCore
from apgas.errors import PlaceGoneError

FIRST_PLACES = 3
MOST_PLACES = 8


def _info(place: int) -> m.PlaceInfo:
    return m.PlaceInfo(place, "h", 1000 + place, f"n{place}", place)


def _core(place: int, members: Iterable[m.PlaceInfo], epoch: int) -> PlaceCore:
    core = PlaceCore(place, members, epoch)
    core.degree = 1  # the tree of reports is a chain, in which every place comes and goes
    return core


class Members(RuleBasedStateMachine):
    """Place 0 decides; its messages reach the others late, in order per pair of places.

    What every place has seen is a beginning of what place 0 has decided, and ids are never used again. The dense finish
    of all that runs fires once, at the end.
    """

    def __init__(self) -> None:
        super().__init__()
        first = [_info(place) for place in range(FIRST_PLACES)]
        self.cores = {info.place: _core(info.place, first, 0) for info in first}
        self.history = [frozenset(range(FIRST_PLACES))]
        self.used = set(range(FIRST_PLACES))
        self.channels: dict[tuple[int, int], deque[m.AnyMessage]] = {}
        self.gone: set[int] = set()
        self.order = 0
        self.leaving: tuple[int, ...] = ()
        self.drained: set[int] = set()
        self.running: list[tuple[int, int, m.Spawn]] = []
        self.sent = self.ran = 0
        self.root = self.cores[0].open_finish(dense=True)
        self.holding: list[tuple[int, m.FinishId]] = []
        self.fired = 0

    # what place 0 decides

    @precondition(lambda self: not self.leaving and len(self.cores) < MOST_PLACES)
    @rule(count=st.integers(1, 2))
    def grow(self, count: int) -> None:
        core = self.cores[0]
        added = tuple(_info(place) for place in self._new_ids(count))
        self._decide(core.commit_grow(added), self.history[-1] | {info.place for info in added})
        for info in added:
            self.cores[info.place] = _core(info.place, core.membership.members.values(), core.epoch)

    @precondition(lambda self: len(self.history) > 3)
    @rule(count=st.integers(1, 2))
    def spawn_in_vain(self, count: int) -> None:
        """Newcomers that get ids and come too late to join."""
        self._new_ids(count)

    def _new_ids(self, count: int) -> range:
        ids = self.cores[0].membership.new_ids(count)
        assert len(ids) == count
        assert not self.used & set(ids), f"{ids} are used again"
        self.used |= set(ids)
        return ids

    @precondition(lambda self: not self.leaving and len(self.history[-1]) > 1)
    @rule(data=st.data())
    def prepare_shrink(self, data: st.DataObject) -> None:
        candidates = sorted(self.history[-1] - {0})
        chosen = data.draw(st.lists(st.sampled_from(candidates), min_size=1, max_size=3, unique=True))
        self.order += 1
        self.leaving, self.drained = tuple(sorted(chosen)), set()
        self._perform(0, self.cores[0].prepare_shrink(self.order, self.leaving))

    @precondition(lambda self: self.leaving)
    @rule(deadline=st.sampled_from([True, False, False, False]))
    def abort_shrink(self, deadline: bool) -> None:
        if not deadline:
            return
        self.leaving = ()
        self._perform(0, self.cores[0].abort_shrink(self.order))

    @precondition(lambda self: self.leaving and self.drained == set(self.leaving))
    @rule()
    def commit_shrink(self) -> None:
        leavers, self.leaving = self.leaving, ()
        self._decide(self.cores[0].commit_shrink(self.order), self.history[-1] - set(leavers))

    def _decide(self, effects: list[e.Effect], members: frozenset[int]) -> None:
        self.history.append(members)
        self._perform(0, effects)

    # what happens meanwhile

    @precondition(lambda self: self.channels)
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        self._deliver(*data.draw(st.sampled_from(sorted(self.channels))))

    @precondition(lambda self: self.channels)
    @rule(data=st.data())
    def deliver_all_of_a_pair(self, data: st.DataObject) -> None:
        pair = data.draw(st.sampled_from(sorted(self.channels)))
        while pair in self.channels:
            self._deliver(*pair)

    @rule(data=st.data(), to_caller=st.booleans())
    def call(self, data: st.DataObject, to_caller: bool) -> None:
        """An activity sends another to any id: it works for those that stay alone, as far as its place knows."""
        activities = [(0, self.root), *((place, spawn.finish) for place, _, spawn in self.running)]
        place, finish = data.draw(st.sampled_from(activities))
        anybody = self.used if data.draw(st.integers(0, 3)) == 0 or len(self.history[-1]) == 1 else self.history[-1]
        dst = data.draw(st.sampled_from(sorted(anybody - {place})))
        core = self.cores[place]
        leaving = set(self.leaving) if place == 0 else core.membership.leaving
        may = dst in self.history[core.epoch] and dst not in leaving
        try:
            _, effects = core.spawn(finish, dst, [], to_caller=to_caller)
        except PlaceGoneError:
            assert not may
            return
        assert may, f"place {dst} is sent new work: {self.history[core.epoch]} less {leaving}"
        self.sent += 1
        self._perform(place, effects)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end_activity(self, data: st.DataObject) -> None:
        self._end(data.draw(st.integers(0, len(self.running) - 1)))

    @precondition(lambda self: self.holding)
    @rule(data=st.data())
    def pass_on(self, data: st.DataObject) -> None:
        self._pass_on(data.draw(st.integers(0, len(self.holding) - 1)))

    def _pass_on(self, index: int) -> None:
        here, finish = self.holding.pop(index)
        if here in self.cores:
            self._perform(here, self.cores[here].pass_on(finish))

    def _end(self, index: int) -> None:
        place, caller, spawn = self.running.pop(index)
        self._perform(place, self.cores[place].answered(caller, spawn, [], ok=True))

    def _deliver(self, src: int, dst: int) -> None:
        channel = self.channels[src, dst]
        message = channel.popleft()
        if not channel:
            del self.channels[src, dst]
        if dst in self.gone:
            assert isinstance(message, m.Final), f"{message} of place {src} to place {dst} is lost"
            return
        self._perform(dst, self.cores[dst].received(src, message, []))

    def _perform(self, here: int, effects: Iterable[e.Effect]) -> None:  # noqa: C901 - one arm an effect
        for effect in effects:
            match effect:
                case e.Send(dst, message, _):
                    if isinstance(message, m.Drained) and self.leaving and message.order == self.order:
                        self._has_everything(here)
                    decoded = m.decode_frame(m.encode(message))
                    assert not isinstance(decoded, m.OF_REFERENCES)
                    self.channels.setdefault((here, dst), deque()).append(decoded)
                case e.RunActivity(src, spawn, _):
                    self.ran += 1
                    self.running.append((here, src, spawn))
                case e.MembersChanged(epoch, _, _):
                    assert self.cores[here].epoch == epoch
                case e.LeaverDrained(order, place):
                    if order == self.order and self.leaving:
                        assert place in self.leaving
                        assert place not in self.drained, f"place {place} drained twice"
                        self.drained.add(place)
                case e.Leaves():
                    assert not any(place == here for place, *_ in self.running), f"place {here} leaves with work"
                    assert here not in self.history[-1]
                    self.gone.add(here)
                    del self.cores[here]
                case e.StaysOn():
                    assert here in self.history[-1]
                case e.ResolveCall():
                    pass
                case e.PassOn(finish):
                    self.holding.append((here, finish))
                case e.FinishFired():
                    assert not self.running
                    self.fired += 1
                case _:
                    raise AssertionError(f"unexpected {effect}")

    def _has_everything(self, leaver: int) -> None:
        under_way = [message for (_, dst), channel in self.channels.items() if dst == leaver for message in channel]
        spawns = [message for message in under_way if isinstance(message, m.Spawn)]
        assert not spawns, f"place {leaver} has drained before {spawns}"
        assert not any(place == leaver for place, *_ in self.running), f"place {leaver} has drained with work"

    # what holds always

    @invariant()
    def views_are_beginnings_of_the_history(self) -> None:
        assert self.cores[0].epoch == len(self.history) - 1
        for place, core in self.cores.items():
            assert core.epoch < len(self.history)
            assert core.membership.members.keys() == self.history[core.epoch], f"place {place} in epoch {core.epoch}"
            assert place in self.history[core.epoch]

    @invariant()
    def states_are_valid(self) -> None:
        for core in self.cores.values():
            validate(core)

    def teardown(self) -> None:
        """Everything arrives and ends; then all who are left agree, and no place waits for anything."""
        self._perform(0, self.cores[0].ended(self.root))
        while self.channels or self.running or self.leaving or self.holding:
            if self.channels:
                self._deliver(*next(iter(self.channels)))
            elif self.holding:
                self._pass_on(-1)
            elif self.running:
                self._end(-1)
            else:
                assert self.drained == set(self.leaving), f"{self.leaving} are to leave, {self.drained} have drained"
                self.commit_shrink()
        assert self.ran == self.sent
        assert self.fired == 1
        assert self.cores.keys() == self.history[-1]
        for core in self.cores.values():
            assert core.epoch == len(self.history) - 1
            assert not core.calls
            assert not core.membership.leaving


TestMembers = Members.TestCase
TestMembers.settings = settings(stateful_step_count=50)
