"""Whom a place knows: the members of the computation, which it does not copy."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from glb.core.lifelines import Lifelines

if TYPE_CHECKING:
    from random import Random


class View:
    """The members as one place sees them. All that grows with their number is the sequence itself, which places share.

    Args:
        me: Id of the place.
        members: Sorted ids; never changed by anybody.
        lifelines: The lifeline graph.
    """

    __slots__ = ("_at", "_lifelines", "me", "members")

    def __init__(self, me: int, members: Sequence[int], lifelines: Lifelines) -> None:
        self.me = me
        self._lifelines = lifelines
        self.change(members)

    def change(self, members: Sequence[int]) -> None:
        """Know ``members`` from now on; a place that leaves is not among them."""
        self.members = members
        at = bisect_left(members, self.me)
        self._at = at if at < len(members) and members[at] == self.me else None

    def __contains__(self, place: object) -> bool:
        return _contains(self.members, place)

    @property
    def buddies(self) -> tuple[int, ...]:
        """The places that this one asks for work; none for a place that leaves."""
        return () if self._at is None else self._lifelines.buddies(self.me, self.members)

    @property
    def thieves(self) -> tuple[int, ...]:
        """The places that ask this one for work; none for a place that leaves."""
        return () if self._at is None else self._lifelines.thieves(self.me, self.members)

    def newcomers(self, before: Sequence[int]) -> Iterator[int]:
        """Yield those that ask this place for work and were not among the members ``before``."""
        return (place for place in self.thieves if not _contains(before, place))

    def others(self, count: int, rng: Random) -> list[int]:
        """Return at most ``count`` other members at random, without looking at all of them."""
        among = len(self.members) - (self._at is not None)
        picks = rng.sample(range(among), min(count, among))
        return [self.members[pick + (self._at is not None and pick >= self._at)] for pick in picks]


def _contains(members: Sequence[int], place: object) -> bool:
    if not isinstance(place, int):
        return False
    at = bisect_left(members, place)
    return at < len(members) and members[at] == place
