"""What was measured, beside the goals."""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler_bridge.live.load.events import Kind
from scheduler_bridge.live.load.figures import Figures, Spread

QUEUED, CONNECTED, EVENTS_PER_S, DECISION_P99_S = 10_000, 1_000, 5_000.0, 0.050
_ENOUGH: Final = 0.99
"""The rate is a mean over a time that ends in the middle of an event."""


class Goal(msgspec.Struct, frozen=True):
    """One goal and what was reached."""

    what: str
    goal: str
    reached: str
    met: bool


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one measurement.

    Attributes:
        queued: Jobs that waited at its beginning; none of them can start meanwhile.
        connected: Malleable jobs that were connected and ready then.
        nodes: Nodes of the cluster.
        policy: The policy.
        offered_per_s: Events a second that there were to be.
        events: Those that the daemon took in, by kind.
        decisions_per_s: Decisions a second, each one row of the log.
        submits_per_s: Jobs a second that the daemon took while the queue was filled.
        resizes_per_s: Answered orders a second.
        daemon: The daemon's process.
        answer: Seconds between a job's request for nodes and the answer, which waits for the log.
        queue: Seconds of one ``malleable queue`` without its printing, asked for once a second.
        cores: Cores of the machine.
        busy_before: Mean number of processes that ran or waited for a core in the minute before (all of the machine).
    """

    queued: int
    connected: int
    nodes: int
    policy: str
    offered_per_s: float
    events: list[Kind]
    decisions_per_s: float
    submits_per_s: float
    resizes_per_s: float
    daemon: Figures
    answer: Spread
    queue: Spread
    cores: int
    busy_before: float

    def per_s(self, *, handled: bool = False) -> float:
        """Events a second: all of them, or those that the core handled."""
        return sum(kind.count for kind in self.events if kind.handled or not handled) / self.daemon.wall_s

    def goals(self) -> list[Goal]:
        """Return the goals that there are for a scheduler of this kind."""
        p99_s = self.daemon.decision.p99_s
        return [
            Goal("queued jobs", f"{QUEUED:,}", f"{self.queued:,}", self.queued >= QUEUED),
            Goal("connected malleable jobs", f"{CONNECTED:,}", f"{self.connected:,}", self.connected >= CONNECTED),
            Goal(
                "events a second", f"{EVENTS_PER_S:,.0f}", f"{self.per_s():,.0f}",
                self.per_s() >= _ENOUGH * EVENTS_PER_S,
            ),
            Goal(
                "99 % of decisions take", f"< {DECISION_P99_S * 1e3:.0f} ms", f"{p99_s * 1e3:.2f} ms",
                p99_s < DECISION_P99_S,
            ),
        ]  # fmt: skip
