"""The membership of a job as one place knows it: members, epoch, places about to leave, and dead ones.

Place 0 alone changes the membership; the others follow its news, in their order (``core.relay``). Ids are never reused.
"""

from __future__ import annotations

from collections.abc import Iterable

from apgas.core.messages import PlaceInfo
from apgas.errors import DeadPlaceError, InvariantError, PlaceGoneError


class Membership:
    """The members of one epoch."""

    def __init__(self, members: Iterable[PlaceInfo], epoch: int) -> None:
        self.members: dict[int, PlaceInfo] = {info.place: info for info in members}
        self.epoch = epoch
        self.leaving: set[int] = set()
        self.dead: dict[int, tuple[int, str]] = {}
        """Those that died, with the epoch that began without them and their node; empty unless the job is resilient."""
        self.next_place = self._unreserved = max(self.members) + 1
        self._staying_ids: list[int] | None = None

    @property
    def staying(self) -> list[PlaceInfo]:
        """The members that are not about to leave, by id."""
        return [info for place, info in sorted(self.members.items()) if place not in self.leaving]

    @property
    def staying_ids(self) -> list[int]:
        """Their ids, ascending; not to be changed."""
        if self._staying_ids is None:
            self._staying_ids = sorted(self.members.keys() - self.leaving)
        return self._staying_ids

    def require(self, place: int) -> None:
        """Check that new work may be sent to ``place``.

        Raises:
            PlaceGoneError: It is leaving, has left, or never was; a ``DeadPlaceError`` if it died.
        """
        if place in self.leaving:
            raise PlaceGoneError(place, self.epoch, "is leaving")
        if place not in self.members:
            if place in self.dead:
                raise DeadPlaceError(place, *self.dead[place])
            why = "has left" if 0 <= place < self.next_place else f"does not exist; there are {self._spoken()}"
            raise PlaceGoneError(place, self.epoch, why)

    def _spoken(self) -> str:
        """The ids of the members for people, with those in a row as ``0 to 3``."""
        rows: list[list[int]] = []
        for place in sorted(self.members):
            if rows and place == rows[-1][-1] + 1:
                rows[-1][1:] = [place]
            else:
                rows.append([place])
        return ", ".join(" to ".join(map(str, row)) for row in rows)

    def new_ids(self, count: int) -> range:
        """(place 0) Give ids to ``count`` newcomers, for good: one that comes too late to join had one, too."""
        ids = range(self._unreserved, self._unreserved + count)
        self._unreserved += count
        return ids

    def commit(self, epoch: int, added: Iterable[PlaceInfo], removed: Iterable[int], died: Iterable[int] = ()) -> None:
        """Enter ``epoch``.

        Raises:
            InvariantError: The change does not follow on this epoch.
        """
        if epoch != self.epoch + 1:
            raise InvariantError(f"epoch {epoch} cannot follow on {self.epoch}")
        self._staying_ids = None
        for place in removed:
            if place not in self.leaving:
                raise InvariantError(f"place {place} is removed in epoch {epoch} and was not leaving")
            self.leaving.discard(place)
            del self.members[place]
        for place in died:
            if place == 0 or place not in self.members:
                raise InvariantError(f"place {place} died in epoch {epoch} and was no member that may die")
            self.leaving.discard(place)
            self.dead[place] = (epoch, self.members.pop(place).node)
        for info in added:
            if info.place < self.next_place:
                raise InvariantError(f"place id {info.place} is used twice (epoch {epoch})")
            self.members[info.place] = info
            self.next_place = max(self.next_place, info.place + 1)
        self.epoch = epoch

    def prepare_leave(self, leavers: Iterable[int]) -> None:
        """Mark members as leaving.

        Raises:
            InvariantError: One of them is place 0 or no member.
        """
        leavers = set(leavers)
        if 0 in leavers or not leavers <= self.members.keys():
            raise InvariantError(f"places {sorted(leavers)} cannot leave {sorted(self.members)}")
        self.leaving |= leavers
        self._staying_ids = None

    def abort_leave(self) -> None:
        """The leavers stay after all."""
        self.leaving.clear()
        self._staying_ids = None


# Leaving -------------------------------------------------------------------------------------------------------------
#
# A place leaves in these steps (``order`` numbers the shrink):
#
#     place 0        Leave ------> everyone (leavers too)
#     every member   marks the leavers, sends Final to each of them; spawns nothing there from now on
#     leaver         has every Final, runs nothing, opened no finish, waits for no call  -> Drained to place 0
#     place 0        has every Drained -> commit: Members(removed) to those who stay, Release to the leavers
#                    or, at the deadline -> StayOn to everyone: nothing has happened
#
# Connections keep the order of messages, so a Final is behind every spawn that its sender made. Replies and reports
# still travel to a leaver after the Final: it waits for those it needs. Activities that no finish counts
# (``uncounted``) are behind no Final either, so a leaver runs all that were sent to it before it reports Drained.


class Leaving:
    """The part of a place that leaves.

    Attributes:
        order: The shrink under which this place is to leave; None: it stays.
        awaited: The members that may still send to it, then.
        drained: Whether it has nothing left to do, and has said so.
    """

    def __init__(self) -> None:
        self.order: int | None = None
        self.awaited: set[int] = set()
        self.drained = False
        self._early: set[tuple[int, int]] = set()

    def begin(self, order: int, senders: set[int]) -> None:
        """Shrink ``order`` takes this place away, once all ``senders`` have said that they send nothing more."""
        self.order = order
        self.awaited = senders - {src for src, early in self._early if early == order}

    def final(self, src: int, order: int) -> None:
        """Place ``src`` sends nothing more, under shrink ``order``, of which it may have heard before this place."""
        if order == self.order:
            self.awaited.discard(src)
        else:
            self._early.add((src, order))

    def stay(self, order: int) -> bool:
        """Shrink ``order`` is given up; returns whether it was to take this place away."""
        self._early = {final for final in self._early if final[1] != order}
        if self.order != order:
            return False
        self.order = None
        self.drained = False
        return True

    def entered(self) -> None:
        """A new epoch has begun: every shrink before it is over."""
        self._early.clear()

    def drains(self, *, idle: bool) -> bool:
        """Report, once, that this place leaves and nothing keeps it: ``idle``, and everyone has sent the last."""
        if self.order is None or self.drained or self.awaited or not idle:
            return False
        self.drained = True
        return True
