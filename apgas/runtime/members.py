"""What a place does when others become members, leave or die."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from apgas.core import effects as e
from apgas.core.identity import Place
from apgas.errors import DeadPlaceError
from apgas.runtime.calls import Calls
from apgas.transport.base import TransportClosedError, UnknownPeerError

if TYPE_CHECKING:
    from apgas.runtime.driver import Driver

CUT_OFF_S: Final = 2.0
"""How long the connections of a place that is said to be dead may last."""


class Members:
    """Whom ``driver`` knows, and has known; ``calls`` notes what each of them was sent, and sent."""

    def __init__(self, driver: Driver, calls: Calls) -> None:
        self._driver = driver
        self._calls = calls
        self._survives = driver.core.survives
        self._nodes = {info.place: info.node for info in driver.core.membership.members.values()}

    def place(self, place: int) -> Place:
        """The place with this id, whether it is still a member or not."""
        return Place(place, self._nodes.get(place, ""))

    def changed(self, change: e.MembersChanged) -> None:
        """Enter an epoch, under the driver's lock; whom it mourns is left to ``bury``."""
        transport = self._driver.transport
        transport.learn({info.place: (info.host, info.port) for info in change.added})
        self._nodes.update((info.place, info.node) for info in change.added)
        for place in (*change.removed, *change.died):
            transport.forget(place)
        for place in change.removed:
            # what it has sent uncounted may still be on its way
            transport.on_gone(place, partial(self._calls.forget, place))
        self._driver.on_members(change.epoch, [info.place for info in change.added])
        for info in change.added:
            if transport.is_lost(info.place):
                # when its loss was reported it was none of ours, and is not reported again
                why = "it was lost before it was a member"
                transport.call_soon(partial(self._driver.on_lost, info.place, why))
            elif self._survives:
                # one that dies before it has said a word is noticed, too
                with suppress(UnknownPeerError, TransportClosedError):  # it is being reported, or the program is over
                    transport.connect(info.place)

    def bury(self, place: int) -> None:
        """Take what a dead place has sent until its connection ends, or as long as that may last; then nothing more."""
        transport = self._driver.transport
        transport.on_gone(place, partial(self._cut_off, place))
        transport.call_later(CUT_OFF_S, partial(self._cut_off, place))
        for hear in self._driver.on_place_died:
            hear(self.place(place))

    def _cut_off(self, place: int) -> None:
        self._driver.change(lambda: self._driver.core.cut_off(place))
        self._calls.forget(place)

    def death(self, place: int, activities: int) -> DeadPlaceError:
        """What became of so many activities on a dead place."""
        epoch, node = self._driver.core.membership.dead[place]
        return DeadPlaceError(place, epoch, node, activities)
