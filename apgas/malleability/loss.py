"""What a job does when its scheduler is gone: end, or try for a while to come back."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Final

import msgspec

from apgas.errors import UsageError

ENV_ON_LOSS: Final = "APGAS_ON_SCHEDULER_LOSS"

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


class OnLoss(msgspec.Struct, frozen=True):
    """Keep trying to reconnect for ``reconnect_s`` seconds; 0: end at once."""

    reconnect_s: float = 0.0

    @classmethod
    def parse(cls, text: str, *, name: str = "on_loss") -> OnLoss:
        """Read ``end`` or ``reconnect:SECONDS``.

        Args:
            text: What to read.
            name: Where it stands, for the error.

        Raises:
            UsageError: ``text`` is neither.
        """
        action, _, seconds = text.strip().partition(":")
        if action == "end" and not seconds:
            return cls()
        if action == "reconnect":
            try:
                value = float(seconds)
            except ValueError:
                value = math.nan
            if 0 < value < math.inf:
                return cls(value)
        raise UsageError(f"{name} is {text!r}; it is to be 'end' or 'reconnect:SECONDS', for example 'reconnect:30'")

    def pauses(self) -> Iterator[float]:
        """Yield the seconds to wait before each attempt: doubling, bounded, spread so that jobs do not come at once."""
        pause_s = _FIRST_PAUSE_S
        while True:
            yield pause_s * random.uniform(0.5, 1.0)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
