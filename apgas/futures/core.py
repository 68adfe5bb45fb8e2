"""Which place works on which task: the state machine of an executor.

Events are method calls, and each returns what is to be done. A task is a number; it is in one of these states:

    event                       waiting            under way at p     ended
    submitted                   (new) -> waiting
    room at a place p           -> under way at p
    done(p)                                        -> ended
    handed_back(p)                                 -> waiting
    cancel_all                  -> ended           (goes on)
    withdraw                    -> ended           (goes on; handed back if it was not begun)
    dropped(p)                                     -> ended
    lost(p), retries left                          -> waiting, alone
    lost(p), no retries left                       -> ended: ``Lost``

A place answers for each task that it was sent exactly once: it is done, or handed back before it was begun. What a
lost place had is answered for by ``lost``, and what is still heard of it is ignored. So a task ends once, and is run
again only if its place is lost, at most ``retries`` times.

How many tasks are under way at a place: as many as it is expected to do within ``TARGET_S``, by the mean of the latest,
so that it need not wait for more; at least one that runs and, unless tasks are ``LONG_S`` long, one that is there when
that ends; and no more than half of its share of what waits. Where that was too many, because the tasks differ, places
without work get those that others have not begun (``Recall``).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable
from heapq import nlargest
from math import ceil
from typing import Final, TypeAlias

import msgspec

TARGET_S: Final = 0.02
"""How much work a place is to have: far more than it takes to send it some more."""
LONG_S: Final = 0.5
"""A round trip is nothing beside tasks of this length, and one that waits at a place that is lost is lost, too."""
BACKLOG_S: Final = 2.0
"""How much work has to wait for a further place to be worth its start."""
MOST: Final = 4096
"""Tasks under way at a place."""
_NEWS: Final = 0.25
"""How much the latest tasks count for the mean."""


class Send(msgspec.Struct, frozen=True):
    """Send tasks to a place, which runs them in this order."""

    place: int
    tasks: tuple[int, ...]


class Recall(msgspec.Struct, frozen=True):
    """Ask a place to hand back tasks that it has not begun: the latter half of them, or ``everything``."""

    place: int
    everything: bool


class Lost(msgspec.Struct, frozen=True):
    """Tasks were lost with a place, and may not run again."""

    place: int
    tasks: tuple[int, ...]


Effect: TypeAlias = Send | Recall | Lost


class _Hands(msgspec.Struct):
    """A place: what is under way there, in the order in which it was sent."""

    under_way: dict[int, None] = msgspec.field(default_factory=dict)
    window: int = 1
    leaving: bool = False
    recalling: bool = False


class PoolCore:
    """The tasks and the places of an executor."""

    def __init__(self, retries: int = 0) -> None:
        self._retries = retries
        self._places: dict[int, _Hands] = {}
        self._waiting: deque[int] = deque()
        self._suspects: deque[int] = deque()
        self._losses: Counter[int] = Counter()
        self._mean_s: float | None = None

    # what is asked ---------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many tasks wait for a place."""
        return len(self._waiting) + len(self._suspects)

    def wanted(self, minimum: int, maximum: int) -> int:
        """How many places its tasks would keep busy: those that are, and one for each ``BACKLOG_S`` of what waits."""
        busy = sum(bool(hands.under_way) for hands in self._places.values())
        backlog_s = self.waiting * (1.0 if self._mean_s is None else self._mean_s)
        return max(minimum, min(busy + ceil(backlog_s / BACKLOG_S), maximum))

    def load(self, place: int) -> int:
        """How many tasks are under way at ``place``."""
        hands = self._places.get(place)
        return 0 if hands is None else len(hands.under_way)

    # tasks -----------------------------------------------------------------------------------------------------------

    def submitted(self, task: int) -> None:
        """A new task waits; ``fill`` sends it."""
        self._waiting.append(task)

    def cancel_all(self) -> list[int]:
        """Withdraw all tasks that wait; returns them."""
        return self.withdraw([*self._waiting, *self._suspects])[0]

    def withdraw(self, tasks: Collection[int]) -> tuple[list[int], list[Effect]]:
        """Tasks are not wanted any more: returns those that waited; places hand back what they have not begun."""
        unwanted = set(tasks)
        ended = [task for task in (*self._waiting, *self._suspects) if task in unwanted]
        for queue in (self._waiting, self._suspects):
            kept = [task for task in queue if task not in unwanted]
            queue.clear()
            queue.extend(kept)
        for task in ended:
            self._losses.pop(task, None)
        return ended, [
            self._recall(place, everything=True)
            for place, hands in self._places.items()
            if len(hands.under_way) > 1 and not unwanted.isdisjoint(hands.under_way)
        ]

    def done(self, place: int, tasks: Collection[int], seconds: float) -> list[int]:
        """A place has done tasks, in ``seconds``; returns those of which it was awaited."""
        hands = self._places.get(place)
        if hands is None or not tasks:
            return []
        known = [task for task in tasks if task in hands.under_way]
        for task in known:
            del hands.under_way[task]
            self._losses.pop(task, None)
        mean_s = seconds / len(tasks)
        self._mean_s = mean_s if self._mean_s is None else _NEWS * mean_s + (1 - _NEWS) * self._mean_s
        expected = TARGET_S / max(self._mean_s, TARGET_S / MOST)
        least = 2 if self._mean_s < LONG_S else 1
        hands.window = max(least, min(ceil(expected), 2 * max(hands.window, len(tasks)), MOST))
        return known

    def dropped(self, place: int, tasks: Iterable[int]) -> None:
        """Tasks that were to be sent to a place have ended without: they were cancelled, or cannot be sent."""
        for task in tasks:
            del self._places[place].under_way[task]
            self._losses.pop(task, None)

    def handed_back(self, place: int, tasks: Iterable[int]) -> None:
        """A place answers a ``Recall``, or refuses tasks that it was sent: it has not begun these."""
        hands = self._places.get(place)
        if hands is None:
            return
        hands.recalling = False
        hands.window = max(1, hands.window // 2)
        known = [task for task in tasks if task in hands.under_way]
        for task in known:
            del hands.under_way[task]
        self._waiting.extendleft(reversed(known))

    # places ----------------------------------------------------------------------------------------------------------

    def joined(self, place: int) -> None:
        """A place takes tasks from now on, also one that was to leave and stays."""
        self._places.setdefault(place, _Hands()).leaving = False

    def leave(self, places: Iterable[int]) -> list[Effect]:
        """Send nothing more to these places, and have them hand back what they have not begun."""
        effects: list[Effect] = []
        for place in places:
            hands = self._places.get(place)
            if hands is not None and not hands.leaving:
                hands.leaving = True
                if hands.under_way:
                    effects.append(self._recall(place, everything=True))
        return effects

    def gone(self, place: int) -> list[Effect]:
        """A place has left, or is lost; what it had runs again on the others, one by one, or is lost with it."""
        hands = self._places.pop(place, None)
        if hands is None or not hands.under_way:
            return []
        lost = []
        for task in hands.under_way:
            self._losses[task] += 1
            if self._losses[task] > self._retries:
                del self._losses[task]
                lost.append(task)
            else:
                self._suspects.append(task)
        return [Lost(place, tuple(lost))] if lost else []

    # sending ---------------------------------------------------------------------------------------------------------

    def fill(self) -> list[Effect]:
        """Send tasks where there is room for them, and have those handed back that others could begin at once."""
        ready = sorted((place for place, hands in self._places.items() if not hands.leaving), key=self.load)
        idle = [place for place in ready if not self.load(place)]
        alone = [(place, self._suspects.popleft()) for place in idle[: len(self._suspects)]]
        effects: list[Effect] = [self._send(place, (task,)) for place, task in alone]
        # places that are to run a task alone have to end the others before
        for place in ready[len(self._suspects) :]:
            hands, load = self._places[place], self.load(place)
            if not self._waiting:
                break
            if load > hands.window // 2 or not self._losses.keys().isdisjoint(hands.under_way):
                continue
            share = ceil(len(self._waiting) / (2 * len(ready)))
            count = min(max(1, hands.window - load), share)
            effects.append(self._send(place, tuple(self._waiting.popleft() for _ in range(count))))
        return effects + self._even_out()

    def _send(self, place: int, tasks: tuple[int, ...]) -> Send:
        self._places[place].under_way.update(dict.fromkeys(tasks))
        return Send(place, tasks)

    def _recall(self, place: int, *, everything: bool) -> Recall:
        self._places[place].recalling = True
        return Recall(place, everything)

    def _even_out(self) -> list[Effect]:
        """Have places with more than one task hand back half of them for those that have none."""
        if self.waiting:
            return []
        idle = sum(not hands.under_way and not hands.leaving for hands in self._places.values())
        coming = sum(hands.recalling and not hands.leaving for hands in self._places.values())
        rich = [
            (len(hands.under_way), place)
            for place, hands in self._places.items()
            if len(hands.under_way) > 1 and not hands.recalling
        ]
        return [self._recall(place, everything=False) for _, place in nlargest(idle - coming, rich)]
