"""The thieves that a place knows of."""

from __future__ import annotations

from collections.abc import Collection, Container


class Thieves:
    """Random thieves, who wait for an answer, and lifeline thieves, who wait for work.

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

    @property
    def lifeline(self) -> tuple[int, ...]:
        """The lifeline thieves, longest waiting first."""
        return tuple(self._lifeline)

    @property
    def random(self) -> dict[int, int]:
        """The nonces of the random thieves, longest waiting first."""
        return {thief: nonce for thief, (nonce, _) in self._random.items()}

    def knows(self, thief: int, nonce: int | None) -> bool:
        """Return whether this question waits for an answer, or with None the thief for work."""
        return thief in self._lifeline if nonce is None else self._random.get(thief, (0,))[0] == nonce

    def add_random(self, thief: int, nonce: int, chances: int) -> None:
        """Register a random thief, to be refused after ``chances`` workers could not give."""
        if self._random.get(thief, (0,))[0] < nonce:
            self._random[thief] = [nonce, chances]

    def add_lifeline(self, thief: int) -> None:
        """Register a lifeline thief."""
        self._lifeline[thief] = None

    def first(self) -> tuple[int, int | None] | None:
        """Return who is to be served next and the nonce of a random steal, or None."""
        for thief, (nonce, _) in self._random.items():
            return thief, nonce
        for thief in self._lifeline:
            return thief, None
        return None

    def served(self, thief: int, nonce: int | None) -> None:
        """Forget the request that was served; a thief with loot needs no second one from here."""
        if nonce is not None:
            del self._random[thief]
        self._lifeline.pop(thief, None)

    def disappoint(self) -> list[tuple[int, int]]:
        """Count one worker that could not give; return those whose chances are used up, and forget them."""
        for entry in self._random.values():
            entry[1] -= 1
        return self._forget([thief for thief, (_, chances) in self._random.items() if chances <= 0])

    def refuse_all(self) -> list[tuple[int, int]]:
        """Forget all random thieves and return them with their nonces."""
        return self._forget(list(self._random))

    def keep(self, members: Container[int]) -> None:
        """Forget everyone who is not among ``members``: they leave, and need no answer."""
        self._random = {thief: entry for thief, entry in self._random.items() if thief in members}
        self._lifeline = {thief: None for thief in self._lifeline if thief in members}

    def discard(self, thief: int) -> None:
        """Forget ``thief``: it is gone."""
        self._random.pop(thief, None)
        self._lifeline.pop(thief, None)

    def _forget(self, thieves: list[int]) -> list[tuple[int, int]]:
        return [(thief, self._random.pop(thief)[0]) for thief in thieves]
