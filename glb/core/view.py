"""The view of one place: the members of the computation, its own phase, and how it counts bags and questions."""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

from glb.bag import Bag, Result
from glb.core.effects import Give, Message, Request
from glb.core.lifelines import Graph
from glb.statistics import Statistics, tasks_in

if TYPE_CHECKING:
    from random import Random


class View:
    """The members as one place sees them. All that grows with their number is the sequence itself, which places share.

    It has their ids, sorted, and is never changed in place.
    """

    __slots__ = ("_at", "_graph", "me", "members")

    def __init__(self, me: int, members: Sequence[int], graph: Graph) -> None:
        self.me = me
        self._graph = graph
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
        return self._places(self._graph.forward)

    @property
    def thieves(self) -> tuple[int, ...]:
        """The places that ask this one for work; none for a place that leaves."""
        return self._places(self._graph.reverse)

    def _places(self, beside: Callable[[int, int], Sequence[int]]) -> tuple[int, ...]:
        members = self.members
        return () if self._at is None else tuple([members[at] for at in beside(self._at, len(members))])

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


# Phase: what a place is about ----------------------------------------------------------------------------------------
#
# | phase      | meaning                                  | left by                                              |
# |------------|------------------------------------------|------------------------------------------------------|
# | JOINING    | no worker yet; asks no place             | receive -> WORKING; begin -> STEALING                |
# | WAITING    | no worker; lifelines asked; silent       | receive -> WORKING                                   |
# | STEALING   | no worker; one random victim asked       | receive -> WORKING; refused (last try) -> WAITING    |
# | WORKING    | workers alive                            | last worker dry -> STEALING; evacuate -> EVACUATING  |
# | EVACUATING | workers hand out their bags as they stop | last worker and attendant stopped -> EVACUATED       |
# | EVACUATED  | no worker; passes on what still arrives  | readmit -> JOINING                                   |
# | ABORTED    | the computation failed; drops everything | -                                                    |
#
# ``evacuate`` takes an idle place to EVACUATED at once; ``abort`` takes every phase to ABORTED.


class Phase(enum.Enum):
    """The phase of a place; see the table above."""

    JOINING = enum.auto()
    WAITING = enum.auto()
    STEALING = enum.auto()
    WORKING = enum.auto()
    EVACUATING = enum.auto()
    EVACUATED = enum.auto()
    ABORTED = enum.auto()


# What a place counts of bags and questions: its statistics, from which place 0 makes the ledger ----------------------

R = TypeVar("R", bound=Result)


def count_given(
    statistics: Statistics, to: int, bag: Bag[R], nonce: int | None, why: Literal["random", "lifeline", "evacuation"]
) -> Give[R]:
    """Count a bag that place ``to`` gets, and return the effect that sends it."""
    tasks = tasks_in(bag)
    statistics.sent += 1
    statistics.tasks_sent += tasks
    statistics.steals_suffered += why == "random"
    statistics.lifeline_deals += why == "lifeline"
    statistics.evacuation_deals += why == "evacuation"
    return Give(to, bag, nonce, why, tasks)


def count_asked(statistics: Statistics, requests: list[Request]) -> list[Message]:
    """Count questions for work, and return them."""
    random = sum(request.nonce is not None for request in requests)
    statistics.steals_tried += random
    statistics.lifeline_requests += len(requests) - random
    return list(requests)
