"""Orders, withdrawals, timeouts and failures in any order: the life of every order, against a model of it."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.in_places.validation import validate

from apgas.core import resize as r
from apgas.core.messages import PlaceInfo
from apgas.core.order import OrderMachine, Step

FIRST_PLACES = 4
T = TypeVar("T", r.CallHandler, r.StartSpawn, r.SetTimer)


def _info(place: int) -> PlaceInfo:
    return PlaceInfo(place, "h", 1, f"n{place}", place)


class Orders(RuleBasedStateMachine):
    """Plays handler, MPI, places and clock, each of which may answer late, twice or never.

    Every order ends with exactly one record, in the order of their arrival where they were carried out; one is carried
    out at a time; an answer to a step that is over changes nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.members = {place: _info(place) for place in range(FIRST_PLACES)}
        self.machine = OrderMachine(self.members, r.Deadlines(60, 30, 30, 10, 60, 1))
        self.now = 0.0
        self.next_place = FIRST_PLACES
        self.orders: dict[int, r.ResizeOrder] = {}
        self.records: dict[int, r.ResizeRecord] = {}
        self.begun: list[int] = []
        self.current: int | None = None
        self.step = Step.IDLE
        self.calls: list[r.CallHandler] = []
        self.spawns: list[r.StartSpawn] = []
        self.timers: list[r.SetTimer] = []
        self.draining: tuple[int, tuple[int, ...]] | None = None
        self.pending: set[int] = set()
        self.note = ""
        self.token: int | None = None
        self.answering = False
        self.abandoned: set[int] = set()

    # the world

    @initialize(registered=st.sampled_from([True, True, True, False]))
    def begin(self, registered: bool) -> None:
        if registered:
            self.machine.enable()

    @rule()
    def enable(self) -> None:
        self.machine.enable()

    @precondition(lambda self: len(self.records) > 3)
    @rule()
    def disable(self) -> None:
        moving = self.step not in (Step.IDLE, Step.PRE)
        self._take(self.machine.disable(self._tick()))
        left = {self.current} if moving else set()
        assert self.orders.keys() - self.records.keys() == left

    @precondition(lambda self: len(self.records) > 3)
    @rule()
    def end(self) -> None:
        before, number, step = set(self.records), self.current, self.step
        self._take(self.machine.end(self._tick()))
        moving = step in (Step.SPAWN, Step.DRAIN, Step.RELEASE)
        assert self.orders.keys() - self.records.keys() == ({number} if moving else set())
        new = {order: self.records[order] for order in self.records.keys() - before}
        assert all(record.reason.endswith("the program has ended") for record in new.values())
        assert all(record.outcome == "refused" for order, record in new.items() if order != number)

    @rule(kind=st.sampled_from(["grow", "shrink"]), count=st.integers(1, 4), named=st.sampled_from([0, 0, 1, 2]))
    def order(self, kind: r.Kind, count: int, named: int) -> None:
        number = len(self.orders)
        nodes = tuple(f"x{i}" for i in range(count * named))
        order = self.orders[number] = r.ResizeOrder(number, kind, count, nodes)
        self._take(self.machine.ordered(order, self._tick()))
        if not self.machine.enabled:
            assert self.records[number].outcome == "refused"

    @precondition(lambda self: self.orders)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.orders)))
        before = dict(self.records)
        moving = number == self.current and self.step is not Step.PRE
        self._take(self.machine.withdrawn(number, self._tick()))
        if number in before or moving:
            assert self.records == before
        else:
            assert self.records[number].reason == "withdrawn"

    @precondition(lambda self: self.calls)
    @rule(
        data=st.data(), again=st.booleans(), damage=st.sampled_from([""] * 8 + ["0", "twice", "unknown", "few", "none"])
    )
    def handler_returns(self, data: st.DataObject, again: bool, damage: str) -> None:
        call = self._now_or_then(data, self.calls)
        if not again:
            self.calls.remove(call)
        leavers = self._leavers(data, call, damage) if call.method == "preShrink" else None
        if call.token != self.token:
            effects = self._stale(self.machine.returned(call.token, leavers, self._tick()))
            late = call.token in self.abandoned and bool(leavers)
            undone = [r.CallHandler(-1, "shrinkAborted", call.count, tuple(leavers or ()))] if late else []
            assert effects == undone, "a preShrink that comes too late has to be undone, once"
            self.abandoned.discard(call.token)
            return
        number, step, note = self.current, self.step, self.note
        self._take_answer(self.machine.returned(call.token, leavers, self._tick()))
        assert number is not None
        if leavers is not None:
            legal = not damage and len(leavers) == call.count
            assert not legal or self.step is Step.DRAIN
            assert legal or self.step is Step.UNDO or self.records[number].outcome == "aborted"
        elif step in (Step.POST, Step.UNDO):
            record = self.records[number]
            assert record.outcome == ("done" if step is Step.POST else "aborted")
            assert record.reason == note or (step is Step.UNDO and not note)

    def _leavers(self, data: st.DataObject, call: r.CallHandler, damage: str) -> list[int]:
        others = sorted(self.members.keys() - {0})
        count = min(call.count, len(others))
        leavers = data.draw(st.permutations(others))[:count]
        match damage:
            case "0":
                return [*leavers[1:], 0]
            case "none":
                return []
            case "twice":
                return [*leavers, *leavers[:1]]
            case "unknown":
                return [*leavers[1:], self.next_place + 5]
            case "few":
                return leavers[1:]
            case _:
                return leavers

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), again=st.booleans())
    def handler_fails(self, data: st.DataObject, again: bool) -> None:
        call = self._now_or_then(data, self.calls)
        if not again:
            self.calls.remove(call)
        self._fails(call.token)

    @precondition(lambda self: self.spawns)
    @rule(data=st.data(), fails=st.sampled_from([False, False, True]))
    def spawn_ends(self, data: st.DataObject, fails: bool) -> None:
        spawn = self._now_or_then(data, self.spawns)
        self.spawns.remove(spawn)
        if fails:
            self._fails(spawn.token)
            return
        added = tuple(_info(self.next_place + i) for i in range(len(spawn.nodes)))
        self.next_place += len(added)
        fresh = spawn.token == self.token
        effects = self.machine.spawned(spawn.token, added, {"spawn": 0.1, "join": 0.1}, self._tick())
        assert (effects is not None) == fresh, "late newcomers are sent home, others are not"
        self._take(effects or [])
        assert (self.members.keys() >= {info.place for info in added}) == fresh

    def _fails(self, token: int) -> None:
        if token != self.token:
            assert self._stale(self.machine.failed(token, "it failed", self._tick())) == []
            self.abandoned.discard(token)
            return
        number, step = self.current, self.step
        self._take_answer(self.machine.failed(token, "it failed", self._tick()))
        assert number is not None
        record = self.records[number]
        assert record.outcome == ("done" if step is Step.POST else "aborted")
        assert record.reason.endswith("it failed")

    @precondition(lambda self: self.orders)
    @rule(data=st.data(), stale=st.booleans())
    def leaver_drains(self, data: st.DataObject, stale: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.orders)))
        if self.draining is None or (stale and number != self.draining[0]):
            assert self.machine.drained(number, 1, self._tick()) == []
            return
        number, leavers = self.draining
        place = data.draw(st.sampled_from(leavers))
        self.pending.discard(place)
        self._take(self.machine.drained(number, place, self._tick()))
        assert bool(self.pending) == (self.step is Step.DRAIN) or self.step is Step.RELEASE

    @precondition(lambda self: self.orders)
    @rule(data=st.data())
    def process_ends(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(1, self.next_place))
        if self.step is not Step.RELEASE or place not in self.pending:
            assert self.machine.gone(place, self._tick()) == []
            return
        self.pending.discard(place)
        self._take(self.machine.gone(place, self._tick()))
        assert (self.step is Step.RELEASE) == bool(self.pending)

    @precondition(lambda self: self.timers)
    @rule(data=st.data())
    def time_runs_out(self, data: st.DataObject) -> None:
        timer = self._now_or_then(data, self.timers)
        self.timers.remove(timer)
        self._timeout(timer)

    def _timeout(self, timer: r.SetTimer) -> None:
        number, step = self.current, self.step
        if timer.delay_s == self.machine.deadlines.deferred_s:
            effects = self._stale(self.machine.timeout(timer.token, self._tick()))
            assert effects in ([], [r.TellDeferred(-1 if number is None else number)])
            assert not effects or step is Step.PRE
        elif timer.token != self.token:
            assert self._stale(self.machine.timeout(timer.token, self._tick())) == []
        else:
            assert number is not None
            if step is Step.RELEASE:
                self.note = f"places {sorted(self.pending)} were released, but their processes linger"
            elif step is Step.DRAIN:
                self.note = f"places {sorted(self.pending)} did not drain: drain took longer than its deadline"
            self._take(self.machine.timeout(timer.token, self._tick()))
            goes_on = self.step in (Step.POST, Step.UNDO) and step in (Step.RELEASE, Step.DRAIN)
            assert goes_on == (self.current == number), f"order {number} is in {self.step}"

    # the model

    def _now_or_then(self, data: st.DataObject, things: list[T]) -> T:
        """Draw what belongs to the present step if there is something, or anything, old as it may be."""
        return things[-1] if data.draw(st.booleans()) else data.draw(st.sampled_from(things))

    def _tick(self) -> float:
        self.now += 1.0
        return self.now

    def _stale(self, effects: list[r.OrderEffect]) -> list[r.OrderEffect]:
        """An answer to a step that is over changes nothing."""
        assert not any(isinstance(effect, r.Finished | r.SetTimer) for effect in effects)
        return effects

    def _take_answer(self, effects: list[r.OrderEffect]) -> None:
        self.answering = True
        self._take(effects)
        self.answering = False

    def _take(self, effects: list[r.OrderEffect]) -> None:  # noqa: C901 - one arm an effect
        for effect in effects:
            match effect:
                case r.CallHandler(method="shrinkAborted"):
                    if self.draining is None and self.step is Step.PRE:
                        self._enter(Step.PRE, Step.UNDO)  # a wrong list: those of it that are members may wait
                    assert self.step is Step.UNDO
                    self.calls.append(effect)
                case r.CallHandler(_, ("preGrow" | "preShrink") as method, count):
                    self._begin(method, count)
                    self.calls.append(effect)
                case r.CallHandler():
                    assert self.step in (Step.SPAWN, Step.RELEASE), f"{effect} in {self.step}"
                    assert not self.pending or self.note
                    self.step, self.pending = Step.POST, set()
                    self.calls.append(effect)
                case r.StartSpawn():
                    self._enter(Step.PRE, Step.SPAWN)
                    self.spawns.append(effect)
                case r.CommitGrow(added):
                    assert self.step is Step.SPAWN
                    assert not self.members.keys() & {info.place for info in added}
                    self.members.update((info.place, info) for info in added)
                case r.PrepareShrink(order, leavers):
                    self._enter(Step.PRE, Step.DRAIN)
                    assert order == self.current
                    assert set(leavers) <= self.members.keys() - {0}
                    self.draining, self.pending = (order, leavers), set(leavers)
                case r.AbortShrink(order):
                    self._enter(Step.DRAIN, Step.UNDO)
                    assert order == self.current
                    self.draining, self.pending = None, set()
                case r.CommitShrink(order, leavers):
                    self._enter(Step.DRAIN, Step.RELEASE)
                    assert self.draining == (order, leavers)
                    assert not self.pending, "places are released that have not drained"
                    self.draining, self.pending = None, set(leavers)
                    for place in leavers:
                        del self.members[place]
                case r.SetTimer(token, delay_s):
                    self.timers.append(effect)
                    if delay_s != self.machine.deadlines.deferred_s:
                        self.token = token
                case r.TellDeferred():
                    raise AssertionError("notified at the wrong time")
                case r.Finished(record):
                    self._finish(record)

    def _begin(self, method: str, count: int) -> None:
        assert self.current is None, "two orders at a time"
        waiting = [number for number in sorted(self.orders) if number not in self.records]
        self.current = waiting[0]
        self.begun.append(self.current)
        order = self.orders[self.current]
        assert (method, count) == ({"grow": "preGrow", "shrink": "preShrink"}[order.kind], order.count)
        self.step, self.note = Step.PRE, ""

    def _enter(self, old: Step, new: Step) -> None:
        assert self.step is old, f"from {self.step} to {new}"
        self.step = new

    def _finish(self, record: r.ResizeRecord) -> None:
        assert record.order in self.orders
        assert record.order not in self.records, f"order {record.order} ends twice"
        self.records[record.order] = record
        if record.order != self.current:
            assert record.outcome == "refused", record
            return
        moved = self.step in (Step.POST, Step.RELEASE)
        assert (record.outcome == "done") == moved, f"{record} in {self.step}"
        assert bool(record.nodes) == moved
        if self.step is Step.PRE and record.kind == "shrink" and not self.answering:
            assert self.token is not None
            self.abandoned.add(self.token)
        self.current, self.step, self.token, self.pending = None, Step.IDLE, None, set()

    # what holds always

    @invariant()
    def model_and_machine_agree(self) -> None:
        assert self.machine.step is self.step
        assert self.begun == sorted(self.begun), "orders overtake each other"

    @invariant()
    def state_is_valid(self) -> None:
        validate(self.machine)

    def teardown(self) -> None:
        """If no answer ever comes again, time alone ends every order."""
        while self.step is not Step.IDLE:
            assert self.timers, f"order {self.current} hangs in {self.step}"
            self._timeout(self.timers.pop())
        assert self.step is Step.IDLE
        assert self.records.keys() == self.orders.keys()


TestOrders = Orders.TestCase
TestOrders.settings = settings(stateful_step_count=50)
