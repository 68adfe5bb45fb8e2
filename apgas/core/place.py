"""One place without its threads and sockets: composes finish, membership, cancellation and leaving.

Every method takes what happened and returns the effects, in order. The driver (or a simulation) carries them out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_never

from apgas.core import messages as m
from apgas.core.effects import (
    Effect,
    Ends,
    FinishFired,
    LeaverDrained,
    Leaves,
    MembersChanged,
    PassOn,
    Payload,
    PlaceLost,
    ResolveCall,
    RunActivity,
    RunImmediate,
    RunUncounted,
    Send,
    StaysOn,
)
from apgas.core.finish import Cancellations, FinishTable, Flush, Gathered
from apgas.core.membership import Leaving, Membership
from apgas.core.relay import DEGREE, Relay, Words, children, parent
from apgas.errors import CancelledError, InvariantError, PlaceGoneError, ProtocolError


class PlaceCore:
    """The state of one place.

    Attributes:
        survives: Whether the job goes on when places die.
        calls: The activities sent to other places that have not been answered: where to, and how.
        degree: How many children a place has in the trees of dense finishes.
        news_degree: The same in the tree of news.
    """

    survives = False
    degree = DEGREE
    news_degree = DEGREE

    def __init__(self, here: int, members: Iterable[m.PlaceInfo], epoch: int) -> None:
        self.here = here
        self.membership = Membership(members, epoch)
        self.finishes = FinishTable(here)
        self.cancellations = Cancellations(here)
        self.cancelled = self.cancellations.known
        self.calls: dict[int, tuple[int, m.Spawn]] = {}
        self.uncounted_live = 0
        self.over = False
        self.abandoned = False
        self._next_call = 0
        self._held: list[tuple[int, m.AnyMessage, Payload]] = []
        self._leaving = Leaving()
        self._relay: Relay[Any] = Relay(here)

    # what the program does -------------------------------------------------------------------------------------------

    def open_finish(self, outer: m.FinishId | None = None, *, dense: bool = False) -> m.FinishId:
        """Open a finish, in an activity of ``outer``; its body is a live activity until ``ended``."""
        finish = self.finishes.open(dense=dense)
        if outer is not None:
            self.cancellations.opened(finish, outer)
        return finish

    def spawn(self, finish: m.FinishId, dst: int, payload: Payload, *, to_caller: bool) -> tuple[int, list[Effect]]:
        """Send an activity to another place; returns the number of the call that its value will answer.

        Raises:
            PlaceGoneError: ``dst`` is leaving or no member; nothing happened.
            CancelledError: ``finish`` is cancelled; nothing happened.
        """
        self.membership.require(dst)
        if self.cancelled:  # hardly ever
            self._require_uncancelled(finish)
        self.finishes.spawned(finish, dst)
        call = self._next_call
        self._next_call += 1
        spawn = m.Spawn(self.epoch, finish, call, to_caller)
        self.calls[call] = dst, spawn
        return call, [Send(dst, spawn, payload)]

    def spawn_here(self, finish: m.FinishId) -> None:
        """Count an activity that the driver starts on this place itself.

        Raises:
            CancelledError: ``finish`` is cancelled; nothing happened.
        """
        if self.cancelled:  # hardly ever
            self._require_uncancelled(finish)
        self.finishes.spawned(finish, self.here)
        self.finishes.arrived(finish, self.here)

    def immediate(self, dst: int, payload: Payload) -> list[Effect]:
        """Send an immediate; it is dropped if the place is leaving or gone."""
        if dst not in self.membership.members or dst in self.membership.leaving:
            return []
        return [Send(dst, m.Immediate(self.epoch), payload)]

    def uncounted(self, dst: int, payload: Payload) -> list[Effect]:
        """Send an activity that no finish counts.

        Raises:
            PlaceGoneError: ``dst`` is leaving or no member; nothing happened.
        """
        self.membership.require(dst)
        return [Send(dst, m.Uncounted(self.epoch), payload)]

    def uncounted_here(self) -> None:
        """Count an activity without a finish that the driver starts on this place itself.

        Raises:
            PlaceGoneError: This place has drained, and may end at any time.
        """
        if self._leaving.drained:
            raise PlaceGoneError(self.here, self.epoch, "is leaving")
        self.uncounted_live += 1

    @property
    def drained(self) -> bool:
        """Whether this place has nothing left to do, is to be released, and must begin nothing of its own."""
        return self._leaving.drained

    def uncounted_ended(self) -> list[Effect]:
        """An activity without a finish has ended here."""
        self.uncounted_live -= 1
        return self._maybe_drained()

    def answered(
        self, dst: int, spawn: m.Spawn, payload: Payload, *, ok: bool, error: bytes | None = None
    ) -> list[Effect]:
        """An activity that place ``dst`` sent has ended: answer its call; ``error`` is for the finish."""
        to_home = spawn.finish.home == dst
        dense = to_home and spawn.finish.dense
        if dense:
            self.finishes.speak_to_home(spawn.finish)
        outcome = self.finishes.ended(spawn.finish, error)
        if to_home and not dense and isinstance(outcome, Flush) and not outcome.errors:
            counts = (outcome.spawned, outcome.completed, outcome.sources)
            both = m.Answer(self.epoch, spawn.call, ok, outcome.finish, *counts)
            return [Send(dst, both, payload), *self._maybe_drained()]
        reply = m.Reply(self.epoch, spawn.call, ok)
        return [Send(dst, reply, payload), *self._finish_effects(outcome), *self._maybe_drained()]

    def may_begin(self, finish: m.FinishId) -> bool:
        """Whether an activity of ``finish`` that has arrived may begin; if not, it is ``dropped``. Any thread."""
        return not self.cancelled or finish not in self.cancelled

    def dropped(self, src: int, spawn: m.Spawn) -> list[Effect]:
        """An activity that place ``src`` has sent ended before it began, because its finish is cancelled."""
        return self.answered(src, spawn, [], ok=False)

    def cancel(self, finish: m.FinishId) -> list[Effect]:
        """Start nothing more under ``finish``, anywhere; without effect if it is cancelled or has fired."""
        if finish.home == self.here:
            return self._cancel(finish) if self.finishes.is_open(finish) else []
        if finish.home not in self.membership.members:
            return []
        known: list[Effect] = []
        if self.finishes.lives(finish):
            known = self._cancel(finish)
            self.finishes.speak_to_home(finish)
        return [*known, Send(finish.home, m.Cancel(self.epoch, finish), [])]

    def ended(self, finish: m.FinishId, error: bytes | None = None) -> list[Effect]:
        """An activity here, or the body of a finish, has ended; ``error`` is for the finish."""
        return [*self._finish_effects(self.finishes.ended(finish, error)), *self._maybe_drained()]

    def pass_on(self, finish: m.FinishId) -> list[Effect]:
        """Pass on what is held of the reports of a dense finish; the answer to ``PassOn``, at any time."""
        held = None if self.over else self._relay.held.pop(finish, None)
        return [] if held is None else [self._relayed(finish, held)]

    # what arrives ----------------------------------------------------------------------------------------------------

    def received(self, src: int, message: m.AnyMessage, payload: Payload) -> list[Effect]:
        """Take a message from place ``src``.

        Raises:
            ProtocolError: The sender may not send this.
        """
        if isinstance(message, m.FROM_PLACE_0_ONLY) and src != 0:
            raise ProtocolError(f"place {src} sent {type(message).__name__}, which only place 0 may send")
        if self.over:
            return []
        if message.epoch > self.epoch and not isinstance(message, m.Members | m.End):
            self._held.append((src, message, payload))
            return []
        return self._take(src, message, payload)

    def _take(self, src: int, message: m.AnyMessage, payload: Payload) -> list[Effect]:  # noqa: C901 - one arm a message
        match message:
            case m.Spawn():
                self.finishes.arrived(message.finish, src)
                return [RunActivity(src, message, payload)]
            case m.Reply():
                self._answer_call(src, message.call)
                return [ResolveCall(message.call, message.ok, payload), *self._maybe_drained()]
            case m.Answer():
                self._answer_call(src, message.call)
                flush = Flush(message.finish, message.spawned, message.completed, [], message.sources)
                fired = self._finish_effects(self.finishes.reported(src, flush))
                return [ResolveCall(message.call, message.ok, payload), *fired, *self._maybe_drained()]
            case m.Report():
                errors = m.unpack_errors(payload)
                flush = Flush(message.finish, message.spawned, message.completed, errors, message.sources)
                return [*self._finish_effects(self.finishes.reported(src, flush)), *self._maybe_drained()]
            case m.Relayed():
                reports = Gathered(message.open, message.heard, m.unpack_errors(payload))
                return self._take_reports(message.finish, reports)
            case m.Immediate():
                return [RunImmediate(src, payload)]
            case m.Uncounted():
                self.uncounted_live += 1
                return [RunUncounted(src, payload)]
            case m.Cancel():
                if message.finish.home == self.here:
                    return self.cancel(message.finish)
                return self._cancel(message.finish)
            case m.Forget():
                self.cancellations.forget(message.finish)
                return []
            case m.Members() | m.Leave() | m.StayOn():
                return self._hear(src, message)
            case m.Final():
                return self._final(src, message.order)
            case m.Drained():
                return [LeaverDrained(message.order, src)]
            case m.Release():
                if not self._idle:
                    raise InvariantError(f"place {self.here} is released with work left")
                self.over = True
                return [Leaves()]
            case m.LossReport() | m.Parted() | m.Seen() | m.Said() | m.Fulfilled():
                raise ProtocolError(f"place {src} sent {type(message).__name__}, but this job is not resilient")
            case m.Lost():
                return [PlaceLost(message.place, message.reason)]
            case m.End():
                self.over = True
                return [Ends(message.reason)]
            case _:
                assert_never(message)

    def lost(self, place: int, reason: str) -> list[Effect]:
        """The connection to ``place`` ended; after the end, or if it has left, that is how it should be."""
        if self.over or place not in self.membership.members:
            return []
        if self.here == 0:
            # a leaver, too: it stays until we release it, and then it is no member any more
            return [PlaceLost(place, reason)]
        if place in self.membership.leaving or (self._leaving.drained and place != 0):
            # it was released and we have not heard of it yet, or it has forgotten us; place 0 knows
            return []
        if place == 0:
            self.over = self.abandoned = True
            return [Ends(f"lost place 0: {reason}")]
        return [Send(0, m.Lost(self.epoch, place, reason), [])]

    def cut_off(self, place: int) -> list[Effect]:
        """Nothing more will be taken from ``place``, which died; see ``ResilientPlaceCore``."""
        raise InvariantError(f"place {place} is to be cut off in a job that is not resilient")

    # what place 0 decides --------------------------------------------------------------------------------------------

    def commit_grow(self, added: tuple[m.PlaceInfo, ...]) -> list[Effect]:
        """(place 0) Newcomers are here: announce them to the others and enter the next epoch."""
        return self._hear(self.here, m.Members(self.epoch + 1, added, ()))

    def prepare_shrink(self, order: int, leavers: tuple[int, ...]) -> list[Effect]:
        """(place 0) Ask everyone to stop sending to the leavers, and the leavers to drain."""
        return self._hear(self.here, m.Leave(self.epoch, order, leavers))

    def abort_shrink(self, order: int) -> list[Effect]:
        """(place 0) The leavers stay."""
        return self._hear(self.here, m.StayOn(self.epoch, order))

    def commit_shrink(self, order: int) -> list[Effect]:
        """(place 0) Every leaver has drained: release them and enter the next epoch."""
        leavers = tuple(sorted(self.membership.leaving))
        releases: list[Effect] = [Send(place, m.Release(self.epoch, order), []) for place in leavers]
        return [*releases, *self._hear(self.here, m.Members(self.epoch + 1, (), leavers))]

    def end(self, reason: str = "") -> list[Effect]:
        """(place 0) The program is over, for every place."""
        self.over = True
        return [*self._to_others(m.End(self.epoch, reason)), Ends(reason)]

    # inside ----------------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The epoch that this place is in."""
        return self.membership.epoch

    @property
    def _idle(self) -> bool:
        """Whether nothing runs here, and nothing that was begun here is waited for."""
        return not self.calls and not self.uncounted_live and self.finishes.quiet

    def _require_uncancelled(self, finish: m.FinishId) -> None:
        if finish in self.cancelled:
            raise CancelledError("the finish around it was cancelled: nothing more is started")

    def _cancel(self, finish: m.FinishId) -> list[Effect]:
        announced = [m.Cancel(self.epoch, each) for each in self.cancellations.add(finish)]
        return [effect for message in announced for effect in self._to_others(message)]

    def _to_others(self, message: m.Message) -> list[Effect]:
        return [Send(place, message, []) for place in self.membership.members if place != self.here]

    def _answer_call(self, src: int, call: int) -> None:
        if self.calls.pop(call, None) is None:
            raise ProtocolError(f"place {src} answered call {call}, which is not open")

    def _finish_effects(self, outcome: Flush | FinishFired | None) -> list[Effect]:
        match outcome:
            case None:
                return []
            case FinishFired():
                cancelled, announced = self.cancellations.fired(outcome.finish)
                forget = self._to_others(m.Forget(self.epoch, outcome.finish)) if announced else []
                return [FinishFired(outcome.finish, outcome.errors, cancelled, outcome.lost), *forget]
            case Flush() if outcome.finish.dense:
                return [self._relayed(outcome.finish, self._relay.own(outcome), direct=outcome.direct)]
            case Flush():
                report = m.Report(self.epoch, outcome.finish, outcome.spawned, outcome.completed, outcome.sources)
                return [Send(outcome.finish.home, report, m.pack_errors(outcome.errors))]

    def _all_fired(self, fired: Iterable[FinishFired]) -> list[Effect]:
        effects = [effect for outcome in fired for effect in self._finish_effects(outcome)]
        return [*effects, *self._maybe_drained()]

    def _take_reports(self, finish: m.FinishId, reports: Gathered) -> list[Effect]:
        """Take reports of a dense finish that others have added up: its own ones as home, or to pass them on."""
        if finish.home == self.here:
            return self._all_fired(self.finishes.gathered(finish, reports))
        return self._hold(finish, reports)

    def _hold(self, finish: m.FinishId, reports: Gathered | Words) -> list[Effect]:
        """Hold reports of others, to pass them on."""
        first = self._relay.hold(finish, reports)
        if self._leaving.order is not None:
            return self.pass_on(finish)
        return [PassOn(finish, self.finishes.lives(finish))] if first else []

    def _relayed(self, finish: m.FinishId, reports: Gathered | Words, *, direct: bool = False) -> Send:
        dst = finish.home
        if not direct:
            dst = parent(self.here, dst, self.membership.staying_ids, self.degree)
        if isinstance(reports, Words):
            return Send(dst, m.Said(self.epoch, finish, reports.by_place), [])
        message = m.Relayed(self.epoch, finish, reports.open, reports.heard)
        return Send(dst, message, m.pack_errors(reports.errors))

    def _hear(self, src: int, news: m.News) -> list[Effect]:
        """Pass news on, and take it: as place 0 its own, elsewhere that of place ``src``, whose child this place is."""
        hearers = self._hearers(news)
        if src != (parent(self.here, 0, hearers, self.news_degree) if self.here else 0):
            what = f"{type(news).__name__} of epoch {news.epoch}"
            raise ProtocolError(f"place {src} sent place {self.here} {what}, which another one is to pass on")
        below = children(self.here, 0, hearers, self.news_degree)
        effects: list[Effect] = [Send(place, news, []) for place in below]
        match news:
            case m.Members():
                return [*effects, *self._enter(news)]
            case m.Leave():
                return [*effects, *self._prepare(news)]
            case m.StayOn():
                return [*effects, *self._stay_on(news.order)]

    def _hearers(self, news: m.News) -> list[int]:
        """Whom news concerns that is to be taken now, by id."""
        gone = {*news.removed, *news.died} if isinstance(news, m.Members) else ()
        members = sorted(self.membership.members)
        return [place for place in members if place not in gone] if gone else members

    def _enter(self, message: m.Members) -> list[Effect]:
        for place in message.removed:
            self._relay.forget_home(place)
        self.membership.commit(message.epoch, message.added, message.removed, message.died)
        self._leaving.entered()
        effects: list[Effect] = [MembersChanged(message.epoch, message.added, message.removed, message.died)]
        for place in message.died:
            effects.extend(self._member_died(place))
        for finish in sorted(self.cancellations.announced):
            effects += [Send(info.place, m.Cancel(self.epoch, finish), []) for info in message.added]
        ready = [held for held in self._held if held[1].epoch <= self.epoch]
        self._held = [held for held in self._held if held[1].epoch > self.epoch]
        for src, held, payload in ready:
            effects.extend(self._take(src, held, payload))
        return effects

    def _prepare(self, message: m.Leave) -> list[Effect]:
        self.membership.prepare_leave(message.leavers)
        effects: list[Effect] = [
            Send(place, m.Final(self.epoch, message.order), []) for place in message.leavers if place != self.here
        ]
        if self.here in message.leavers:
            for finish in list(self._relay.held):
                effects.extend(self.pass_on(finish))
            self._leaving.begin(message.order, self._senders())
            effects.extend(self._maybe_drained())
        return effects

    def _senders(self) -> set[int]:
        """The places that may still send us something."""
        return self.membership.members.keys() - {self.here}

    def _member_died(self, place: int) -> list[Effect]:
        raise ProtocolError(f"place {place} is said to have died, which ends a job that is not resilient")

    def _final(self, src: int, order: int) -> list[Effect]:
        self._leaving.final(src, order)
        return self._maybe_drained()

    def _stay_on(self, order: int) -> list[Effect]:
        self.membership.abort_leave()
        return [StaysOn()] if self._leaving.stay(order) else []

    def _maybe_drained(self) -> list[Effect]:
        order = self._leaving.order
        if order is None or not self._leaving.drains(idle=self._idle):
            return []
        return [Send(0, m.Drained(self.epoch, order), [])]
