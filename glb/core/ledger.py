"""Place 0's books: which bags and tasks were on the way, and whose result it has.

What it can know of a running computation is what the places count, each at another moment. So the counts are taken in
waves, one after the other: whatever a place had received in one wave had been sent by the next. A bag that arrives
twice is found at the next resize that follows; one that never arrives, at the end: until then it may be on its way.

| place   | meaning                              | left by            |
|---------|--------------------------------------|--------------------|
| absent  | takes no part; its result is here    | joined -> present  |
| present | works; its result is still to come   | reported -> absent |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from glb.errors import LedgerError
from glb.statistics import Statistics


class Count(NamedTuple):
    """Bags and tasks that crossed from place to place, at the sender and at the receiver."""

    sent: int = 0
    received: int = 0
    tasks_sent: int = 0
    tasks_received: int = 0

    @classmethod
    def of(cls, statistics: Statistics) -> Count:
        """Return those in ``statistics``."""
        return cls(statistics.sent, statistics.received, statistics.tasks_sent, statistics.tasks_received)

    def together(self, *others: Count) -> Count:
        """Return these and ``others``, added up."""
        return Count(*map(sum, zip(self, *others, strict=True)))


class Ledger:
    """The books of one computation."""

    def __init__(self) -> None:
        self._present: dict[int, Count] = {}
        self._settled = Count()
        self._before = Count()
        self._fresh: set[int] = set()

    def dealt(self, tasks: int) -> None:
        """Place 0 has sent one of the first bags."""
        self._settled = self._settled.together(Count(sent=1, tasks_sent=tasks))

    def joined(self, places: Iterable[int]) -> None:
        """These places take part from now on.

        Raises:
            LedgerError: One of them did before, and has not handed in its result.
        """
        for place in places:
            if place in self._present:
                raise LedgerError(f"place {place} joins, but its last result is still to come")
            self._present[place] = Count()
            self._fresh.add(place)

    def reported(self, places: Collection[int], statistics: Statistics) -> None:
        """These places have handed in their results, with ``statistics`` of all, and count from 0 if they join again.

        Raises:
            LedgerError: One of them had done so before.
        """
        once = set(places)
        strangers = sorted(once - self._present.keys())
        if strangers or len(once) < len(places):
            twice = strangers or [place for place, times in Counter(places).items() if times > 1]
            raise LedgerError(f"place {twice[0]} hands in a result, but it takes no part: it would count twice")
        for place in once:
            del self._present[place]
        self._settled = self._settled.together(Count.of(statistics))

    def wave(self, counts: Mapping[int, Statistics]) -> None:
        """Take what the present places say they have counted since they joined, and compare with the wave before.

        They are asked after the wave before. Some that have joined since then may be left out, for nothing that they
        sent had arrived by then.

        Raises:
            ValueError: A place is left out whose gifts the wave before may have counted.
            LedgerError: More bags or tasks had arrived by then than have been sent by now.
        """
        if left_out := self._present.keys() - counts.keys() - self._fresh:
            raise ValueError(f"a wave asks all places, {sorted(left_out)} too")
        self._fresh.difference_update(counts)
        for place, statistics in counts.items():
            if place in self._present:
                self._present[place] = Count.of(statistics)
        total = self._settled.together(*self._present.values())
        before = self._before
        for what, received, sent in (
            ("bags", before.received, total.sent),
            ("tasks", before.tasks_received, total.tasks_sent),
        ):
            if received > sent:
                raise LedgerError(f"{received} {what} were received from other places, but only {sent} were sent")
        self._before = total

    def close(self) -> None:
        """The computation is over.

        Raises:
            LedgerError: A result is missing, or a bag or task was lost or doubled between places.
        """
        if self._present:
            raise LedgerError(f"the results of places {sorted(self._present)} are missing")
        bags_sent, bags_received, tasks_sent, tasks_received = self._settled
        for what, sent, received in (("bags", bags_sent, bags_received), ("tasks", tasks_sent, tasks_received)):
            if sent != received:
                raise LedgerError(f"{sent} {what} were sent between places, but {received} were received")

    def missing(self, lost: Collection[int], done: Mapping[int, int]) -> str:
        """Say what went down with the places ``lost``, which had ``done`` tasks when they last reported."""
        parts = []
        for place in sorted(lost):
            count = self._present.get(place)
            if count is None:
                parts.append(f"place {place} had handed in its result")
                continue
            parts.append(
                f"place {place} had not handed in its result of at least {done.get(place, 0)} tasks, "
                f"and held bags: it had received {count.received} and sent {count.sent} when it was last counted"
            )
        return "lost: " + "; ".join(parts)
