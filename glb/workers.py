"""How many workers there are to be on each place."""

from __future__ import annotations

from collections.abc import Iterable

import apgas


class Workers:
    """The number of workers of each place of a computation.

    Args:
        usual: Workers of a place for which nothing else was said.
    """

    def __init__(self, usual: int) -> None:
        self.usual = usual
        self._own: dict[int, int] = {}

    def of(self, place: apgas.Place) -> int:
        """Return the workers of ``place``."""
        return self._own.get(place.id, self.usual)

    def total(self, places: Iterable[apgas.Place]) -> int:
        """Return the workers of ``places`` together."""
        return sum(map(self.of, places))

    def set(self, count: int, places: Iterable[apgas.Place] | None) -> None:
        """Let ``count`` be the number for ``places``; None: for all, and for those that join later."""
        if places is None:
            self.usual = count
            self._own.clear()
        else:
            self._own |= {place.id: count for place in places}
