"""Random activities for simulations: they spawn, call, nest finishes, fail, and end; every one is accounted for."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from apgas.core.messages import FinishId, Spawn


@dataclass(slots=True)
class Activity:
    """One activity and what it still has to do.

    Attributes:
        number: Unique in the simulation.
        place: Where it runs.
        finish: The finish that it belongs to; None if no finish counts it.
        caller: The place that sent it, and how; None if it was started locally.
        steps: How many more things it does before it ends.
        scopes: The nested finishes that it has open, innermost last.
        blocked_on: A finish or call that it waits for.
        begun: Whether it has started to run; until then it waits for its turn.
    """

    number: int
    place: int
    finish: FinishId | None
    caller: tuple[int, Spawn] | None
    steps: int
    scopes: list[FinishId] = field(default_factory=list)
    blocked_on: FinishId | int | None = None
    begun: bool = False


@dataclass(slots=True)
class Ledger:
    """What is true, seen from outside: which activities live under which finish, and what has fired."""

    alive: dict[FinishId, set[int]] = field(default_factory=dict)
    fired: set[FinishId] = field(default_factory=set)
    started: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)
    failed: dict[FinishId, int] = field(default_factory=dict)
    outer: dict[FinishId, FinishId | None] = field(default_factory=dict)
    cancelled: set[FinishId] = field(default_factory=set)
    heard: set[tuple[int, FinishId]] = field(default_factory=set)
    dropped: set[int] = field(default_factory=set)
    routes: dict[int, tuple[FinishId | None, int, int, int]] = field(default_factory=dict)
    """Of each activity: its finish, who sent it where, and the activity that spawned it."""
    spawned: int = 0

    def opened(self, finish: FinishId, outer: FinishId | None) -> None:
        """A finish began, in an activity of ``outer``; its body lives as activity -1."""
        assert finish not in self.alive, f"{finish} was opened twice"
        self.outer[finish] = outer
        self.alive[finish] = {-1}

    def sent(self, finish: FinishId | None, by: Activity, dst: int) -> int:
        """An activity was spawned at ``dst``, under no finish if it is not counted; returns its number."""
        self.spawned += 1
        if finish is not None:
            assert self.alive[finish], f"{finish} spawns although nothing lives under it"
            self.alive[finish].add(self.spawned)
        self.routes[self.spawned] = (finish, by.place, dst, by.number)
        return self.spawned

    def began(self, number: int, finish: FinishId | None, place: int) -> None:
        """An activity started to run: only once, and where nobody knows that its finish is cancelled."""
        assert number not in self.started | self.dropped, f"activity {number} ran twice"
        assert not self.knows(place, finish), f"activity {number} of {finish}, cancelled, began on place {place}"
        self.started.add(number)

    def not_begun(self, number: int, finish: FinishId) -> None:
        """An activity ended without having run: only once, and because its finish or one around that is cancelled."""
        assert number not in self.started | self.dropped, f"activity {number} ended twice"
        assert self.is_cancelled(finish), f"activity {number} of {finish} was dropped, and nobody has cancelled that"
        self.dropped.add(number)
        self.over(finish, number)

    def is_cancelled(self, finish: FinishId | None) -> bool:
        """Whether anybody has cancelled ``finish`` or one around it."""
        return finish is not None and (finish in self.cancelled or self.is_cancelled(self.outer[finish]))

    def knows(self, place: int, finish: FinishId | None) -> bool:
        """Whether ``place`` has heard that ``finish`` is cancelled, or opened it in one of which it has heard that."""
        if finish is None or finish in self.fired:
            return False
        return (place, finish) in self.heard or (finish.home == place and self.knows(place, self.outer[finish]))

    def over(self, finish: FinishId | None, number: int, *, failed: bool = False) -> None:
        """An activity (or the body, -1) ended."""
        if finish is not None:
            self.alive[finish].remove(number)
            self.failed[finish] = self.failed.get(finish, 0) + failed
        if number >= 0:
            self.ended.add(number)

    def fire(self, finish: FinishId, errors: int) -> None:
        """A finish fired: never early, once, and with the errors of all its activities."""
        assert errors == self.failed[finish], f"{finish} fired with {errors} of {self.failed[finish]} errors"
        assert not self.alive[finish], f"{finish} fired early: {sorted(self.alive[finish])} are alive"
        assert finish not in self.fired, f"{finish} fired twice"
        self.fired.add(finish)

    def check_end(self) -> None:
        """Nothing is left: every finish fired, every activity ran once."""
        missing = self.alive.keys() - self.fired
        assert not missing, f"finishes never fired: { {f: sorted(self.alive[f]) for f in sorted(missing)} }"
        assert len(self.started) + len(self.dropped) == len(self.ended) == self.spawned, "activities were lost"


def appetite(rng: random.Random, depth: int) -> int:
    """How many steps a new activity gets: fewer the deeper it is, so that the tree ends."""
    return rng.randint(0, max(0, 5 - depth))
