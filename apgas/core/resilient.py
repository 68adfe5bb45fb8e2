"""One place of a resilient job: what ``PlaceCore`` does, and going on without the places that die.

    place 0        hears of the loss of d -> commits an epoch without it: Members(died) to everyone else
    every place    enters that epoch; nothing new is sent to d. What d has sent is still taken, for a while
    the driver     cut_off(d): everything of d's has arrived, or had time enough
    every place    takes nothing of d's any more; open calls to d are lost; LossReport to every member
    every home     has cut off d and has every survivor's report -> settles d: see below

A leaver waits for d's ``Final`` until it has cut off d. A drained one is released only when nothing is needed of it any
more, so that its death does no harm from then on:

    leaver         drained -> Drained to place 0, Parted to everyone else, behind all its reports
    every member   has Parted -> Seen to place 0
    place 0        has Drained, and Seen of every member -> the leaver is drained indeed

Finishes that were opened on d have no home any more: what runs under them elsewhere goes on, and its reports are
dropped. The loss of place 0 ends the job.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from apgas.core import messages as m
from apgas.core.effects import CallLost, Effect, FinishFired, LeaverDrained, Payload, PlaceLost, Send
from apgas.core.finish import FinishTable, Flush, add_balance
from apgas.core.messages import FinishId
from apgas.core.place import PlaceCore
from apgas.core.relay import Words, children, joined
from apgas.errors import InvariantError, ProtocolError


class ResilientPlaceCore(PlaceCore):
    """The state of one place that survives the loss of others."""

    survives = True
    news_degree = sys.maxsize  # what has to pass news on may be dead: see ``core.relay``

    def __init__(self, here: int, members: Iterable[m.PlaceInfo], epoch: int) -> None:
        super().__init__(here, members, epoch)
        self.finishes = self._losses = ResilientFinishTable(here)
        self._dying: set[int] = set()
        self._shrink: int | None = None
        self._parted: set[tuple[int, int]] = set()
        self._seen: set[tuple[int, int, int]] = set()

    # what the program does -------------------------------------------------------------------------------------------

    def answered(
        self, dst: int, spawn: m.Spawn, payload: Payload, *, ok: bool, error: bytes | None = None
    ) -> list[Effect]:
        """An activity that place ``dst`` sent has ended: answer its call, if that place lives."""
        effects = super().answered(dst, spawn, payload, ok=ok, error=error)
        if self._orphaned(spawn.finish):
            self.cancellations.forget(spawn.finish)
        dead = self.membership.dead
        if not dead:
            return effects
        return [effect for effect in effects if not (isinstance(effect, Send) and effect.dst in dead)]

    # what arrives ----------------------------------------------------------------------------------------------------

    def received(self, src: int, message: m.AnyMessage, payload: Payload) -> list[Effect]:
        """Take a message from place ``src``; none of one that was cut off. See ``PlaceCore``."""
        if src in self.membership.dead and src not in self._dying:
            return []
        return super().received(src, message, payload)

    def _take(self, src: int, message: m.AnyMessage, payload: Payload) -> list[Effect]:
        match message:
            case m.Cancel() if self._orphaned(message.finish):
                return []
            case m.Drained():
                return [*self._has_parted(src, message.order), *self._ready(message.order, src)]
            case m.Parted():
                return [*self._has_parted(src, message.order), Send(0, m.Seen(self.epoch, message.order, src), [])]
            case m.Seen():
                self._seen.add((message.order, message.leaver, src))
                return self._ready(message.order, message.leaver)
            case m.Said():
                return self._take_words(message)
            case m.Fulfilled():
                return self._fulfilled(message.finish)
            case m.LossReport():
                return self._all_fired(self._losses.loss_reported(src, message.place, message.pending))
            case m.Lost():
                if message.place == 0:
                    raise ProtocolError(f"place {src} reports to place 0 that it has died")
                # the report of a dead place is no proof that another one has died
                return [] if src in self.membership.dead else self.lost(message.place, message.reason)
            case _:
                pass
        return super()._take(src, message, payload)

    def lost(self, place: int, reason: str) -> list[Effect]:
        """The connection to ``place`` ended: place 0 goes on without it, the others notify place 0."""
        if self.here != 0:
            return super().lost(place, reason)
        if self.over or place not in self.membership.members:
            return []
        return [PlaceLost(place, reason), *self._hear(self.here, m.Members(self.epoch + 1, (), (), (place,)))]

    def cut_off(self, place: int) -> list[Effect]:
        """Nothing more of the dead ``place`` is taken from now on: report what came of it. Idempotent."""
        if self.over or place not in self._dying:
            return []
        self._dying.discard(place)
        effects: list[Effect] = []
        for call, (dst, spawn) in list(self.calls.items()):
            if dst == place:
                del self.calls[call]
                effects.append(CallLost(call, place))
                if spawn.to_caller and spawn.finish.home == self.here:
                    self._losses.caller_notified(spawn.finish, place)
        pending = self._losses.cut_off(place)
        for member in self.membership.members:
            if member != self.here:
                report = m.LossReport(self.epoch, place, pending.get(member, {}))
                effects.append(Send(member, report, []))
        fired = self._losses.loss_reported(self.here, place, pending.get(self.here, {}))
        self._leaving.awaited.discard(place)
        return [*effects, *self._all_fired(fired), *self._maybe_drained()]

    # inside ----------------------------------------------------------------------------------------------------------

    def _enter(self, message: m.Members) -> list[Effect]:
        for place in message.removed:
            self._losses.left(place)
            self._forget_home(place)
        if message.removed:
            self._forget_shrink()
        gone = {*message.removed, *message.died}
        self._parted = {parted for parted in self._parted if parted[1] not in gone}
        return super()._enter(message)

    def _member_died(self, place: int) -> list[Effect]:
        self._dying.add(place)
        for finish in list(self.cancelled):
            if self._orphaned(finish):
                self.cancellations.forget(finish)
        self._forget_home(place)
        drained = {leaver for order, leaver in self._parted if order == self._shrink}
        self._losses.died(place, set(self.membership.members), drained & self.membership.leaving)
        # place 0 does not wait for reports of dead places any more
        ready = [effect for order, leaver in sorted(self._parted) for effect in self._ready(order, leaver)]
        # the dead one may have held words of ours
        return [*ready, *self._say_again()]

    def _prepare(self, message: m.Leave) -> list[Effect]:
        self._shrink = message.order
        effects = super()._prepare(message)
        # what a leaver has said may be under way longer than it is here
        again = self._say_again() if self.here in message.leavers else []
        return [*again, *effects]

    def _stay_on(self, order: int) -> list[Effect]:
        self._forget_shrink()
        return super()._stay_on(order)

    def _has_parted(self, leaver: int, order: int) -> list[Effect]:
        self._parted.add((order, leaver))
        # under a shrink that was given up meanwhile a dead place may have sent more to the leaver
        return self._all_fired(self._losses.drained(leaver)) if order == self._shrink else []

    def _forget_shrink(self) -> None:
        self._parted = {parted for parted in self._parted if parted[0] != self._shrink}
        self._seen = {seen for seen in self._seen if seen[0] != self._shrink}
        self._shrink = None

    def _ready(self, order: int, leaver: int) -> list[Effect]:
        """(place 0) Announce that a leaver is drained, if all others have everything of it that they need."""
        if self.here != 0 or (order, leaver) not in self._parted or leaver not in self.membership.leaving:
            return []
        others = self.membership.members.keys() - {0, leaver}
        return [LeaverDrained(order, leaver)] if all((order, leaver, other) in self._seen for other in others) else []

    def _maybe_drained(self) -> list[Effect]:
        effects = super()._maybe_drained()
        order = self._leaving.order
        if effects and order is not None:
            others = [member for member in self.membership.members if member not in (0, self.here)]
            return [*(Send(member, m.Parted(self.epoch, order), []) for member in others), *effects]
        return effects

    def _senders(self) -> set[int]:
        return super()._senders() | self._dying

    def _finish_effects(self, outcome: Flush | FinishFired | None) -> list[Effect]:
        if isinstance(outcome, Flush) and self._orphaned(outcome.finish):
            self.cancellations.forget(outcome.finish)
            return []
        match outcome:
            case Flush() if outcome.finish.dense:
                return [self._spoken(outcome.finish, self._losses.say(outcome), direct=outcome.direct)]
            case FinishFired() if outcome.finish.dense:
                return [*super()._finish_effects(outcome), *self._fulfilled(outcome.finish)]
            case _:
                return super()._finish_effects(outcome)

    # dense finishes --------------------------------------------------------------------------------------------------

    def _spoken(self, finish: FinishId, word: m.Word, *, direct: bool) -> Send:
        """Send a word of this place on its way, with those that are held; a leaver's goes to the home itself."""
        words = Words({self.here: word})
        if (held := self._relay.held.pop(finish, None)) is not None:
            words.add(held)
        return self._relayed(finish, words, direct=direct or self._leaving.order is not None)

    def _say_again(self) -> list[Effect]:
        """Say all that this place has ever said, for what it has said may be lost."""
        return [self._spoken(finish, word, direct=spoke) for finish, word, spoke in self._losses.said_again()]

    def _take_words(self, message: m.Said) -> list[Effect]:
        finish, words = message.finish, Words(message.words)
        if finish.home != self.here:
            return self._hold(finish, words) if finish.home in self.membership.members else []
        if self.finishes.is_open(finish):
            return self._all_fired(self._losses.words_came(finish, words))
        # said again, and not needed any more; by places that have not heard so
        there = words.by_place.keys() & self.membership.members.keys()
        return [Send(place, m.Fulfilled(self.epoch, finish), []) for place in sorted(there)]

    def _fulfilled(self, finish: FinishId) -> list[Effect]:
        """A dense finish has fired: forget what was said of it, and have those below forget it."""
        self._losses.forget(finish)
        self._relay.held.pop(finish, None)
        if finish.home not in self.membership.members:
            return []
        below = children(self.here, finish.home, sorted(self.membership.members), self.degree)
        return [Send(place, m.Fulfilled(self.epoch, finish), []) for place in below]

    def _forget_home(self, home: int) -> None:
        """Place ``home`` is gone, and with it its finishes."""
        self._losses.forget_home(home)
        for finish in [finish for finish in self._relay.held if finish.home == home]:
            del self._relay.held[finish]

    def _orphaned(self, finish: m.FinishId) -> bool:
        """Whether the home of ``finish`` has died, maybe before this place joined, and nothing of it is left here."""
        return finish.home not in self.membership.members and not self.finishes.lives(finish)


# Termination detection that survives the loss of places: ``finish`` with a count per pair of places ------------------
#
# Plain detection (``core.finish``) keeps one balance per place. Here a report also says from which place the completed
# activities came, and the home counts for every pair (q, p) of places what q *sent* to p and what p *completed* of it.
# A finish fires when every pair is even. When place d dies,
#
# - every survivor x *cuts off* d: it takes what still arrives of d, then nothing more; it reports to all
#   how many of d's activities live, or wait to be reported, at x, per finish (``LossReport``);
# - the home of a finish *settles* d once it has cut off d itself and holds the report of every survivor. What d sent to
#   x is from then on what has arrived there, whatever d said of it. What was sent to d is not waited for any more: what
#   d had not reported as completed is lost.
#
# Places that die before the dead before them are settled are settled together with those, for a dead place does not
# report any more what it took from another one. Until d is settled it counts like any other place. A drained leaver has
# nothing of d's pending, for it has d's ``Final``: that it is drained is as good as its report. It is released only
# when every member has heard so, and with it all its reports; what becomes of it then does not matter.
#
# Why even pairs mean that all is over. A dead place is one whose history ends; what was received of its reports
# describes a prefix of that history, as for any other place. So without settled places the argument of ``core.finish``
# holds, with pairs instead of sums. Let d be settled. No activity lives at d. For every x that is not settled the pair
# (d, x) is exact, for x has reported: its messages travel in order, so that completed-until-then plus pending is all
# that ever arrived, and nothing arrives later. Hence if (d, x) is even, every activity of d's at x is over and
# reported. Now suppose all pairs into places that are not settled are even and an activity at such a place is
# unaccounted. Follow its chain of spawners back: as long as a spawn is not reported, its spawner is unaccounted, too,
# for its place was not quiet since. The chain ends at the body, at an activity sent by a settled place, or at one whose
# spawn is reported. The first two are accounted: a contradiction. The third is balanced by a completion of the same
# pair whose own spawn is unreported and which is earlier, as in ``core.finish``.
#
# What is lost is counted exactly where a survivor sent it, for all survivors have reported when the finish fires. An
# activity that d started itself, or that another dead place sent it without a report, is known to no place. But its
# spawner was not reported as completed either, as d was not quiet since; follow that chain, and something that is
# counted is at its end: a loss is never silent.

# Dense finishes, whose reports go up a tree (``core.relay``)
# -----------------------------------------------------------
# A parent may die with reports that it holds, and no place knows which. So reports may be said again:
#
#     any place       quiet under a dense finish: a word, with those that it holds     Said ---> parent
#     any place       hears of a death: all that it has ever said, in a new turn       Said ---> parent
#     a leaver        hears that it is to leave: the same, and all that follows        Said ---> home
#     the home        the finish fires                                                 Fulfilled ---> down the tree
#
# A word has totals, not differences, of those numbers that have changed, and says how many reports of its turn are in
# it and what their highest number is; the first one of a turn has all totals. Adding words of a place takes the highest
# totals, and drops all of a turn before. In a turn each number is sent once, for what may be lost is said in the next
# one. So if as many have come as the highest number says, they are a prefix of that turn; with the totals of the first
# one they are what the place had done at some time when it was quiet, or, if that is only the first one, at the last of
# those times. The home takes words of a place into its counts then, and not before. So what it has counted of a place
# describes a prefix of its history, which is all that the argument above asks of reports, for living and dead places.
#
# *Nothing waits for ever.* Each word travels over places that are members as the sender and those that pass it on know
# them, and a message waits at a place that is in an earlier epoch. So a word that was said after the last loss had been
# heard of passes no dead place, and arrives; and those of before it are said again. What a leaver has said may be held
# by a place that dies after it has left: hence it says all again to the home itself, ahead of its ``Parted``.
#
# *Order.* A ``LossReport`` may overtake words, so for dense finishes it does not say what is pending but all that has
# ever arrived of the dead place. A place that has sent the home an answer, or that it wants to cancel, says that period
# to the home itself, as in other jobs; and whatever it says again, for its first word of a turn covers that period.
#
# *Nothing is counted after a settlement.* Words of a dead place may come by others after it was cut off. Until it is
# settled they count, as what had arrived before; then they change nothing. What it had reported is what the home had
# heard of then.
#
# Places keep their totals until the finish has fired. Where views of the tree differ, ``Fulfilled`` may
# miss a place, which then keeps some numbers until the home goes, or says them again after a loss and is answered.

Pair: TypeAlias = tuple[int, int]
"""Who sent, and to whom."""


_NONE: Final[dict[int, int]] = {}
_NO_ERRORS: Final[dict[int, bytes]] = {}


class Record(msgspec.Struct):
    """What a place has said of a dense finish of another one: totals, all errors, and how often in this turn.

    ``spoke``: it has sent that home something else that must arrive before the finish fires.
    """

    turn: int = 0
    number: int = 0
    sent: dict[int, int] = msgspec.field(default_factory=dict)
    completed: dict[int, int] = msgspec.field(default_factory=dict)
    errors: dict[int, bytes] = msgspec.field(default_factory=dict)
    spoke: bool = False

    def word(self, flush: Flush) -> m.Word:
        """Add a report, and say what has changed."""
        self.number += 1
        self.spoke |= flush.direct
        for totals, counts in ((self.sent, flush.spawned), (self.completed, flush.sources or {})):
            for place, count in counts.items():
                totals[place] = totals.get(place, 0) + count
        errors = dict(enumerate(flush.errors, len(self.errors)))
        self.errors |= errors
        sent = {place: self.sent[place] for place in flush.spawned}
        completed = {place: self.completed[place] for place in flush.sources or {}}
        return m.Word(self.turn, 1, self.number, sent, completed, errors)

    def again(self) -> m.Word:
        """Begin anew, and say all."""
        self.turn += 1
        self.number = 1
        return m.Word(self.turn, 1, 1, dict(self.sent), dict(self.completed), dict(self.errors))


class Pairs(msgspec.Struct):
    """What the home of a finish knows, since the beginning; ``open``: by how much each pair is uneven.

    ``arrived``: what a survivor has taken from a dead place, for ever. ``undelivered``: what a dead place had reported
    as sent and did not arrive. ``to_callers``: lost activities that were reported to their callers, not to the finish.
    """

    sent: dict[Pair, int]
    open: dict[Pair, int]
    completed: dict[Pair, int] = msgspec.field(default_factory=dict)
    errors: list[bytes] = msgspec.field(default_factory=list)
    arrived: dict[Pair, int] = msgspec.field(default_factory=dict)
    undelivered: dict[int, int] = msgspec.field(default_factory=dict)
    to_callers: dict[int, int] = msgspec.field(default_factory=dict)
    words: dict[int, m.Word] = msgspec.field(default_factory=dict)
    failures: dict[Pair, bytes] = msgspec.field(default_factory=dict)

    def take(self, place: int, word: m.Word, settled: set[int]) -> None:
        """Take what ``place`` says, once that is all that it had said up to some time."""
        word = joined(self.words.get(place), word)
        if word.count == word.highest:
            for dst, total in word.sent.items():
                self.sent[place, dst] = total
                self.weigh((place, dst), settled)
            for src, total in word.completed.items():
                self.completed[src, place] = total
                self.weigh((src, place), settled)
            self.failures |= {(place, number): error for number, error in word.errors.items()}
            word = m.Word(word.turn, word.count, word.highest, _NONE, _NONE, _NO_ERRORS)
        self.words[place] = word

    def weigh(self, pair: Pair, settled: set[int]) -> None:
        """Look at a pair anew, after one of its counts has changed."""
        uneven = self.sent.get(pair, 0) - self.completed.get(pair, 0)
        if uneven and pair[1] not in settled:
            self.open[pair] = uneven
        else:
            self.open.pop(pair, None)

    def hear(self, dead: int, survivor: int, pending: int) -> None:
        """``survivor`` has cut off ``dead``, with ``pending`` activities of its that it has not reported yet."""
        if arrived := self.completed.get((dead, survivor), 0) + pending:
            self.arrived[dead, survivor] = arrived

    def settle(self, dead: int, survivors: Iterable[int], settled: set[int]) -> None:
        """Put what has arrived in the place of what ``dead`` said of it; ``settled`` has ``dead`` in it already."""
        for survivor in survivors:
            pair = (dead, survivor)
            arrived = self.arrived.pop(pair, 0)
            missing = self.sent.get(pair, 0) - arrived
            if missing > 0:
                self.undelivered[dead] = self.undelivered.get(dead, 0) + missing
            if arrived or pair in self.sent:
                self.sent[pair] = arrived
                self.weigh(pair, settled)
        for pair in [pair for pair in self.open if pair[1] == dead]:
            del self.open[pair]

    def lost(self, settled: set[int]) -> tuple[tuple[int, int], ...]:
        """How many activities were lost with which settled place; to be asked when nothing is open."""
        counts = {place: self.undelivered.get(place, 0) - self.to_callers.get(place, 0) for place in settled}
        for pair, sent in self.sent.items():
            if pair[1] in settled:
                counts[pair[1]] += max(0, sent - self.completed.get(pair, 0))
        return tuple((place, count) for place, count in sorted(counts.items()) if count > 0)


class Settling(msgspec.Struct):
    """A dead place that is not settled: who has cut it off, and whose report is awaited."""

    awaited: set[int]
    heard: set[int]


class ResilientFinishTable(FinishTable):
    """All finishes that one place of a resilient job takes part in."""

    def __init__(self, here: int) -> None:
        super().__init__(here)
        self._pairs: dict[FinishId, Pairs] = {}
        self._settling: dict[int, Settling] = {}
        self._settled: set[int] = set()
        self._left: set[int] = set()
        self._records: dict[FinishId, Record] = {}

    @property
    def quiet(self) -> bool:
        """Whether nothing runs here and no finish that was opened here is open."""
        return self.live == 0 and not self._pairs

    def open(self, *, dense: bool = False) -> FinishId:
        """Open a finish at this place; its body is its first activity."""
        finish = FinishId(self.here, -1 - self._next if dense else self._next)
        self._next += 1
        body = (self.here, self.here)
        self._pairs[finish] = Pairs({body: 1}, {body: 1})
        self.arrived(finish, self.here)
        return finish

    def arrived(self, finish: FinishId, src: int) -> None:
        """Count an activity of place ``src`` that begins to live here."""
        super().arrived(finish, src)
        share = self._shares[finish]
        if share.sources is None:
            share.sources = {}
        share.sources[src] = share.sources.get(src, 0) + 1

    def reported(self, src: int, report: Flush) -> FinishFired | None:
        """Take a report at home; an ``InvariantError`` if the finish is not open here: a place counted wrongly."""
        pairs = self._pairs.get(report.finish)
        if pairs is None:
            raise InvariantError(f"place {self.here}: place {src} reports for {report.finish}, which is not open here")
        if sum((report.sources or {}).values()) != report.completed:
            raise InvariantError(f"place {self.here}: {report} of place {src} does not say where all came from")
        for place, count in report.spawned.items():
            pair = (src, place)
            pairs.sent[pair] = pairs.sent.get(pair, 0) + count
            pairs.weigh(pair, self._settled)
        for place, count in (report.sources or {}).items():
            pair = (place, src)
            pairs.completed[pair] = pairs.completed.get(pair, 0) + count
            pairs.weigh(pair, self._settled)
        pairs.errors.extend(report.errors)
        return self._fired(report.finish, pairs)

    def say(self, flush: Flush) -> m.Word:
        """Say to the home of a dense finish what this place, which is quiet, has to report."""
        return self._records.setdefault(flush.finish, Record()).word(flush)

    def said_again(self) -> list[tuple[FinishId, m.Word, bool]]:
        """All that this place has said, of each finish, and whether that has to go to the home itself."""
        return [(finish, record.again(), record.spoke) for finish, record in sorted(self._records.items())]

    def words_came(self, finish: FinishId, words: Words) -> list[FinishFired]:
        """Take words at the home of an open dense finish; those of a place that is settled change nothing any more."""
        pairs = self._pairs[finish]
        for place, word in words.by_place.items():
            if place not in self._settled:
                pairs.take(place, word, self._settled)
        fired = self._fired(finish, pairs)
        return [] if fired is None else [fired]

    def forget(self, finish: FinishId) -> None:
        """A dense finish has fired."""
        self._records.pop(finish, None)

    def forget_home(self, home: int) -> None:
        """Place ``home`` is no member any more."""
        self._records = {finish: record for finish, record in self._records.items() if finish.home != home}

    def is_open(self, finish: FinishId) -> bool:
        """Whether ``finish``, opened here, has not fired yet."""
        return finish in self._pairs

    def _known_open(self, finish: FinishId) -> dict[int, int]:
        known: dict[int, int] = {}
        if (pairs := self._pairs.get(finish)) is not None:
            for (_, place), count in pairs.open.items():
                add_balance(known, place, count)
        return known

    # losses ----------------------------------------------------------------------------------------------------------

    def died(self, place: int, survivors: set[int], drained: set[int]) -> None:
        """The members have lost ``place``, which the reports of ``survivors``, this place among them, will settle.

        Nothing needs to be heard of those that are ``drained``, for they have said everything.
        """
        final = drained | self._left
        self._settling[place] = Settling(survivors - drained, final)
        for pairs in self._pairs.values():
            for other in final:
                pairs.hear(place, other, 0)

    def drained(self, place: int) -> list[FinishFired]:
        """A leaver has reported everything: nothing is pending there, which is as good as any report."""
        return [fired for dead in list(self._settling) for fired in self.loss_reported(place, dead, None)]

    def left(self, place: int) -> None:
        """A drained leaver has left: its counts are final."""
        self._left.add(place)

    def caller_notified(self, finish: FinishId, place: int) -> None:
        """A caller here knows that its call is lost with ``place``: the finish, opened here, need not say so."""
        pairs = self._pairs.get(finish)
        if pairs is not None:
            pairs.to_callers[place] = pairs.to_callers.get(place, 0) + 1

    def cut_off(self, place: int) -> dict[int, dict[int, int]]:
        """Nothing more will arrive from ``place``: what every home has to know, as home -> number -> pending.

        Of dense finishes of other places it is all that has ever arrived: reports of it may still be on their way.
        """
        pending: dict[int, dict[int, int]] = {}
        for finish in self._shares.keys() | self._records.keys():
            share, record = self._shares.get(finish), self._records.get(finish)
            count = (share.sources or {}).get(place, 0) if share is not None else 0
            count += record.completed.get(place, 0) if record is not None else 0
            if count:
                pending.setdefault(finish.home, {})[finish.seq] = count
        return pending

    def loss_reported(self, src: int, place: int, pending: dict[int, int] | None) -> list[FinishFired]:
        """Take the report of a survivor about the dead ``place``; None: its counts are final."""
        settling = self._settling.get(place)
        if settling is None or src not in settling.awaited:
            # we joined after that loss: no finish of ours ever knew that place
            return []
        settling.awaited.discard(src)
        settling.heard.add(src)
        for finish, pairs in self._pairs.items():
            count = (pending or {}).get(finish.seq, 0)
            if not finish.dense or src == self.here or pending is None:
                pairs.hear(place, src, count)
            elif count:  # all that has ever arrived
                pairs.arrived[place, src] = count
        return self._settle()

    def _settle(self) -> list[FinishFired]:
        """Settle all dead places, if every living one has reported on each of them."""
        dead = self._settling.keys()
        if any(settling.awaited - dead for settling in self._settling.values()):
            return []
        self._settled |= dead
        for pairs in self._pairs.values():
            for place, settling in self._settling.items():
                pairs.settle(place, settling.heard, self._settled)
        self._settling.clear()
        fired = [self._fired(finish, pairs) for finish, pairs in list(self._pairs.items())]
        return [outcome for outcome in fired if outcome is not None]

    def _fired(self, finish: FinishId, pairs: Pairs) -> FinishFired | None:
        if pairs.open:
            return None
        del self._pairs[finish]
        errors = (*pairs.errors, *pairs.failures.values())
        return FinishFired(finish, errors, lost=pairs.lost(self._settled) if self._settled else ())
