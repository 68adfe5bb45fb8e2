"""Resizes that take longer than they do, as on a system where processes start and end more slowly."""

from __future__ import annotations

import time
from collections.abc import Sequence

import apgas


class SlowResizes(apgas.MalleableHandler):
    """Adds seconds to every resize, in which the computation goes on.

    Before a grow it does at its old size; after a shrink without the leavers, whose nodes are still held.

    Args:
        grow_s: Added to a grow.
        shrink_s: Added to a shrink.
    """

    def __init__(self, grow_s: float, shrink_s: float) -> None:
        self._grow_s = grow_s
        self._shrink_s = shrink_s

    def preGrow(self, nb_places: int) -> None:  # noqa: ARG002 - however many
        """Keep the newcomers waiting."""
        time.sleep(self._grow_s)

    def postGrow(
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        """They are here."""

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:  # noqa: ARG002 - the balancer chooses
        """Leave the choice to the balancer."""
        return []

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None:  # noqa: ARG002 - whoever it was
        """Keep the nodes of the leavers, as if their processes still ended."""
        time.sleep(self._shrink_s)
