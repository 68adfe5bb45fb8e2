"""Stealing, from both sides: a place without work looks for some, and a place with work serves those it knows of.

| state   | meaning                                  | left by                                                       |
|---------|------------------------------------------|---------------------------------------------------------------|
| RESTING | there is work, or it is too early        | search -> ASKING, or WAITING with no place to ask at random     |
| ASKING  | one random victim owes an answer         | refused, or its victim leaves -> ASKING or WAITING; rest      |
| WAITING | all lifeline buddies know of this place  | rest -> RESTING                                               |

One question is open at most, known by its nonce; the answer to an older one changes nothing. A refusal costs a message
each way, hence only a few random victims; a lifeline buddy never refuses, it sends work once it has some to spare.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Container, Sequence
from typing import TYPE_CHECKING, TypeVar

from glb.bag import Bag, Result
from glb.core.effects import Message, Refuse, Request
from glb.core.pool import Pool
from glb.core.view import View

if TYPE_CHECKING:
    from random import Random


class Search(enum.Enum):
    """The state of a place that looks for work; see the table of the module."""

    RESTING = enum.auto()
    ASKING = enum.auto()
    WAITING = enum.auto()


class Thief:
    """Looks for work. ``registered``: whether the buddies know from the start that this place waits."""

    __slots__ = ("_nonce", "_random_steals", "_rng", "_untried", "_view", "asked", "state")

    def __init__(self, view: View, random_steals: int, rng: Random, *, registered: bool) -> None:
        self.state = Search.WAITING if registered else Search.RESTING
        self.asked: Request | None = None
        self._view = view
        self._random_steals = random_steals
        self._rng = rng
        self._untried: list[int] = []
        self._nonce = 0

    def search(self) -> list[Request]:
        """Begin to look for work."""
        self._untried = self._view.others(self._random_steals, self._rng)
        return self._ask_next()

    def rest(self) -> None:
        """Stop looking: there is work, or this place leaves."""
        self.state = Search.RESTING
        self.asked = None
        self._untried = []

    def refused(self, nonce: int) -> list[Request]:
        """Take the refusal of a random victim."""
        if self.asked is None or self.asked.nonce != nonce:
            return []
        return self._ask_next()

    def rewired(self) -> list[Request]:
        """Ask elsewhere what was asked of places that leave; register at the new buddies."""
        if self.state is Search.WAITING:
            return self.register()
        if self.state is Search.ASKING and (self.asked is None or self.asked.to not in self._view):
            return self._ask_next()
        return []

    def _ask_next(self) -> list[Request]:
        self.asked = None
        while self._untried:
            victim = self._untried.pop()
            if victim in self._view:
                self._nonce += 1
                self.state = Search.ASKING
                self.asked = Request(victim, self._nonce)
                return [self.asked]
        self.state = Search.WAITING
        return self.register()

    def register(self) -> list[Request]:
        """Let the buddies know that this place has no work, also if it has not begun to look for some."""
        return [Request(buddy, None) for buddy in self._view.buddies]


# How a place with work serves thieves --------------------------------------------------------------------------------
#
# | thief    | becomes known by          | forgotten by                                                                |
# |----------|---------------------------|-----------------------------------------------------------------------------|
# | random   | its question              | serve: loot, or a refusal once every worker has had nothing; no worker left |
# | lifeline | its question, or by being | serve: loot; a failed gift; leaving                                         |
# |          | a buddy's new member      |                                                                             |
#
# Every thief that is known when a worker with something to split looks is served in that look: a thief waits for a
# victim with splittable work no longer than the call of ``process`` that is under way. Work that was set out before a
# long call is given by the attendant, which waits for no call.

R = TypeVar("R", bound=Result)


class Thieves:
    """The thieves that a place knows of: random ones, who wait for an answer, and lifeline ones, who wait for work.

    A random thief is refused after as many workers as were alive when it asked have had nothing to give, so it waits
    for about one call of ``process``. A place is registered at most once of each kind. Of two random steals of a thief
    the newer counts, by nonce, because the older one may arrive later.
    """

    __slots__ = ("_lifeline", "_random")

    def __init__(self, lifeline: Collection[int] = ()) -> None:
        self._random: dict[int, list[int]] = {}
        self._lifeline: dict[int, None] = dict.fromkeys(lifeline)

    def __bool__(self) -> bool:
        return bool(self._random or self._lifeline)

    def add_random(self, thief: int, nonce: int, chances: int) -> None:
        """Register a random thief, to be refused after ``chances`` workers could not give."""
        if self._random.get(thief, (0,))[0] < nonce:
            self._random[thief] = [nonce, chances]

    def add_lifeline(self, thief: int) -> None:
        """Register a lifeline thief."""
        self._lifeline[thief] = None

    def serve(
        self, pool: Pool[R], bag: Bag[R] | None
    ) -> tuple[list[tuple[int, int | None, Bag[R]]], Sequence[Message]]:
        """Let a worker with ``bag`` serve all thieves, or with None the attendant from what is set out in ``pool``.

        Returns:
            (thief, nonce, loot) of each gift, and the refusals.
        """
        gifts: list[tuple[int, int | None, Bag[R]]] = []
        while self:
            loot = pool.loot() if bag is None else pool.cut(bag)
            if loot is None:
                # thieves count the workers that had nothing, and the attendant is none
                return gifts, [] if bag is None else self.disappoint()
            gifts.append((*self._next(), loot))
        return gifts, []

    def _next(self) -> tuple[int, int | None]:
        """Forget who is to be served next, and return it with the nonce of a random steal."""
        thief = next(iter(self._random or self._lifeline))
        nonce, _ = self._random.get(thief, (None, 0))
        self.discard(thief)  # with loot it needs no second answer from here
        return thief, nonce

    def disappoint(self) -> list[Message]:
        """Count one worker that could not give; refuse those whose chances are used up, and forget them."""
        for entry in self._random.values():
            entry[1] -= 1
        return self._refuse([thief for thief, (_, chances) in self._random.items() if chances <= 0])

    def refuse_all(self) -> list[Message]:
        """Refuse all random thieves, and forget them: there is no worker left to ask, or none that may give."""
        return self._refuse(list(self._random))

    def keep(self, members: Container[int]) -> None:
        """Forget everyone who is not among ``members``: they leave, and need no answer."""
        self._random = {thief: entry for thief, entry in self._random.items() if thief in members}
        self._lifeline = {thief: None for thief in self._lifeline if thief in members}

    def discard(self, thief: int) -> None:
        """Forget ``thief``: it is gone."""
        self._random.pop(thief, None)
        self._lifeline.pop(thief, None)

    def _refuse(self, thieves: list[int]) -> list[Message]:
        return [Refuse(thief, self._random.pop(thief)[0]) for thief in thieves]
