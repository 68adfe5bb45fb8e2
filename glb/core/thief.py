"""A place without work looks for some: random victims first, then its lifeline buddies.

| state   | meaning                                  | left by                                                       |
|---------|------------------------------------------|---------------------------------------------------------------|
| RESTING | there is work, or it is too early        | search -> ASKING, or WAITING with nobody to ask at random     |
| ASKING  | one random victim owes an answer         | refused, or its victim leaves -> ASKING or WAITING; rest      |
| WAITING | all lifeline buddies know of this place  | rest -> RESTING                                               |

One question is open at most, known by its nonce; the answer to an older one changes nothing. A refusal costs a message
each way, hence only a few random victims; a lifeline buddy never refuses, it sends work once it has some to spare.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from glb.core.effects import Request
from glb.core.view import View

if TYPE_CHECKING:
    from random import Random


class Search(enum.Enum):
    """See the table of the module."""

    RESTING = enum.auto()
    ASKING = enum.auto()
    WAITING = enum.auto()


class Thief:
    """Looks for work.

    Args:
        view: Whom the place knows.
        random_steals: Random victims asked before the lifelines.
        rng: Source of random victims.
        registered: Whether the buddies know from the start that this place waits.
    """

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
            return self._ask_buddies()
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
        return self._ask_buddies()

    def register(self) -> list[Request]:
        """Let the buddies know of a place that has not begun to look for work."""
        return self._ask_buddies()

    def _ask_buddies(self) -> list[Request]:
        return [Request(buddy, None) for buddy in self._view.buddies]
