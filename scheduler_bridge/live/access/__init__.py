"""Who may come in and do what: doors for users beyond the scheduler's own, and what they may ask for there."""

from scheduler_bridge.live.access.callers import Caller, NotPermittedError, Standing, permitted
from scheduler_bridge.live.access.doors import Door, Keeper
from scheduler_bridge.live.access.tokens import Holder, Tokens

__all__ = ["Caller", "Door", "Holder", "Keeper", "NotPermittedError", "Standing", "Tokens", "permitted"]
