"""Random activities and programs for simulations: they spawn, call, nest finishes, cancel, fail and end."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from apgas.core import effects as e
from apgas.core import messages as m
from apgas.core.messages import FinishId, Spawn
from apgas.core.place import PlaceCore
from apgas.errors import CancelledError, PlaceGoneError


@dataclass(slots=True, eq=False)
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
class Oracle:
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
        """An activity started to run: only once, and where it is not known that its finish is cancelled."""
        assert number not in self.started | self.dropped, f"activity {number} ran twice"
        assert not self.knows(place, finish), f"activity {number} of {finish}, cancelled, began on place {place}"
        self.started.add(number)

    def not_begun(self, number: int, finish: FinishId) -> None:
        """An activity ended without having run: only once, and because its finish or one around that is cancelled."""
        assert number not in self.started | self.dropped, f"activity {number} ended twice"
        assert self.is_cancelled(finish), f"activity {number} of {finish} was dropped, although that was not cancelled"
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


# A random program for simulations: activities that spawn, call, nest finishes, cancel, fail and end ------------------


class RandomProgram:
    """Activities, each of which does something at random whenever it is its turn.

    Args:
        rng: Decides everything.
        cores: The places.
        oracle: Notified of all that happens.
        perform: Carries out effects of a place's core.
        goes_on: Whether the first activity is to last longer.
        unheard: Whether no report is made of the end of an activity that did not begin, although a place has sent it.
        activities: It stops spawning after about that many.
        dense: Whether every second finish is dense.

    Attributes:
        runnable: The activities that do not wait.
        blocked: Those that do.
        sent: The number and the finish of what was sent, by its place and call.
    """

    def __init__(
        self,
        rng: random.Random,
        cores: Mapping[int, PlaceCore],
        oracle: Oracle,
        perform: Callable[[int, Iterable[e.Effect]], None],
        *,
        goes_on: Callable[[], bool],
        unheard: Callable[[Activity, PlaceCore], bool],
        activities: int,
        dense: bool,
    ) -> None:
        self.runnable: list[Activity] = []
        self.blocked: list[Activity] = []
        self.sent: dict[tuple[int, int], tuple[int, m.FinishId]] = {}
        self._rng = rng
        self._cores = cores
        self._oracle = oracle
        self._perform = perform
        self._goes_on = goes_on
        self._unheard = unheard
        self._budget = activities
        self._dense = dense

    def open(self) -> None:
        """Begin: the first activity, on place 0, in a finish of its own."""
        finish = self._root = self._open(self._cores[0])
        self._oracle.opened(finish, None)
        self.runnable.append(Activity(-1, 0, finish, None, 12, begun=True))

    def _open(self, core: PlaceCore, scope: FinishId | None = None) -> FinishId:
        return core.open_finish(scope, dense=self._dense and self._rng.random() < 0.5)

    def keep(self, stays: Callable[[Activity], bool]) -> None:
        """Let all activities die but those that stay."""
        self.runnable = [activity for activity in self.runnable if stays(activity)]
        self.blocked = [activity for activity in self.blocked if stays(activity)]

    def begin(
        self, here: int, payload: e.Payload, finish: m.FinishId | None, caller: tuple[int, m.Spawn] | None
    ) -> None:
        """An activity arrives at place ``here``."""
        number, depth = (int.from_bytes(bytes(part), "big") for part in payload)
        self.runnable.append(Activity(number, here, finish, caller, appetite(self._rng, depth)))

    @property
    def main_lives(self) -> bool:
        """Whether the activity that it began with has not ended."""
        return any(activity.number == -1 for activity in (*self.runnable, *self.blocked))

    def unblock(self, here: int, what: m.FinishId | int) -> None:
        """What an activity at place ``here`` waits for has come about: a finish, or a call."""
        for activity in self.blocked:
            if activity.place == here and activity.blocked_on == what:
                self.blocked.remove(activity)
                activity.blocked_on = None
                self.runnable.append(activity)
                return

    def _block(self, activity: Activity, what: m.FinishId | int) -> None:
        activity.blocked_on = what
        self.runnable.remove(activity)
        self.blocked.append(activity)

    def step(self) -> int:
        """Let one activity do something; returns its place."""
        activity = self._rng.choice(self.runnable)
        core = self._cores[activity.place]
        if activity.begun or self._begins(activity, core):
            self._go_on(activity, core)
        return activity.place

    def _go_on(self, activity: Activity, core: PlaceCore) -> None:
        if activity.number == -1 and (activity.steps <= 0 or self._budget <= 0) and self._goes_on():
            activity.steps, self._budget = 4, max(self._budget, 8)
        if activity.steps <= 0 or self._budget <= 0:
            self._end_scope_or_activity(activity, core)
            return
        activity.steps -= 1
        act = self._rng.random()
        scope = activity.scopes[-1] if activity.scopes else activity.finish
        if act < 0.05:
            self._send_uncounted(activity, core)
        elif scope is None or (act < 0.15 and len(activity.scopes) < 3):
            finish = self._open(core, scope)
            self._oracle.opened(finish, scope)
            activity.scopes.append(finish)
        elif act > 0.99 and scope != self._root:
            # any but that of the program itself, which would have nothing to do any more
            self._cancel(activity, core, scope)
        elif act < 0.3:
            self._spawn_here(activity, core, scope)
        else:
            self._spawn_away(activity, core, scope, waits=act > 0.8)

    def _begins(self, activity: Activity, core: PlaceCore) -> bool:
        """It is an activity's turn: it begins, unless its finish was cancelled while it waited."""
        activity.begun = activity.finish is None or core.may_begin(activity.finish)
        if activity.begun:
            self._oracle.began(activity.number, activity.finish, activity.place)
            return True
        assert activity.finish is not None
        self.runnable.remove(activity)
        if activity.caller is None:
            self._oracle.not_begun(activity.number, activity.finish)
            self._perform(activity.place, core.ended(activity.finish))
        else:
            if self._unheard(activity, core):
                self._oracle.not_begun(activity.number, activity.finish)
            self._perform(activity.place, core.dropped(*activity.caller))
        return False

    def _cancel(self, activity: Activity, core: PlaceCore, scope: m.FinishId) -> None:
        self._oracle.cancelled.add(scope)
        self._oracle.heard.add((activity.place, scope))
        self._perform(activity.place, core.cancel(scope))

    def _end_scope_or_activity(self, activity: Activity, core: PlaceCore) -> None:
        if activity.scopes:
            finish = activity.scopes.pop()
            self._oracle.over(finish, -1)
            self._block(activity, finish)
            self._perform(activity.place, core.ended(finish))
            return
        self.runnable.remove(activity)
        if activity.finish is None:
            self._oracle.over(None, activity.number)
            self._perform(activity.place, core.uncounted_ended())
            return
        error = b"error" if self._rng.random() < 0.1 else None
        self._oracle.over(activity.finish, activity.number, failed=error is not None)
        if activity.caller is None:
            self._perform(activity.place, core.ended(activity.finish, error))
        else:
            src, spawn = activity.caller
            self._perform(activity.place, core.answered(src, spawn, [b"value"], ok=True, error=error))

    def _spawn_here(self, activity: Activity, core: PlaceCore, scope: m.FinishId) -> None:
        try:
            core.spawn_here(scope)
        except CancelledError:
            return
        self._budget -= 1
        number = self._oracle.sent(scope, activity, activity.place)
        self.runnable.append(Activity(number, activity.place, scope, None, appetite(self._rng, 2)))

    def _spawn_away(self, activity: Activity, core: PlaceCore, scope: m.FinishId, *, waits: bool) -> None:
        places = [info.place for info in core.membership.members.values() if info.place != activity.place]
        if not places:
            return
        dst = self._rng.choice(places)
        depth = self._rng.randint(0, 4)
        number = self._oracle.spawned + 1
        payload: e.Payload = [number.to_bytes(4, "big"), depth.to_bytes(1, "big")]
        try:
            call, effects = core.spawn(scope, dst, payload, to_caller=waits)
        except (PlaceGoneError, CancelledError):
            return
        self._budget -= 1
        assert self._oracle.sent(scope, activity, dst) == number
        self.sent[activity.place, call] = number, scope
        self._perform(activity.place, effects)
        if waits:
            self._block(activity, call)

    def _send_uncounted(self, activity: Activity, core: PlaceCore) -> None:
        dst = self._rng.choice(sorted(core.membership.members))
        depth = self._rng.randint(0, 2)
        number = self._oracle.spawned + 1
        payload: e.Payload = [number.to_bytes(4, "big"), depth.to_bytes(1, "big")]
        try:
            if dst == activity.place:
                core.uncounted_here()
                effects: list[e.Effect] = [e.RunUncounted(dst, payload)]
            else:
                effects = core.uncounted(dst, payload)
        except PlaceGoneError:
            return
        self._budget -= 1
        assert self._oracle.sent(None, activity, dst) == number
        self._perform(activity.place, effects)
