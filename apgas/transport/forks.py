"""Forked children let go of the loops of their parent."""

from __future__ import annotations

import os
import weakref
from typing import Final, Protocol


class Loop(Protocol):
    """What a child must not go on with."""

    def abandon(self) -> None:
        """(child) Let go of it, without a lock, for another thread of the parent may have held it."""


loops: Final[weakref.WeakSet[Loop]] = weakref.WeakSet()
"""Those of this process."""


def _abandon_all() -> None:
    for loop in loops:
        loop.abandon()
    loops.clear()


os.register_at_fork(after_in_child=_abandon_all)
