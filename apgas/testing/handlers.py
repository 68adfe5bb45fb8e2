"""The plainest malleable handler, for tests of programs whose resizes need nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import apgas


class ReleaseNewest(apgas.MalleableHandler):
    """Releases the places with the highest ids, and has nothing to move; override what differs."""

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        """Choose the places with the highest ids."""
        return apgas.places()[-nb_places:]

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None:
        """Go on."""

    def preGrow(self, nb_places: int) -> None:
        """Be ready."""

    def postGrow(
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        """Go on."""
