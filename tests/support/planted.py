"""Defects planted into the state machines: the nets of the tests have to catch every one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from apgas.core.effects import Effect, FinishFired, Payload, ResolveCall, Send
from apgas.core.finish import Arrivals, Cancellations, FinishTable, Flush, Gathered
from apgas.core.membership import Membership
from apgas.core.messages import (
    AnyMessage,
    End,
    FinishId,
    Forget,
    Leave,
    Members,
    Message,
    News,
    PlaceInfo,
    Reply,
    Spawn,
)
from apgas.core.order import OrderMachine, Step
from apgas.core.place import PlaceCore
from apgas.core.relay import Relay, children, parent
from apgas.core.resize import OrderEffect, ResizeOrder


def forget_a_spawn(monkeypatch: pytest.MonkeyPatch) -> None:
    original = FinishTable.spawned

    def spawned(self: FinishTable, finish: FinishId, at: int) -> None:
        original(self, finish, at)
        share = self._shares[finish]
        if at == 2 and share.spawned[at] > 1:
            share.spawned[at] -= 1

    monkeypatch.setattr(FinishTable, "spawned", spawned)


def report_before_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    original = FinishTable.reported

    def reported(self: FinishTable, src: int, report: Flush) -> FinishFired | None:
        balance = self._homed[report.finish]
        fired = original(self, src, report)
        if fired is None and sum(balance.open.values()) == 0:
            del self._homed[report.finish]
            return FinishFired(report.finish, ())
        return fired

    monkeypatch.setattr(FinishTable, "reported", reported)


def act_on_a_future_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    def received(self: PlaceCore, src: int, message: AnyMessage, payload: Payload) -> list[Effect]:
        return self._take(src, message, payload)

    monkeypatch.setattr(PlaceCore, "received", received)


def wait_for_no_final(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore._prepare

    def prepare(self: PlaceCore, message: Leave) -> list[Effect]:
        effects = original(self, message)
        self._leaving.awaited = set()
        return [*effects, *self._maybe_drained()]

    monkeypatch.setattr(PlaceCore, "_prepare", prepare)


def drain_with_open_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FinishTable, "quiet", property(lambda self: True))


def commit_with_the_first_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    original = OrderMachine.drained

    def drained(self: OrderMachine, order: int, place: int, now: float) -> list[OrderEffect]:
        if self._current is not None:
            self._current.pending = {place}
        return original(self, order, place, now)

    monkeypatch.setattr(OrderMachine, "drained", drained)


def leavers_stay_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Membership, "abort_leave", lambda self: None)


def forget_an_early_final(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore._final

    def final(self: PlaceCore, src: int, order: int) -> list[Effect]:
        return original(self, src, order) if self._leaving.order == order else []

    monkeypatch.setattr(PlaceCore, "_final", final)


def stay_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore._stay_on

    def stay_on(self: PlaceCore, order: int) -> list[Effect]:
        drained = self._leaving.drained
        effects = original(self, order)
        self._leaving.drained = drained
        return effects

    monkeypatch.setattr(PlaceCore, "_stay_on", stay_on)


def commit_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore.commit_grow

    def commit_grow(self: PlaceCore, added: tuple[PlaceInfo, ...]) -> list[Effect]:
        effects = original(self, added)
        self.membership.epoch += 1
        return effects

    monkeypatch.setattr(PlaceCore, "commit_grow", commit_grow)


def use_an_id_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def new_ids(self: Membership, count: int) -> range:
        return range(max(self.members) + 1, max(self.members) + 1 + count)

    monkeypatch.setattr(Membership, "new_ids", new_ids)


def lose_a_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore._take

    def take(self: PlaceCore, src: int, message: AnyMessage, payload: Payload) -> list[Effect]:
        effects = original(self, src, message, payload)
        return [effect for effect in effects if not isinstance(effect, ResolveCall) or effect.call % 7 != 6]

    monkeypatch.setattr(PlaceCore, "_take", take)


def lose_the_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    original = FinishTable.reported

    def reported(self: FinishTable, src: int, report: Flush) -> FinishFired | None:
        return original(self, src, replace(report, errors=report.errors[:1]))

    monkeypatch.setattr(FinishTable, "reported", reported)


def report_after_every_activity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports before the place is quiet, and forgets that the share goes on."""
    original = FinishTable.ended

    def ended(self: FinishTable, finish: FinishId, error: bytes | None = None) -> Flush | FinishFired | None:
        share = self._shares[finish]
        if share.live > 1 and finish.home != self.here:
            share.completed += 1
            flush = Flush(finish, dict(share.spawned), share.completed)
            share.live -= 1
            self.live -= 1
            return flush
        return original(self, finish, error)

    monkeypatch.setattr(FinishTable, "ended", ended)


def overlook_a_dying_leaver(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore.lost

    def lost(self: PlaceCore, place: int, reason: str) -> list[Effect]:
        return [] if place in self.membership.leaving else original(self, place, reason)

    monkeypatch.setattr(PlaceCore, "lost", lost)


def leave_uncounted_activities_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlaceCore, "_idle", property(lambda self: not self.calls and self.finishes.quiet))


def start_what_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlaceCore, "may_begin", lambda self, finish: True)


def count_no_end_of_what_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    def dropped(self: PlaceCore, src: int, spawn: Spawn) -> list[Effect]:
        return [Send(src, Reply(self.epoch, spawn.call, ok=False), [])]

    monkeypatch.setattr(PlaceCore, "dropped", dropped)


def tell_no_newcomer_that_all_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore._to_others

    def to_others(self: PlaceCore, message: Message) -> list[Effect]:
        return [each for each in original(self, message) if not (isinstance(message, Forget) and _dst(each) >= 4)]

    monkeypatch.setattr(PlaceCore, "_to_others", to_others)


def _dst(effect: Effect) -> int:
    assert isinstance(effect, Send)
    return effect.dst


def cancel_no_nested_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cancellations, "opened", lambda self, finish, outer: None)


def drop_what_is_held_at_a_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore._prepare

    def prepare(self: PlaceCore, message: Leave) -> list[Effect]:
        if self.here in message.leavers:
            self._relay.held.clear()
        return original(self, message)

    monkeypatch.setattr(PlaceCore, "_prepare", prepare)


def add_what_is_held_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Relay.own

    def own(self: Relay[Any], flush: Flush) -> Gathered:
        held = self.held.get(flush.finish)
        reports = original(self, flush)
        if held is not None:
            self.held[flush.finish] = held
        return reports

    monkeypatch.setattr(Relay, "own", own)


def pass_on_before_adding(monkeypatch: pytest.MonkeyPatch) -> None:
    def hold(self: Relay[Any], finish: FinishId, reports: Gathered) -> bool:
        held = self.held.setdefault(finish, Gathered())
        first = not held.heard
        held.add(Gathered({}, reports.heard, reports.errors))
        return first

    monkeypatch.setattr(Relay, "hold", hold)


def take_reports_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does not ask whether a report has overtaken another."""
    monkeypatch.setattr(Arrivals, "add", lambda self, heard: None)


def relay_by_leavers(monkeypatch: pytest.MonkeyPatch) -> None:
    def among_all(here: int, home: int, staying: Sequence[int], degree: int) -> int:
        return parent(here, home, range(max(here, home, *staying) + 1), degree)

    monkeypatch.setattr("apgas.core.place.parent", among_all)


def hold_as_a_leaver(monkeypatch: pytest.MonkeyPatch) -> None:
    def take_reports(self: PlaceCore, finish: FinishId, reports: Gathered) -> list[Effect]:
        order, self._leaving.order = self._leaving.order, None
        effects = original(self, finish, reports)
        self._leaving.order = order
        return effects

    original = PlaceCore._take_reports
    monkeypatch.setattr(PlaceCore, "_take_reports", take_reports)


def report_by_the_tree_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a report overtake what the place has sent its home itself: answers, and that it wants to cancel."""
    monkeypatch.setattr(FinishTable, "speak_to_home", lambda self, finish: None)


def pass_news_to_all_children_but_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apgas.core.place.children", lambda *tree: children(*tree)[:-1] or children(*tree))


def pass_news_on_by_place_0_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def hear(self: PlaceCore, src: int, news: News) -> list[Effect]:
        effects = original(self, src, news)
        return [e for e in effects if self.here == 0 or not (isinstance(e, Send) and e.message == news)]

    original = PlaceCore._hear
    monkeypatch.setattr(PlaceCore, "_hear", hear)


def pass_news_on_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(*tree: Any) -> Sequence[int]:
        found = children(*tree)
        return [*found, *found[-1:]]

    monkeypatch.setattr("apgas.core.place.children", twice)


def pass_news_to_none_that_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    def hearers(self: PlaceCore, news: News) -> list[int]:
        return [place for place in original(self, news) if place not in self.membership.leaving]

    original = PlaceCore._hearers
    monkeypatch.setattr(PlaceCore, "_hearers", hearers)


def pass_news_to_those_that_it_removes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlaceCore, "_hearers", lambda self, news: sorted(self.membership.members))


def pass_a_commit_on_among_the_new_members(monkeypatch: pytest.MonkeyPatch) -> None:
    def hear(self: PlaceCore, src: int, news: News) -> list[Effect]:
        effects = original(self, src, news)
        if not isinstance(news, Members):
            return effects
        rest = [e for e in effects if not (isinstance(e, Send) and e.message == news)]
        below = children(self.here, 0, self._hearers(news), self.news_degree)
        return [*rest, *(Send(place, news, []) for place in below)]

    original = PlaceCore._hear
    monkeypatch.setattr(PlaceCore, "_hear", hear)


def let_the_end_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    _hold(monkeypatch, lambda core, message: isinstance(message, End) and message.epoch > core.epoch)


def let_news_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    _hold(monkeypatch, lambda core, message: isinstance(message, Members) and not core.over)


def _hold(monkeypatch: pytest.MonkeyPatch, wrongly: Callable[[PlaceCore, AnyMessage], bool]) -> None:
    def received(self: PlaceCore, src: int, message: AnyMessage, payload: Payload) -> list[Effect]:
        if wrongly(self, message):
            self._held.append((src, message, payload))
            return []
        return original(self, src, message, payload)

    original = PlaceCore.received
    monkeypatch.setattr(PlaceCore, "received", received)


def take_what_was_held_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    def enter(self: PlaceCore, message: Members) -> list[Effect]:
        self._held.reverse()
        effects = original(self, message)
        self._held.reverse()
        return effects

    original = PlaceCore._enter
    monkeypatch.setattr(PlaceCore, "_enter", enter)


def let_newcomers_stand_before_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grow gives old members other parents, from which news may come before that of their former ones."""

    def turned_children(here: int, home: int, members: Sequence[int], degree: int) -> Sequence[int]:
        turned = [0, *members[:0:-1]]
        first = turned.index(here) * degree + 1
        return turned[first : first + degree]

    def turned_parent(here: int, home: int, members: Sequence[int], degree: int) -> int:
        if home or here not in members:
            return parent(here, home, members, degree)
        return next(place for place in members if here in turned_children(place, 0, members, degree))

    monkeypatch.setattr("apgas.core.place.children", turned_children)
    monkeypatch.setattr("apgas.core.place.parent", turned_parent)


def report_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts completions of before the last report once more."""
    original = FinishTable.ended
    reported: dict[tuple[int, FinishId], int] = {}

    def ended(self: FinishTable, finish: FinishId, error: bytes | None = None) -> Flush | FinishFired | None:
        outcome = original(self, finish, error)
        if isinstance(outcome, Flush):
            before = reported.get((id(self), finish), 0)
            reported[id(self), finish] = outcome.completed
            return replace(outcome, completed=outcome.completed + before)
        return outcome

    monkeypatch.setattr(FinishTable, "ended", ended)


def lose_a_completion(monkeypatch: pytest.MonkeyPatch) -> None:
    original = FinishTable.reported

    def reported(self: FinishTable, src: int, report: Flush) -> FinishFired | None:
        return original(self, src, replace(report, completed=min(report.completed, 2)))

    monkeypatch.setattr(FinishTable, "reported", reported)


def obey_timers_of_the_past(monkeypatch: pytest.MonkeyPatch) -> None:
    original = OrderMachine.timeout

    def timeout(self: OrderMachine, token: int, now: float) -> list[OrderEffect]:
        late = self.step is Step.SPAWN and token == self._token - 1
        return original(self, self._token if late else token, now)

    monkeypatch.setattr(OrderMachine, "timeout", timeout)


def take_newcomers_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    original = OrderMachine.spawned

    def spawned(
        self: OrderMachine, token: int, added: tuple[PlaceInfo, ...], phases: dict[str, float], now: float
    ) -> list[OrderEffect] | None:
        return original(self, self._token if self.step is Step.SPAWN else token, added, phases, now)

    monkeypatch.setattr(OrderMachine, "spawned", spawned)


def carry_out_what_was_withdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    original = OrderMachine.withdrawn

    def withdrawn(self: OrderMachine, order: int, now: float) -> list[OrderEffect]:
        waiting = list(self._waiting)
        effects = original(self, order, now)
        self._waiting.extend(gone for gone in waiting if gone not in self._waiting and len(waiting) > 1)
        return effects

    monkeypatch.setattr(OrderMachine, "withdrawn", withdrawn)


def forget_to_undo_a_late_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    original = OrderMachine._abandon

    def abandon(self: OrderMachine, why: str, now: float) -> list[OrderEffect]:
        effects = original(self, why, now)
        self._abandoned.clear()
        return effects

    monkeypatch.setattr(OrderMachine, "_abandon", abandon)


def answer_the_last_call_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    original = OrderMachine.returned

    def returned(self: OrderMachine, token: int, value: Sequence[int] | None, now: float) -> list[OrderEffect]:
        return original(self, self._token if self.step is Step.POST else token, value, now)

    monkeypatch.setattr(OrderMachine, "returned", returned)


def leave_the_next_order_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    original = OrderMachine._next

    def begin_next(self: OrderMachine, now: float) -> list[OrderEffect]:
        return original(self, now) if len(self._waiting) < 2 else []

    monkeypatch.setattr(OrderMachine, "_next", begin_next)


def overtake(monkeypatch: pytest.MonkeyPatch) -> None:
    original = OrderMachine.ordered

    def ordered(self: OrderMachine, order: ResizeOrder, now: float) -> list[OrderEffect]:
        effects = original(self, order, now)
        self._waiting.rotate(1)
        return effects

    monkeypatch.setattr(OrderMachine, "ordered", ordered)
