"""Place 0's side of a simulated computation: orders, the books, and what becomes of it when a place dies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from glb.core.leavers import Load, deal
from glb.core.ledger import Ledger
from glb.core.phase import Phase
from glb.statistics import Statistics
from glb.testing.bags import Total
from glb.testing.events import Abort, Ask, Begin, Evacuate, Join, Members, Readmit, Wire, Workers

if TYPE_CHECKING:
    from glb.testing.simulation import Simulation


class _PlaceLostError(Exception):
    """A place that place 0 waits for has died."""


class Control:
    """Gives random orders, one after another, as the driver carries them out.

    Args:
        job: The places and what travels between them.
        members: The places at the start.
        workers: Workers per place at the start.
    """

    def __init__(self, job: Simulation, members: tuple[int, ...], workers: int) -> None:
        self.members = members
        self.workers = workers
        self.ledger = Ledger()
        self.ledger.joined(members)
        self.result = Total()
        self.statistics = Statistics()
        self.leaving: set[int] = set()
        self.called_back: set[int] = set()
        self.done: Counter[str] = Counter()
        self.idle = True
        self.aborted = False
        self._job = job
        self._rng = job.rng
        self._awaited: set[int] = set()
        self._answers: dict[int, tuple[Load, Statistics]] = {}
        self._next = len(members)
        self._orders = self._all_orders()

    def advance(self) -> bool:
        """Go on with the orders; False if there is nothing more to do."""
        return next(self._orders, self) is not self

    def answered(self, place: int, load: Load, counts: Statistics) -> None:
        """Place ``place`` has done what it was told."""
        self._awaited.discard(place)
        self._answers[place] = load, replace(counts)

    def notice_losses(self) -> None:
        """Give up if a member has died, as the driver does when progress is reported."""
        if not self.aborted and not self._job.lost.isdisjoint(self.members):
            self.abort()

    def abort(self) -> None:
        """Stop all workers."""
        self.aborted = True
        for place in self._job.cores:
            if place not in self._job.gone and place not in self._job.lost:
                self._job.send(0, place, Abort())

    def collect(self) -> str | None:
        """Take the results of all members; return what is missing if one of them has died."""
        lost = self._job.lost.intersection(self.members)
        if self.aborted or lost or self._job.loot_lost:
            return self.ledger.missing(self._job.lost, {})
        for place in self.members:
            self._take_report(place)
        self.ledger.close()
        return None

    # orders ---------------------------------------------------------------------------------------------------------

    def _all_orders(self) -> Iterator[None]:
        for _ in range(self._job.scenario.orders):
            yield None
            if self._job.over or self.aborted:
                return
            self.idle = False
            try:
                yield from self._order()
            except _PlaceLostError:
                self.abort()
            self.idle = True

    def _order(self) -> Iterator[None]:
        choice = self._rng.random()
        if choice < 0.25:
            yield from self._change_workers(self._rng.randint(1, 4))
        elif choice < 0.6 or len(self.members) == 1:
            yield from self._grow(self._rng.randint(1, 3))
        else:
            yield from self._shrink(self._rng.randint(1, min(4, len(self.members) - 1)))

    def _tell(self, places: Sequence[int], message: Wire) -> Iterator[None]:
        self._answers = {}
        self._awaited = set(places)
        for place in places:
            self._job.send(0, place, message)
        while self._awaited:
            yield None
            if not self._job.lost.isdisjoint(self._awaited):
                raise _PlaceLostError

    def _wave(self) -> None:
        self.ledger.wave({place: counts for place, (_, counts) in self._answers.items()})

    def _change_workers(self, count: int) -> Iterator[None]:
        self.workers = count
        yield from self._tell(self.members, Workers(count))
        self.done["workers"] += 1

    def _grow(self, count: int) -> Iterator[None]:
        old = self.members
        new = tuple(range(self._next, self._next + count))
        self._next += count
        self.members = old + new
        yield from self._tell(new, Join(self.members, old, self.workers))
        self.ledger.joined(new)
        for place in new:
            self._job.send(0, place, Begin())
        yield from self._tell(old, Members(self.members))
        self._wave()
        self.done["grow"] += 1

    def _shrink(self, count: int) -> Iterator[None]:
        before = self.members
        leavers = tuple(self._rng.sample(before[1:], count))
        self.members = survivors = tuple(place for place in before if place not in leavers)
        yield from self._tell(before, Ask())
        self._wave()
        loads = {place: load for place, (load, _) in self._answers.items()}
        turns = deal([loads[place] for place in leavers], [loads[place] for place in survivors])
        yield from self._tell(survivors, Members(survivors))
        for place in leavers:
            self._job.send(0, place, Evacuate(survivors, tuple(turns[place])))
        while not all(self._is_evacuated(place) for place in leavers):
            yield None
        reports = {place: replace(self._job.cores[place].statistics) for place in leavers}
        self.ledger.wave({place: counts for place, (_, counts) in self._answers.items()} | reports)
        for place in leavers:
            self._take_report(place)
        self.leaving = set(leavers)
        yield None
        if self._rng.random() < 0.3:
            yield from self._call_back(before, leavers)
            return
        while any(self._drains(place) for place in leavers):
            yield None
        self.leaving = set()
        self._job.gone |= set(leavers) - self._job.lost
        self.done["shrink"] += 1

    def _call_back(self, members: tuple[int, ...], leavers: Sequence[int]) -> Iterator[None]:
        self.leaving = set()
        self.called_back.update(leavers)
        self.members = members
        if not self._job.lost.isdisjoint(leavers):
            raise _PlaceLostError
        yield from self._tell(leavers, Readmit(members))
        self.ledger.joined(leavers)
        yield from self._tell(members, Members(members))
        self._wave()
        for place in leavers:
            self._job.send(0, place, Begin())
        self.done["call back"] += 1

    def _is_evacuated(self, place: int) -> bool:
        if place in self._job.lost:
            raise _PlaceLostError
        if self.aborted:
            raise _PlaceLostError
        return self._job.cores[place].phase is Phase.EVACUATED and not self._job.works(place)

    def _drains(self, place: int) -> bool:
        if place in self._job.lost:
            return False
        return self._job.works(place) or self._job.network.bags_to(place)

    def _take_report(self, place: int) -> None:
        core = self._job.cores[place]
        self.result.merge(core.take_result())
        statistics, core.statistics = core.statistics, Statistics()
        self.ledger.reported(place, statistics)
        self.statistics.merge(statistics)
