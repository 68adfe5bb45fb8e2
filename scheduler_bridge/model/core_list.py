"""Sets of core ids as text."""

from __future__ import annotations

from apgas.malleability import core_ids as words
from scheduler_bridge.model.allotment import members


def listed(core_ids: int) -> str:
    """Write a bitset of ids as a list, as jobs are told it: ``0-3,8``."""
    return words.listed(members(core_ids))
