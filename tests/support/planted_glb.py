"""Defects planted into the balancer: its simulation has to find every one."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

import pytest
from stress.glb_network import Join, Wire
from stress.glb_simulation import Control

from glb.bag import Bag
from glb.core.effects import Effect, Ended, Give, Message, Refuse, Request, Run, Start
from glb.core.leavers import Evacuation
from glb.core.place import PlaceCore
from glb.core.pool import Pool, Slots
from glb.core.thief import Thief, Thieves
from glb.core.view import View
from glb.testing import Numbers, Total

Core = PlaceCore[Total]
Effects = list[Effect[Total]]


def drop_the_result_that_comes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Numbers.merge

    def merge(self: Numbers, other: Numbers) -> None:
        other.done.clear()
        original(self, other)

    monkeypatch.setattr(Numbers, "merge", merge)


def leave_the_shared_bag_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore._hand_out

    def hand_out(self: Core, bag: Bag[Total], workers: int) -> Effects:
        shared = self._pool.bags
        self._pool.clear()
        effects = original(self, bag, workers)
        for each in shared:
            self._pool.put(each)
        return effects

    monkeypatch.setattr(PlaceCore, "_hand_out", hand_out)


def forget_thieves_when_members_change(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Thieves.keep

    def keep(self: Thieves, members: Container[int]) -> None:
        original(self, ())

    monkeypatch.setattr(Thieves, "keep", keep)


def take_an_old_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Thief, nonce: int) -> list[Request]:
        return [] if self.asked is None else self._ask_next()

    monkeypatch.setattr(Thief, "refused", refused)


def give_twice_after_a_failed_gift(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore.give_failed

    def give_failed(self: Core, give: Give[Total]) -> None:
        original(self, give)
        assert isinstance(give.bag, Numbers)
        self._pool.put(Numbers(list(give.bag.tasks), give.bag.limit))

    monkeypatch.setattr(PlaceCore, "give_failed", give_failed)


def count_a_failed_gift_as_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlaceCore, "give_failed", lambda self, give: self.thieves.discard(give.to))


def never_register_newcomers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(View, "newcomers", lambda self, before: iter(()))


def end_without_submitting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the worker is not the last one."""
    original = PlaceCore._end

    def end(self: Core, slot: int, bag: Bag[Total]) -> Effects:
        if self.alive > 1 and isinstance(bag, Numbers):
            bag.done.clear()
        return original(self, slot, bag)

    monkeypatch.setattr(PlaceCore, "_end", end)


def wait_without_asking_the_buddies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Thief, "_ask_buddies", lambda self: [])


def tell_new_buddies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Thief, "rewired", lambda self: [])


def retire_with_the_bag(monkeypatch: pytest.MonkeyPatch) -> None:
    def hand_over(self: Core, bag: Bag[Total]) -> Effects:
        bag.split(True)
        return []

    monkeypatch.setattr(PlaceCore, "_hand_over", hand_over)


def work_on_in_a_closed_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slots, "any_retiring", property(lambda self: False))


def end_beside_a_full_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pool, "pour", lambda self, into: False)


def hand_the_result_in_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlaceCore, "take_result", lambda self: self.result)


def lose_the_result_of_a_leaver(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore.take_result

    def take_result(self: Core) -> Total:
        found = original(self)
        return Total() if self.phase.name == "EVACUATED" else found

    monkeypatch.setattr(PlaceCore, "take_result", take_result)


def prefer_the_older_question(monkeypatch: pytest.MonkeyPatch) -> None:
    def add_random(self: Thieves, thief: int, nonce: int, chances: int) -> None:
        self._random.setdefault(thief, [nonce, chances])

    monkeypatch.setattr(Thieves, "add_random", add_random)


def leave_thieves_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Thieves, "refuse_all", lambda self: [])


def never_disappoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Thieves, "disappoint", lambda self: [])


def notice_no_thieves(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore.requested

    def requested(self: Core, thief: int, nonce: int | None) -> list[Message]:
        attention = self.attention
        answers = original(self, thief, nonce)
        self.attention = attention
        return answers

    monkeypatch.setattr(PlaceCore, "requested", requested)


def answer_a_leaver_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore.requested

    def requested(self: Core, thief: int, nonce: int | None) -> list[Message]:
        return [each for each in original(self, thief, nonce) if not isinstance(each, Refuse)]

    monkeypatch.setattr(PlaceCore, "requested", requested)


def send_pieces_to_those_who_leave_too(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore.evacuate

    def evacuate(self: Core, survivors: Sequence[int], turns: Sequence[int] = ()) -> list[Message]:
        return original(self, self.members, [place for place in self.members if place != self.me])

    monkeypatch.setattr(PlaceCore, "evacuate", evacuate)


def drop_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Evacuation.hand_out

    def hand_out(
        self: Evacuation, bag: Bag[Total], workers: int, waiting: Sequence[int]
    ) -> list[tuple[int, Bag[Total]]]:
        return original(self, bag, workers, waiting)[:2]

    monkeypatch.setattr(Evacuation, "hand_out", hand_out)


def count_what_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore.receive

    def receive(self: Core, bag: Bag[Total], nonce: int | None = None) -> Effects:
        effects = original(self, bag, nonce)
        self.statistics.received += not any(isinstance(effect, Run | Start) for effect in effects)
        self.statistics.received -= self.phase.name == "WORKING" and not effects
        return effects

    monkeypatch.setattr(PlaceCore, "receive", receive)


def forget_the_attendant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlaceCore, "_call_attendant", lambda self: [])


def never_wake_the_attendant(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore.requested

    def requested(self: Core, thief: int, nonce: int | None) -> list[Message]:
        calls = self.calls
        answers = original(self, thief, nonce)
        self.calls = calls
        return answers

    monkeypatch.setattr(PlaceCore, "requested", requested)


def keep_an_attendant_without_work(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore.attend
    monkeypatch.setattr(
        PlaceCore, "attend", lambda self: [each for each in original(self) if not isinstance(each, Ended)]
    )


def let_thieves_wait_for_a_long_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlaceCore, "_nothing_left", lambda self: [])


def let_thieves_wait_for_a_cold_place(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore.requested

    def requested(self: Core, thief: int, nonce: int | None) -> list[Message]:
        self._cold = False
        return original(self, thief, nonce)

    monkeypatch.setattr(PlaceCore, "requested", requested)


def go_on_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlaceCore, "abort", lambda self: [])


def let_newcomers_begin_before_all_have_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Control._tell

    def tell(self: Control, places: Sequence[int], message: Wire) -> Iterator[None]:
        waiting = original(self, places, message)
        if isinstance(message, Join):
            next(waiting)
            waiting = iter(())
        yield from waiting

    monkeypatch.setattr(Control, "_tell", tell)
