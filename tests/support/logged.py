"""Rows of the log whose effects are known."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_bridge.core.events import Effect
from scheduler_bridge.daemon.storage.log_entries import Entry, Row, draft


def encode(entry: Entry, effects: Sequence[Effect]) -> Row:
    """An entry and what it led to as the log keeps them."""
    return draft(entry).with_effects(effects)
