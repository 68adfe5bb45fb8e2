"""One place of a resilient job: what ``PlaceCore`` does, and going on without the places that die.

    place 0        hears of the loss of d -> commits an epoch without it: Members(died) to everyone else
    every place    enters that epoch; nothing new is sent to d. What d has sent is still taken, for a while
    the driver     cut_off(d): everything of d's has arrived, or had time enough
    every place    takes nothing of d's any more; open calls to d are lost; LossReport to every member
    every home     has cut off d and has every survivor's report -> settles d: see ``core.losses``

A leaver waits for d's ``Final`` until it has cut off d. A drained one is released only when nothing is needed of it any
more, so that its death does no harm from then on:

    leaver         drained -> Drained to place 0, Parted to everyone else, behind all its reports
    every member   has Parted -> Seen to place 0
    place 0        has Drained, and Seen of every member -> the leaver is drained indeed

Finishes that were opened on d have no home any more: what runs under them elsewhere goes on, and its reports are
dropped. The loss of place 0 ends the job.
"""

from __future__ import annotations

from collections.abc import Iterable

from apgas.core import messages as m
from apgas.core.effects import CallLost, Effect, LeaverDrained, Payload, PlaceLost, Send
from apgas.core.finish import Fired, Flush
from apgas.core.losses import ResilientFinishTable
from apgas.core.place import PlaceCore
from apgas.errors import ProtocolError


class ResilientPlaceCore(PlaceCore):
    """The state of one place that survives the loss of others."""

    survives = True

    def __init__(self, here: int, members: Iterable[m.PlaceInfo], epoch: int) -> None:
        super().__init__(here, members, epoch)
        self.finishes = self._losses = ResilientFinishTable(here)
        self._called: dict[int, tuple[int, m.FinishId, bool]] = {}
        self._dying: set[int] = set()
        self._cut: set[int] = set()
        self._shrink: int | None = None
        self._parted: set[tuple[int, int]] = set()
        self._seen: set[tuple[int, int, int]] = set()

    # what the program does -------------------------------------------------------------------------------------------

    def spawn(self, finish: m.FinishId, dst: int, payload: Payload, *, to_caller: bool) -> tuple[int, list[Effect]]:
        """Send an activity to another place; see ``PlaceCore``.

        Raises:
            PlaceGoneError: ``dst`` is leaving or no member; nothing happened.
        """
        call, effects = super().spawn(finish, dst, payload, to_caller=to_caller)
        self._called[call] = (dst, finish, to_caller)
        return call, effects

    def answered(
        self, dst: int, spawn: m.Spawn, payload: Payload, *, ok: bool, error: bytes | None = None
    ) -> list[Effect]:
        """An activity that place ``dst`` sent has ended: answer its call, if that place lives."""
        effects = super().answered(dst, spawn, payload, ok=ok, error=error)
        if self._orphaned(spawn.finish):
            self.cancellations.forget(spawn.finish)
        dead = self.membership.dead
        return (
            [effect for effect in effects if not (isinstance(effect, Send) and effect.dst in dead)] if dead else effects
        )

    # what arrives ----------------------------------------------------------------------------------------------------

    def received(self, src: int, message: m.AnyMessage, payload: Payload) -> list[Effect]:
        """Take a message from place ``src``; none of one that was cut off.

        Raises:
            ProtocolError: The sender may not send this.
        """
        return [] if src in self._cut else super().received(src, message, payload)

    def _take(self, src: int, message: m.AnyMessage, payload: Payload) -> list[Effect]:
        match message:
            case m.Reply() | m.Answer():
                self._called.pop(message.call, None)
            case m.Cancel() if self._orphaned(message.finish):
                return []
            case m.Drained():
                return [*self._has_parted(src, message.order), *self._ready(message.order, src)]
            case m.Parted():
                return [*self._has_parted(src, message.order), Send(0, m.Seen(self.epoch, message.order, src), [])]
            case m.Seen():
                self._seen.add((message.order, message.leaver, src))
                return self._ready(message.order, message.leaver)
            case m.LossReport():
                return self._all_fired(self._losses.loss_reported(src, message.place, message.pending))
            case m.Lost():
                if message.place == 0:
                    raise ProtocolError(f"place {src} tells place 0 that it has died")
                # the word of a dead place is not good enough to bury another
                return [] if src in self.membership.dead else self.lost(message.place, message.reason)
            case _:
                pass
        return super()._take(src, message, payload)

    def lost(self, place: int, reason: str) -> list[Effect]:
        """The connection to ``place`` ended: place 0 goes on without it, the others tell place 0."""
        if self.here != 0:
            return super().lost(place, reason)
        if self.over or place not in self.membership.members:
            return []
        message = m.Members(self.epoch + 1, (), (), (place,))
        others = [member for member in self.membership.members if member not in (self.here, place)]
        return [
            PlaceLost(place, reason),
            *(Send(member, message, []) for member in others),
            *self._enter(message),
        ]

    def cut_off(self, place: int) -> list[Effect]:
        """Nothing more of the dead ``place`` is taken from now on: say what came of it. Idempotent."""
        if self.over or place not in self._dying:
            return []
        self._dying.discard(place)
        self._cut.add(place)
        effects: list[Effect] = []
        for call, (dst, finish, to_caller) in list(self._called.items()):
            if dst == place:
                del self._called[call]
                self.calls.discard(call)
                effects.append(CallLost(call, place))
                if to_caller and finish.home == self.here:
                    self._losses.told(finish, place)
        pending = self._losses.cut_off(place)
        for member in self.membership.members:
            if member != self.here:
                report = m.LossReport(self.epoch, place, pending.get(member, {}))
                effects.append(Send(member, report, []))
        fired = self._losses.loss_reported(self.here, place, pending.get(self.here, {}))
        self._leaving.cut_off(place)
        return [*effects, *self._all_fired(fired), *self._maybe_drained()]

    @property
    def settled(self) -> bool:
        """Whether nothing is awaited any more because of a place that died or left."""
        return not self._dying and self._losses.settled

    # inside ----------------------------------------------------------------------------------------------------------

    def _enter(self, message: m.Members) -> list[Effect]:
        for place in message.removed:
            self._losses.left(place)
        if message.removed:
            self._forget_shrink()
        gone = {*message.removed, *message.died}
        self._parted = {parted for parted in self._parted if parted[1] not in gone}
        return super()._enter(message)

    def _mourn(self, place: int) -> list[Effect]:
        self._dying.add(place)
        for finish in list(self.cancelled):
            if self._orphaned(finish):
                self.cancellations.forget(finish)
        drained = {leaver for order, leaver in self._parted if order == self._shrink}
        self._losses.died(place, set(self.membership.members), drained & self.membership.leaving)
        # place 0 does not wait for the word of the dead any more
        return [effect for order, leaver in sorted(self._parted) for effect in self._ready(order, leaver)]

    def _prepare(self, message: m.Leave) -> list[Effect]:
        self._shrink = message.order
        return super()._prepare(message)

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
        """(place 0) Tell that a leaver is drained, if all others have everything of it that they need."""
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

    def _finish_effects(self, outcome: Flush | Fired | None) -> list[Effect]:
        if isinstance(outcome, Flush) and self._orphaned(outcome.finish):
            self.cancellations.forget(outcome.finish)
            return []
        return super()._finish_effects(outcome)

    def _orphaned(self, finish: m.FinishId) -> bool:
        """Whether the home of ``finish`` has died, and nothing of it is left here."""
        return finish.home in self.membership.dead and not self.finishes.lives(finish)

    def _all_fired(self, fired: Iterable[Fired]) -> list[Effect]:
        effects = [effect for outcome in fired for effect in self._finish_effects(outcome)]
        return [*effects, *self._maybe_drained()]
