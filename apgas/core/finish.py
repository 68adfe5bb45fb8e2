"""Distributed termination detection: the state machine behind ``finish``, and its cancellation.

The opener's place is the *home* of a finish. Every place counts, per finish, the activities that live here, those it
spawned (per destination) and those that completed here. Whenever the last live one ends, the place is *quiet* and
reports its counts since the previous report to the home, all in one message. The home keeps one balance per place,
"spawned there minus completed there", and the finish fires when it holds a report for everything and every balance is
zero. The body of the finish counts as one activity spawned at home, so a finish cannot fire before its body ended.

Why zero balances mean that all is over. The reports received from a place describe a prefix of its history that ends in
quietness (reports of one pair arrive in order). Suppose every balance is zero although an activity is unaccounted for.
Then some reported completion must balance it whose own spawn is not reported; let e be the first such completion in
real time. Its spawner ran at a place q after q's last report, hence started there after q was quiet; so either the
spawner's own spawn is unreported too (follow the chain; it ends at the body, whose spawn is always reported), or it is
reported and was balanced at q by another completion with an unreported spawn, earlier than e: a contradiction.

A report costs one message per quiet period and place: O(places) for the common pattern of one activity per place.

A *dense* finish is one of very many quiet periods. Its reports go up a tree in which they are added
(``core.relay``), so the home gets sums. That does not matter to the balances, for they are sums. It matters to "the
reports received from a place describe a prefix of its history", on which the argument rests ("after q's last report";
"earlier than e"): where members come and go the route of a place changes, and a later report may overtake an earlier
one. So every place numbers its reports to one home from 1 on, and a sum says per place how many reports are in it and
what their highest number is. Each number arrives once. So if as many reports of a place have arrived as the highest
number says, they are exactly those from 1 to that number: a prefix, of its history in all dense finishes of that home,
hence in each of them. The home fires a dense finish when its balances are zero *and* no place has a report overdue;
then the argument above holds word for word. It fires: when all is over every report arrives, for no report waits for
anything but its way, and then neither a balance nor a report is open. The home's own reports do not travel and are in
order. (Without the numbers it would fire early: ``tests/unit/test_runtime_relay.py`` has the shortest such history.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from apgas.core.effects import FinishFired, Send
from apgas.core.messages import Carries, FinishId, RefId, RefReport
from apgas.errors import InvariantError


class Flush(msgspec.Struct):
    """What one place has counted for one finish since its last report: once it is quiet, its report to the home.

    ``live``: the activities that are alive here. ``direct``: it has sent the home of a dense finish something that must
    arrive before the finish fires.
    """

    finish: FinishId
    spawned: dict[int, int] = msgspec.field(default_factory=dict)
    completed: int = 0
    errors: list[bytes] = msgspec.field(default_factory=list)
    sources: dict[int, int] | None = None
    direct: bool = False
    live: int = 0


def add_balance(balances: dict[int, int], place: int, delta: int) -> None:
    """Add ``delta`` to the balance of ``place``; zeros are dropped."""
    new = balances.get(place, 0) + delta
    if new:
        balances[place] = new
    else:
        balances.pop(place, None)


class Gathered(msgspec.Struct):
    """Reports of one finish that were added: on their way to its home, and all that this knows.

    ``open``: per place, activities spawned there minus completed there; zero entries are dropped. ``heard``: per place
    how many of its reports are in it, and the highest of their numbers; at home ``Arrivals`` has those.
    """

    open: dict[int, int] = msgspec.field(default_factory=dict)
    heard: dict[int, tuple[int, int]] = msgspec.field(default_factory=dict)
    errors: list[bytes] = msgspec.field(default_factory=list)

    def add(self, other: Gathered) -> None:
        """Add what ``other`` says; it is not to be used any more."""
        for place, delta in other.open.items():
            add_balance(self.open, place, delta)
        for place, (count, highest) in other.heard.items():
            before, most = self.heard.get(place, (0, 0))
            self.heard[place] = before + count, max(most, highest)
        self.errors += other.errors


class Arrivals:
    """Of which places the home has reports without all that these have numbered before.

    Attributes:
        overdue: Those places. Their missing reports are on their way.
    """

    def __init__(self) -> None:
        self._heard: dict[int, tuple[int, int]] = {}
        self.overdue: set[int] = set()

    def add(self, heard: dict[int, tuple[int, int]]) -> None:
        """Note reports: per place how many, and the highest number."""
        for place, (count, highest) in heard.items():
            before, most = self._heard.get(place, (0, 0))
            self._heard[place] = now = before + count, max(most, highest)
            # numbers begin at 1 and none comes twice: as many as the highest says are all of them
            if now[0] == now[1]:
                self.overdue.discard(place)
            else:
                self.overdue.add(place)


class FinishTable:
    """All finishes that one place takes part in."""

    def __init__(self, here: int, first: int = 0) -> None:
        self.here = here
        self._next = first
        self._shares: dict[FinishId, Flush] = {}
        self._homed: dict[FinishId, Gathered] = {}
        self._arrivals = Arrivals()
        self.live = 0

    @property
    def quiet(self) -> bool:
        """Whether nothing runs here and no finish that was opened here is open."""
        return self.live == 0 and not self._homed

    def open(self, *, dense: bool = False) -> FinishId:
        """Open a finish at this place; its body is its first activity."""
        finish = FinishId(self.here, -1 - self._next if dense else self._next)
        self._next += 1
        self._homed[finish] = Gathered({self.here: 1})
        self.arrived(finish, self.here)
        return finish

    def spawned(self, finish: FinishId, at: int) -> None:
        """Count an activity that a live one sends to place ``at`` (which may be this one)."""
        share = self._live_share(finish, "spawn")
        share.spawned[at] = share.spawned.get(at, 0) + 1

    def arrived(self, finish: FinishId, src: int) -> None:  # noqa: ARG002 - resilient jobs count by source
        """Count an activity of place ``src`` that begins to live here."""
        self._shares.setdefault(finish, Flush(finish)).live += 1
        self.live += 1

    def ended(self, finish: FinishId, error: bytes | None = None) -> Flush | FinishFired | None:
        """Count the end of an activity; the last one makes this place report, or its finish fire."""
        share = self._live_share(finish, "end")
        share.live -= 1
        share.completed += 1
        self.live -= 1
        if error is not None:
            share.errors.append(error)
        if share.live:
            return None
        del self._shares[finish]
        return self.reported(self.here, share) if finish.home == self.here else share

    def reported(self, src: int, report: Flush) -> FinishFired | None:
        """Take a report at home; an ``InvariantError`` if the finish is not open here: a place counted wrongly."""
        balance = self._homed.get(report.finish)
        if balance is None:
            raise InvariantError(f"place {self.here}: place {src} reports for {report.finish}, which is not open here")
        for place, count in report.spawned.items():
            add_balance(balance.open, place, count)
        add_balance(balance.open, src, -report.completed)
        balance.errors.extend(report.errors)
        return self._fire(report.finish, balance)

    def gathered(self, finish: FinishId, reports: Gathered) -> list[FinishFired]:
        """Take reports of a dense finish at home, added up by others; returns what fires: also others, which waited."""
        balance = self._homed.get(finish)
        if balance is None:
            raise InvariantError(f"place {self.here}: {reports} for {finish}, which is not open here")
        for place, delta in reports.open.items():
            add_balance(balance.open, place, delta)
        balance.errors.extend(reports.errors)
        waited = bool(self._arrivals.overdue)
        self._arrivals.add(reports.heard)
        ready = [each for each in self._homed if each.dense] if waited else [finish]
        fired = [self._fire(each, self._homed[each]) for each in ready]
        return [outcome for outcome in fired if outcome is not None]

    def _fire(self, finish: FinishId, balance: Gathered) -> FinishFired | None:
        if balance.open or (self._arrivals.overdue and finish.dense):
            return None
        del self._homed[finish]
        return FinishFired(finish, tuple(balance.errors))

    def speak_to_home(self, finish: FinishId) -> None:
        """This place, where an activity of the dense ``finish`` lives, sends the home something else than a report."""
        self._live_share(finish, "word to the home").direct = True

    def is_open(self, finish: FinishId) -> bool:
        """Whether ``finish``, opened here, has not fired yet."""
        return finish in self._homed

    def outstanding(self, finish: FinishId) -> dict[int, int]:
        """How many activities of ``finish``, opened here, are under way per place, as far as this place has heard."""
        known = self._known_open(finish)
        if share := self._shares.get(finish):
            for place, count in share.spawned.items():
                add_balance(known, place, count)
            add_balance(known, self.here, -share.completed)
        return {place: count for place, count in sorted(known.items()) if count > 0}

    def _known_open(self, finish: FinishId) -> dict[int, int]:
        """What the home has reports of, per place; nothing if ``finish`` has fired."""
        balance = self._homed.get(finish)
        return {} if balance is None else dict(balance.open)

    def lives(self, finish: FinishId) -> bool:
        """Whether an activity of ``finish`` is alive here."""
        return finish in self._shares

    def _live_share(self, finish: FinishId, act: str) -> Flush:
        share = self._shares.get(finish)
        if share is None or share.live <= 0:
            raise InvariantError(f"place {self.here}: {act} under {finish}, where no activity lives")
        return share


# Cancellation, as one place knows it ---------------------------------------------------------------------------------
#
#     any place       cancel(finish): starts nothing more of it      Cancel ---> home
#     home            open and not cancelled yet                     Cancel ---> every other member, and each newcomer
#     a place that hears of it starts nothing more of it, and cancels the open finishes that its activities opened here
#     home            the finish fires                               Forget ---> every other member
#
# Cancelling changes no count: an activity of a cancelled finish that has arrived ends instead of beginning. So a finish
# fires as it would have fired without, only sooner. Messages of one pair arrive in order, so a place forgets after it
# has heard, and remembers no finish that has fired: only one that has an activity of the finish may cancel it before
# home has said so, and while that lives the finish cannot fire.


class Cancellations:
    """The cancelled finishes that one place has heard of, and the nesting of those opened here.

    Attributes:
        known: The cancelled finishes.
        announced: Those opened here of which the other members have been notified.
    """

    def __init__(self, here: int) -> None:
        self.here = here
        self.known: set[FinishId] = set()
        self.announced: set[FinishId] = set()
        self._outer: dict[FinishId, FinishId] = {}

    def opened(self, finish: FinishId, outer: FinishId) -> None:
        """``finish`` was opened here by an activity of ``outer``; if that is cancelled, no other place is notified."""
        self._outer[finish] = outer
        if outer in self.known:
            self.known.add(finish)

    def add(self, finish: FinishId) -> list[FinishId]:
        """Cancel ``finish`` and those opened here under it; returns those that are to be announced to the others."""
        self.known.add(finish)
        inner = [nested for nested, outer in self._outer.items() if outer == finish and nested not in self.known]
        announced = [finish] if finish.home == self.here and finish not in self.announced else []
        self.announced.update(announced)
        for nested in inner:
            announced += self.add(nested)
        return announced

    def fired(self, finish: FinishId) -> tuple[bool, bool]:
        """A finish opened here has fired: whether it was cancelled, and whether the others are to forget that."""
        self._outer.pop(finish, None)
        if finish not in self.known:
            return False, False
        was_announced = finish in self.announced
        self.forget(finish)
        return True, was_announced

    def forget(self, finish: FinishId) -> None:
        """``finish`` has fired at its home."""
        self.known.discard(finish)
        self.announced.discard(finish)


# References: distributed reference counting, by the same machine -----------------------------------------------------
#
# That no place holds a copy of a reference, and none is under way, is the same question as whether an activity is left
# of a finish: a copy is alive, sending one is spawning, letting go of it is ending. So the algorithm and the proof are
# those above, after Tel and Mattern (1993), "The derivation of distributed termination detection
# algorithms from garbage collection schemes". A place holds one handle per reference, whatever the number of objects
# behind it, and sends one report to the home of the reference when it has let go of it.
#
#     home            make: its handle is the first copy
#     any place       sent(ref, dst) with a message        Carries ---> dst, just ahead of that message
#     dst             arrived: one handle more, unless it has one
#     any place       dropped(ref): no handle is left      RefReport ---> home
#     home            all reported and balanced: Unreferenced
#
# When all is reported, every place that ever had a handle is to let go of what it has made for a ``PlaceLocal``,
# newcomers too. So a report waits at a home that is in an earlier epoch: who has reported is a member there by then, or
# has left.
#
# A place that leaves drops what it holds. What a dead place held is never balanced: such objects are kept until they
# are freed by name, or the program ends.


class Unreferenced(msgspec.Struct, frozen=True):
    """No copy of a reference that was made here is left anywhere."""

    ref: RefId


ReferenceEffect: TypeAlias = Send | Unreferenced


class References:
    """The references that one place has made, or holds; it numbers its own from ``first`` on."""

    def __init__(self, here: int, first: int = 0) -> None:
        self.here = here
        self._table = FinishTable(here, first)
        self._held: Counter[RefId] = Counter()
        self._early: list[RefReport] = []
        self._left = False

    def make(self) -> RefId:
        """Make a reference; the caller has its first handle."""
        ref = self._table.open()
        self._held[ref] += 1
        return ref

    def sent(self, dst: int, refs: Iterable[RefId], epoch: int) -> Send:
        """Count copies that travel with the next message to ``dst``; a handle of each is held here."""
        travelling = tuple(refs)
        for ref in travelling:
            self._table.spawned(ref, dst)
        return Send(dst, Carries(epoch, travelling), [])

    def arrived(self, ref: RefId, src: int) -> None:
        """Count a handle more, because a copy arrived from place ``src``."""
        self._table.arrived(ref, src)
        self._held[ref] += 1

    def dropped(self, ref: RefId, epoch: int) -> list[ReferenceEffect]:
        """Count a handle less."""
        if self._left:
            return []
        self._held[ref] -= 1
        if not self._held[ref]:
            del self._held[ref]
        return self._effects(self._table.ended(ref), epoch)

    def reported(self, report: RefReport, epoch: int) -> list[ReferenceEffect]:
        """Take the report of a place that has no handle any more, behind all that it has reported before.

        Raises:
            InvariantError: The reference was not made here, or has no copies: a place counted wrongly.
        """
        if report.epoch > epoch:
            self._early.append(report)
            return []
        flush = Flush(report.ref, report.sent, report.dropped)
        return self._effects(self._table.reported(report.by, flush), epoch)

    def entered(self, epoch: int) -> list[ReferenceEffect]:
        """This place has entered ``epoch``: take the reports that have waited for it."""
        early, self._early = self._early, []
        return [effect for report in early for effect in self.reported(report, epoch)]

    def leave(self, epoch: int) -> list[ReferenceEffect]:
        """This place leaves, and with it all that it holds."""
        effects = [effect for ref in [*self._held.elements()] for effect in self.dropped(ref, epoch)]
        self._left = True
        return effects

    def _effects(self, outcome: Flush | FinishFired | None, epoch: int) -> list[ReferenceEffect]:
        match outcome:
            case None:
                return []
            case FinishFired():
                return [Unreferenced(outcome.finish)]
            case Flush():
                report = RefReport(epoch, self.here, outcome.finish, outcome.spawned, outcome.completed)
                return [Send(outcome.finish.home, report, [])]
