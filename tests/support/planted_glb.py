"""Defects planted into the balancer: its simulation has to find every one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence

import pytest
from msgspec.structs import replace
from numbered import Numbers, Total
from stress.glb_network import Join, Wire
from stress.glb_simulation import Control

from glb.bag import Bag
from glb.core.backup import Backup, Books, Frozen, Gift, Keeper, Saver
from glb.core.effects import Effect, Ended, Give, Message, Refuse, Request, Start
from glb.core.leavers import Evacuation
from glb.core.place import PlaceCore
from glb.core.pool import Pool, Slots
from glb.core.thief import Thief, Thieves
from glb.core.view import View

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
        shared = tuple(self._pool)
        self._pool.clear()
        effects = original(self, bag, workers)
        for each in shared:
            self._pool.append(each)
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
        self._pool.append(Numbers(list(give.bag.tasks), give.bag.limit))

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
    monkeypatch.setattr(Thief, "register", lambda self: [])


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

    def evacuate(self: Core, survivors: Sequence[int], turns: Sequence[int]) -> list[Message]:
        members = self._view.members
        return original(self, members, [place for place in members if place != self.me])

    monkeypatch.setattr(PlaceCore, "evacuate", evacuate)


def drop_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Evacuation.hand_out

    def hand_out(self: Evacuation, bag: Bag[Total], workers: int) -> list[tuple[int, Bag[Total]]]:
        return original(self, bag, workers)[:2]

    monkeypatch.setattr(Evacuation, "hand_out", hand_out)


def count_what_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore.receive

    def receive(self: Core, bag: Bag[Total], *words: int | None) -> Effects:
        effects = original(self, bag, *words)
        self.statistics.received += not any(isinstance(effect, Start) for effect in effects)
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
    original = Control._send_all

    def send_all(self: Control, places: Sequence[int], message: Wire) -> Iterator[None]:
        waiting = original(self, places, message)
        if isinstance(message, Join):
            next(waiting)
            waiting = iter(())
        yield from waiting

    monkeypatch.setattr(Control, "_send_all", send_all)


# into what makes it survive losses -----------------------------------------------------------------------------------


def forget_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Keeper.recover

    def recover(self: Keeper[Total], gone: Iterable[int]) -> list[Gift]:
        gone = list(gone)
        self._under_way = {ident: gift for ident, gift in self._under_way.items() if gift.to not in gone}
        return original(self, gone)

    monkeypatch.setattr(Keeper, "recover", recover)


def forget_the_last_backup(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Keeper.recover

    def recover(self: Keeper[Total], gone: Iterable[int]) -> list[Gift]:
        gone = list(gone)
        for place in gone:
            if place in self._kept:
                self._kept[place].bags = ()
        return original(self, gone)

    monkeypatch.setattr(Keeper, "recover", recover)


def recover_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Keeper.recover

    def recover(self: Keeper[Total], gone: Iterable[int]) -> list[Gift]:
        gone = list(gone)
        kept = {place: self._kept[place] for place in gone if place in self._kept}
        return original(self, gone) + [self.deal(place, bag) for place, each in kept.items() for bag in each.bags]

    monkeypatch.setattr(Keeper, "recover", recover)


def back_up_what_is_given_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bag is held as it was before a part of it was given away."""
    original = Saver.hold

    def hold(self: Saver[Total], slot: int, bag: Bag[Total], *, new: bool = False) -> None:
        held = self._held.get(slot)
        original(self, slot, bag, new=new)
        if held is not None and held.tasks > len(bag):  # type: ignore[arg-type]
            self._held[slot] = held

    monkeypatch.setattr(Saver, "hold", hold)


def back_up_no_shared_bags(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Saver.back_up

    def back_up(
        self: Saver[Total], shared: Iterable[Bag[Total]], result: Total | None, gifts: tuple[Gift, ...] = ()
    ) -> Backup[Total]:
        return original(self, (), result, gifts)

    monkeypatch.setattr(Saver, "back_up", back_up)


def back_up_results_that_are_not_handed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore._hold

    def hold(self: Core, slot: int, bag: Bag[Total], *, new: bool = False) -> None:
        assert isinstance(bag, Numbers)
        done, bag.done = bag.done, Counter()
        original(self, slot, bag, new=new)
        bag.done = done

    monkeypatch.setattr(PlaceCore, "_hold", hold)


def forget_what_has_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Saver.back_up

    def back_up(
        self: Saver[Total], shared: Iterable[Bag[Total]], result: Total | None, gifts: tuple[Gift, ...] = ()
    ) -> Backup[Total]:
        backup = original(self, shared, result, gifts)
        return replace(backup, taken=backup.taken[1:])

    monkeypatch.setattr(Saver, "back_up", back_up)


def give_before_the_backup_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gifts of a backup are sent although those before it are missing."""
    original = Keeper.take

    def take(self: Keeper[Total], backup: Backup[Total]) -> tuple[list[Total], list[Gift]]:
        results, gifts = original(self, backup)
        if (kept := self._kept.get(backup.place)) is not None and (early := kept.early.get(backup.number)) is not None:
            gifts += [self.deal(gift.to, gift.bag, gift.nonce) for gift in early.gifts]
            kept.early[backup.number] = replace(early, gifts=())
        return results, gifts

    monkeypatch.setattr(Keeper, "take", take)


def send_on_what_was_recovered(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Keeper.recover

    def recover(self: Keeper[Total], gone: Iterable[int]) -> list[Gift]:
        bags = original(self, gone)
        self._recovered.clear()
        return bags

    monkeypatch.setattr(Keeper, "recover", recover)


def send_on_without_saying_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def redirect(self: Keeper[Total], ident: int, to: int) -> Gift:
        return replace(self._under_way[ident], to=to)

    monkeypatch.setattr(Keeper, "redirect", redirect)


# into what makes it survive the loss of place 0 ----------------------------------------------------------------------


def _with_open(monkeypatch: pytest.MonkeyPatch, found: Callable[[Keeper[Total]], Iterable[Frozen]]) -> None:
    monkeypatch.setattr(Keeper, "open", property(lambda self: tuple(found(self))))


def keep_no_bags_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    _with_open(monkeypatch, lambda keeper: [bag for each in keeper._kept.values() for bag in each.bags])


def keep_no_backups(monkeypatch: pytest.MonkeyPatch) -> None:
    _with_open(monkeypatch, lambda keeper: [gift.bag for gift in keeper._under_way.values()])


def keep_what_comes_early(monkeypatch: pytest.MonkeyPatch) -> None:
    original: Callable[[Keeper[Total]], tuple[Frozen, ...]] = vars(Keeper)["open"].fget
    _with_open(
        monkeypatch, lambda keeper: [*original(keeper), *(gift.bag for each in keeper.early for gift in each.gifts)]
    )


def hold_nothing_on_place_0(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Saver.hold

    def hold(self: Saver[Total], slot: int, bag: Bag[Total], *, new: bool = False) -> None:
        original(self, slot, bag, new=new)
        if self._me == 0:
            self._held.pop(slot, None)

    monkeypatch.setattr(Saver, "hold", hold)


def keep_the_result_later_than_the_bags(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bags are those of the moment before."""
    before: dict[int, Books] = {}
    original = Control.books

    def books(self: Control) -> Books:
        now = original(self)
        old = before.get(id(self), now)
        before.clear()
        before[id(self)] = now
        return replace(now, bags=old.bags)

    monkeypatch.setattr(Control, "books", books)


def recover_in_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the dead had is in no book until it is dealt anew."""
    original = Keeper.recover

    def recover(self: Keeper[Total], gone: Iterable[int]) -> list[Gift]:
        found = original(self, gone)
        for gift in found:
            del self._under_way[gift.ident]
        return found

    monkeypatch.setattr(Keeper, "recover", recover)
    monkeypatch.setattr(Keeper, "deal_again", lambda self, gift, to: self.deal(to, gift.bag))
