"""Whether a place is about to leave, and who may still send to it.

How a place leaves (``order`` numbers the shrink):

    place 0        Leave ------> everyone (leavers too)
    every member   marks the leavers, sends Final to each of them; spawns nothing there from now on
    leaver         has every Final, runs nothing, opened no finish, waits for no call  -> Drained to place 0
    place 0        has every Drained -> commit: Members(removed) to those who stay, Release to the leavers
                   or, at the deadline -> StayOn to everyone: nothing has happened

Connections keep the order of messages, so a Final is behind every spawn that its sender made. Replies and reports still
travel to a leaver after the Final: it waits for those it needs. Activities that no finish counts (``uncounted``) are
behind no Final either, so a leaver runs all that were sent to it before it reports Drained.
"""

from __future__ import annotations

from apgas.errors import InvariantError


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

    def cut_off(self, src: int) -> None:
        """Nothing more of ``src`` will be taken."""
        self.awaited.discard(src)

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
        """Tell, once, that this place leaves and nothing keeps it: ``idle``, and everyone has sent the last."""
        if self.order is None or self.drained or self.awaited or not idle:
            return False
        self.drained = True
        return True

    def validate(self, here: int, *, leaves: bool | None) -> None:
        """Check the whole state; ``leaves``: whether the members say that place ``here`` is to leave, if they still do.

        Raises:
            InvariantError: It contradicts itself, or them.
        """
        if leaves is not None and leaves != (self.order is not None):
            raise InvariantError(f"place {here} is {'' if leaves else 'not '}leaving under order {self.order}")
        # it may run something again, from a place that has heard sooner that the shrink was aborted
        if self.drained and (self.order is None or self.awaited):
            raise InvariantError(f"place {here} is drained: order {self.order}, finals {self.awaited}")
