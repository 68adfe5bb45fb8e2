"""What each place did: the numbers behind the balance, and the ledger that proves that nothing was lost."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields


@dataclass(slots=True)
class Statistics:
    """Counts of one place, or of several merged.

    Attributes:
        steals_tried: Random victims asked.
        steals_won: Random victims that gave.
        steals_suffered: Bags given to random thieves.
        lifeline_requests: Lifeline buddies asked.
        lifeline_deals: Bags given to lifeline thieves.
        evacuation_deals: Bags given away because the place was to leave.
        sent: Bags given to other places (ledger).
        received: Bags taken from other places (ledger).
        tasks_sent: Tasks in the bags given, where bags have a length (ledger).
        tasks_received: Tasks in the bags taken, where bags have a length (ledger).
        bytes_sent: Bytes of the bags given.
        tasks: Tasks processed.
        busy_s: Worker-seconds spent processing, pauses of a limited rate included.
        balancing_s: Worker-seconds with a bag but not processing: giving work away, starting siblings.
        stealing_s: Worker-seconds without a bag while the place waited for the answer of a random victim.
        starving_s: Worker-seconds without a bag otherwise: nobody had anything to give.
        worst_lag_s: Longest time that a worker of limited rate was behind its schedule.
        given_up_s: Worker-seconds that workers of limited rate were behind for good: too far to catch up.
    """

    steals_tried: int = 0
    steals_won: int = 0
    steals_suffered: int = 0
    lifeline_requests: int = 0
    lifeline_deals: int = 0
    evacuation_deals: int = 0
    sent: int = 0
    received: int = 0
    tasks_sent: int = 0
    tasks_received: int = 0
    bytes_sent: int = 0
    tasks: int = 0
    busy_s: float = 0.0
    balancing_s: float = 0.0
    stealing_s: float = 0.0
    starving_s: float = 0.0
    worst_lag_s: float = 0.0
    given_up_s: float = 0.0

    def merge(self, other: Statistics) -> None:
        """Add ``other``'s counts; of the worst lags the worse one stays."""
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            setattr(self, field.name, max(mine, theirs) if field.name == "worst_lag_s" else mine + theirs)

    def as_dict(self) -> dict[str, int | float]:
        """Return the counts by name, for JSON."""
        return asdict(self)


def size_of(bag: object) -> tuple[int, int]:
    """Return the number of tasks that ``bag`` holds and its bytes, each 0 if it does not tell."""
    return tasks_in(bag), int(getattr(bag, "nbytes", 0))


def tasks_in(bag: object) -> int:
    """Return the number of tasks that ``bag`` holds, or 0 if it has no length."""
    length = getattr(type(bag), "__len__", None)
    return 0 if length is None else int(length(bag))
