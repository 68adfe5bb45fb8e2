"""How much a peer may say: so many messages at once, and so many a second on average."""

from __future__ import annotations


class Allowance:
    """What is left for one peer.

    Args:
        burst: Messages at once.
        per_s: Messages a second in the long run.
        now: Seconds on the clock of every later ``now``.
    """

    def __init__(self, burst: int, per_s: float, now: float) -> None:
        self._burst = float(burst)
        self._per_s = per_s
        self._left = float(burst)
        self._at_s = now

    def take(self, now: float) -> bool:
        """Take one message in; say whether it was allowed."""
        elapsed_s = max(0.0, now - self._at_s)
        self._at_s = max(now, self._at_s)
        self._left = min(self._burst, self._left + elapsed_s * self._per_s) - 1.0
        return self._left >= 0.0
