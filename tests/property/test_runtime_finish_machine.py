"""Finishes of several places, step by step in every order that the contract allows, against an oracle."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.in_places.validation import validate

from apgas.core.effects import FinishFired
from apgas.core.finish import FinishTable, Flush, Gathered
from apgas.core.messages import FinishId
from apgas.core.relay import Relay

PLACES = 4


@dataclass(frozen=True)
class Arrival:
    """An activity under way."""

    finish: FinishId


@dataclass
class Truth:
    """What is known of a finish from outside."""

    alive: int = 1  # the body, activities that run, and those under way
    reports_under_way: int = 0
    errors: Counter[bytes] = field(default_factory=Counter)
    fired: bool = False


class Finishes(RuleBasedStateMachine):
    """Messages of one pair of places keep their order, and there is no other order.

    A finish has fired exactly if nothing lives under it and none of its reports is under way.
    """

    dense = False

    def __init__(self) -> None:
        super().__init__()
        self.tables = [FinishTable(here) for here in range(PLACES)]
        self.truth: dict[FinishId, Truth] = {}
        self.live: list[tuple[int, FinishId]] = []
        self.channels: dict[tuple[int, int], deque[Arrival | Flush]] = {}
        self.failures = 0

    @rule(home=st.integers(0, PLACES - 1))
    def open(self, home: int) -> None:
        finish = self.tables[home].open(dense=self.dense)
        assert finish not in self.truth
        assert finish.home == home
        self.truth[finish] = Truth()
        self.live.append((home, finish))

    @precondition(lambda self: self.live)
    @rule(data=st.data(), dst=st.integers(0, PLACES - 1))
    def spawn(self, data: st.DataObject, dst: int) -> None:
        place, finish = data.draw(st.sampled_from(self.live))
        self.tables[place].spawned(finish, dst)
        self.truth[finish].alive += 1
        if dst == place:
            self.tables[dst].arrived(finish, place)
            self.live.append((dst, finish))
        else:
            self.channels.setdefault((place, dst), deque()).append(Arrival(finish))

    @precondition(lambda self: self.live)
    @rule(data=st.data(), fails=st.booleans())
    def end(self, data: st.DataObject, fails: bool) -> None:
        self._end(data.draw(st.integers(0, len(self.live) - 1)), fails=fails)

    @precondition(lambda self: self.channels)
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        self._deliver(*data.draw(st.sampled_from(sorted(self.channels))))

    def _end(self, index: int, *, fails: bool = False) -> None:
        place, finish = self.live.pop(index)
        truth = self.truth[finish]
        truth.alive -= 1
        error = None
        if fails:
            self.failures += 1
            error = b"%d" % self.failures
            truth.errors[error] += 1
        match self.tables[place].ended(finish, error):
            case Flush() as flush:
                assert finish.home != place, "a report from home to home"
                truth.reports_under_way += 1
                self._report(place, flush)
            case FinishFired() as fired:
                self._fires(fired)
            case None:
                pass

    def _report(self, place: int, flush: Flush) -> None:
        self.channels.setdefault((place, flush.finish.home), deque()).append(flush)

    def _deliver(self, src: int, dst: int) -> None:
        channel = self.channels[src, dst]
        packet = channel.popleft()
        if not channel:
            del self.channels[src, dst]
        if isinstance(packet, Arrival):
            self.tables[dst].arrived(packet.finish, src)
            self.live.append((dst, packet.finish))
            return
        self.truth[packet.finish].reports_under_way -= 1
        fired = self.tables[dst].reported(src, packet)
        if fired is not None:
            self._fires(fired)

    def _fires(self, fired: FinishFired) -> None:
        truth = self.truth[fired.finish]
        assert not truth.fired, f"{fired.finish} fires twice"
        assert Counter(fired.errors) == truth.errors
        truth.fired = True

    @invariant()
    def fires_exactly_when_all_is_over(self) -> None:
        for finish, truth in self.truth.items():
            over = truth.alive == 0 and truth.reports_under_way == 0
            assert truth.fired == over, f"{finish}: {truth}"

    @invariant()
    def tables_are_valid(self) -> None:
        for table in self.tables:
            validate(table)

    @invariant()
    def quiet_means_nothing_is_here(self) -> None:
        for here, table in enumerate(self.tables):
            runs = any(place == here for place, _ in self.live)
            homed = any(finish.home == here and not truth.fired for finish, truth in self.truth.items())
            assert table.quiet == (not runs and not homed)

    def teardown(self) -> None:
        """Whatever is under way arrives and ends: then every finish has fired."""
        while self.live or self.channels:
            if self.live:
                self._end(-1)
            else:
                self._deliver(*next(iter(self.channels)))
        assert all(truth.fired for truth in self.truth.values()), self.truth
        assert all(table.quiet for table in self.tables)


class DenseFinishes(Finishes):
    """Reports keep no order at all, and are added to others on the way: more than any tree may do.

    A finish has not fired while anything lives under it or a report of it is under way, and has when no report to its
    home is.
    """

    dense = True

    def __init__(self) -> None:
        super().__init__()
        self.relays = [Relay(here) for here in range(PLACES)]
        self.sums: list[tuple[FinishId, Gathered, int]] = []

    def _report(self, place: int, flush: Flush) -> None:
        reports = self.relays[place].own(flush)
        self.sums.append((flush.finish, reports, 1))

    @precondition(lambda self: len(self.sums) > 1)
    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        finish, reports, count = self.sums.pop(data.draw(st.integers(0, len(self.sums) - 1)))
        same = [index for index, each in enumerate(self.sums) if each[0] == finish]
        if same:
            _, others, more = self.sums.pop(data.draw(st.sampled_from(same)))
            reports.add(others)
            count += more
        self.sums.append((finish, reports, count))

    @precondition(lambda self: self.sums)
    @rule(data=st.data())
    def gather(self, data: st.DataObject) -> None:
        self._gather(data.draw(st.integers(0, len(self.sums) - 1)))

    def _gather(self, index: int) -> None:
        finish, reports, count = self.sums.pop(index)
        self.truth[finish].reports_under_way -= count
        for fired in self.tables[finish.home].gathered(finish, reports):
            self._fires(fired)

    @invariant()
    def fires_exactly_when_all_is_over(self) -> None:
        for finish, truth in self.truth.items():
            over = truth.alive == 0 and truth.reports_under_way == 0
            assert over or not truth.fired, f"{finish} fired early: {truth}"
            heard = not any(other.home == finish.home for other, _, _ in self.sums)
            assert truth.fired or not (over and heard), f"{finish} does not fire: {truth}"

    def teardown(self) -> None:
        """Whatever is under way arrives and ends: then every finish has fired."""
        while self.live or self.channels or self.sums:
            if self.sums:
                self._gather(-1)
            elif self.live:
                self._end(-1)
            else:
                self._deliver(*next(iter(self.channels)))
        super().teardown()


TestFinishes = Finishes.TestCase
TestFinishes.settings = settings(stateful_step_count=40)
TestDenseFinishes = DenseFinishes.TestCase
TestDenseFinishes.settings = settings(stateful_step_count=50)
