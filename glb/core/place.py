"""The state machine of one place: worker, thief, victim, lifeline buddy, leaver. Events in, effects out.

| phase      | meaning                                  | left by                                              |
|------------|------------------------------------------|------------------------------------------------------|
| JOINING    | no worker yet; asks nobody               | receive -> WORKING; begin -> STEALING                |
| WAITING    | no worker; lifelines asked; silent       | receive -> WORKING                                   |
| STEALING   | no worker; one random victim asked       | receive -> WORKING; refused (last try) -> WAITING    |
| WORKING    | workers alive                            | last worker dry -> STEALING; evacuate -> EVACUATING  |
| EVACUATING | workers hand out their bags as they stop | last worker stopped -> EVACUATED                     |
| EVACUATED  | no worker; passes on what still arrives  | readmit -> JOINING                                   |
| ABORTED    | the computation failed; drops everything | -                                                    |

``evacuate`` takes an idle place to EVACUATED at once; ``abort`` takes every phase to ABORTED.

Why termination is right: a bag is in a worker's hands or in the shared bag of a place with a living worker (both are
activities of the finish), or travels as an argument of an activity of the finish that was spawned by a living one.
Requests, refusals and registrations carry no work and are not counted. Why it is live: a waiting place is registered
at all its buddies (or the request, or loot, is on the way), the graph is strongly connected, and a registered thief is
served at the next look of any worker that has something to split.

All methods are called under one lock per place. Bags of workers are touched by their own worker only.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from glb.bag import Bag, Result
from glb.core.effects import Effect, Ended, Forward, Give, Message, Refuse, Request, Run, Start
from glb.core.lifelines import Lifelines
from glb.core.pieces import halve
from glb.core.thieves import Thieves
from glb.statistics import Statistics, tasks_in

if TYPE_CHECKING:
    from random import Random

R = TypeVar("R", bound=Result)

MOST_TARGETS = 8
"""A worker that hands out its bag spreads it over at most so many survivors."""


class Phase(enum.Enum):
    """See the table of the module."""

    JOINING = enum.auto()
    WAITING = enum.auto()
    STEALING = enum.auto()
    WORKING = enum.auto()
    EVACUATING = enum.auto()
    EVACUATED = enum.auto()
    ABORTED = enum.auto()


_LEAVING = (Phase.EVACUATING, Phase.EVACUATED)


class PlaceCore(Generic[R]):
    """One place in one computation.

    Args:
        me: Id of this place.
        members: Sorted ids of all places of the computation, this one included.
        make_result: Makes an empty result.
        workers: Number of worker slots.
        random_steals: Random victims asked before the lifelines.
        lifelines: The lifeline graph.
        rng: Source of random victims.
        registered: Whether the place begins WAITING, its requests known to its buddies as theirs are to it (all places
            must agree then); else it begins JOINING.
    """

    def __init__(
        self,
        me: int,
        members: Sequence[int],
        make_result: Callable[[], R],
        *,
        workers: int = 1,
        random_steals: int = 3,
        lifelines: Lifelines | None = None,
        rng: Random,
        registered: bool = False,
    ) -> None:
        self.me = me
        self.members = tuple(members)
        self.phase = Phase.WAITING if registered else Phase.JOINING
        self.statistics = Statistics()
        self.attention = False
        """Whether a worker should call ``look`` before it goes on processing; may be read without the lock."""
        self.calls = 0
        """Counts what should wake a pausing worker: new thieves, evacuation, abortion."""
        self.shared: Bag[R] | None = None
        self._result: R | None = None
        self._make_result = make_result
        self._lifelines = lifelines or Lifelines()
        self._workers = workers
        self._free = list(range(workers))
        self._random_steals = random_steals
        self._rng = rng
        self._untried: list[int] = []
        self.asked: Request | None = None
        """The random steal that is not answered yet."""
        self._nonce = 0
        self._others = tuple(place for place in self.members if place != me)
        self.buddies = self._lifelines.buddies(me, self.members)
        self.thieves = Thieves(self._lifelines.thieves(me, self.members) if registered else ())

    @property
    def alive(self) -> int:
        """Number of workers that run or are about to."""
        return self._workers - len(self._free)

    @property
    def result(self) -> R:
        """What the workers that have ended here have found; made on first use."""
        if self._result is None:
            self._result = self._make_result()
        return self._result

    # loot -----------------------------------------------------------------------------------------------------------

    def receive(self, bag: Bag[R], nonce: int | None = None) -> list[Effect[R]]:
        """Take a bag that an activity of the finish has brought; ``nonce`` if it answers a random steal."""
        if self.phase is Phase.ABORTED:
            return []
        if self.phase in _LEAVING:
            return [Forward(self._rng.choice(self._others), bag)]
        self.statistics.received += 1
        self.statistics.tasks_received += tasks_in(bag)
        if nonce is not None:
            self.statistics.steals_won += 1
        self.asked = None
        self.phase = Phase.WORKING
        effects: list[Effect[R]] = []
        if self._free:
            effects.append(Run(self._free.pop(), bag))
        elif self.shared is None:
            self.shared = bag
        else:
            self.shared.merge(bag)
        self._refresh()
        return effects

    # workers --------------------------------------------------------------------------------------------------------

    def look(self, slot: int, bag: Bag[R]) -> list[Effect[R]]:
        """Let the worker in ``slot`` attend to the place between two calls of ``process``; ``Ended`` ends it."""
        if self.phase is Phase.ABORTED:
            return [*self._end(slot, bag), Ended()]
        if self.phase is Phase.EVACUATING:
            return [*self._hand_out(bag), *self._end(slot, bag), Ended()]
        effects = self._serve(bag)
        effects += self._feed_siblings(bag)
        self._refresh()
        return effects

    def dry(self, slot: int, bag: Bag[R]) -> list[Effect[R]]:
        """Tell that the worker's bag is empty: it gets the shared bag merged in, or ends (``Ended``)."""
        if self.phase is Phase.WORKING and self.shared is not None:
            bag.merge(self.shared)
            self.shared = None
            self._refresh()
            return []
        return self.look(slot, bag) if self.phase is not Phase.WORKING else [*self._end(slot, bag), Ended()]

    def failed(self, slot: int) -> None:
        """Tell that the worker in ``slot`` has raised an error: its bag is lost, and the computation with it."""
        if slot not in self._free:
            self._free.append(slot)

    def give_failed(self, give: Give[R]) -> None:
        """Undo a ``Give`` to a place that is gone; the worker must merge the bag into its own."""
        self.thieves.discard(give.to)
        self.statistics.sent -= 1
        self.statistics.tasks_sent -= give.tasks
        self._refresh()

    def _serve(self, bag: Bag[R]) -> list[Effect[R]]:
        effects: list[Effect[R]] = []
        while (thief := self.thieves.first()) is not None:
            loot = self._cut(bag)
            if loot is None:
                effects += [Refuse(to, nonce) for to, nonce in self.thieves.disappoint()]
                break
            to, nonce = thief
            self.thieves.served(to, nonce)
            effects.append(self._give(to, loot, nonce, "lifeline" if nonce is None else "random"))
        return effects

    def _cut(self, bag: Bag[R]) -> Bag[R] | None:
        """Cut loot from the worker's bag, else from the shared bag, which goes whole if it cannot be split."""
        loot = bag.split(False) if bag.is_splittable() else None
        if loot is None and self.shared is not None and not bag.is_empty():
            loot = self.shared.split(False) if self.shared.is_splittable() else None
            if loot is None:
                loot, self.shared = self.shared, None
        return loot

    def _feed_siblings(self, bag: Bag[R]) -> list[Effect[R]]:
        """Start a sibling in every free slot, then stock the shared bag, as long as the worker's bag can be split."""
        effects: list[Effect[R]] = []
        while self._free:
            part, self.shared = self.shared, None
            if part is None:
                part = bag.split(False) if bag.is_splittable() else None
            if part is None:
                return effects
            effects.append(Start(self._free.pop(), part))
        if self._workers > 1 and self.shared is None and bag.is_splittable():
            self.shared = bag.split(False)
        return effects

    def _end(self, slot: int, bag: Bag[R]) -> list[Effect[R]]:
        bag.submit(self.result)
        self._free.append(slot)
        effects: list[Effect[R]] = []
        if not self.alive:
            if self.phase is Phase.EVACUATING:
                self.phase = Phase.EVACUATED
            elif self.phase is Phase.WORKING:
                effects += [*self._refuse_all(), *self._steal()]
        self._refresh()
        return effects

    def _give(
        self, to: int, bag: Bag[R], nonce: int | None, why: Literal["random", "lifeline", "evacuation"]
    ) -> Give[R]:
        tasks = tasks_in(bag)
        self.statistics.sent += 1
        self.statistics.tasks_sent += tasks
        if why == "random":
            self.statistics.steals_suffered += 1
        elif why == "lifeline":
            self.statistics.lifeline_deals += 1
        else:
            self.statistics.evacuation_deals += 1
        return Give(to, bag, nonce, why, tasks)

    # thief ----------------------------------------------------------------------------------------------------------

    def begin(self) -> list[Message]:
        """Begin to steal, unless work has come before."""
        return self._steal() if self.phase is Phase.JOINING else []

    def _steal(self) -> list[Message]:
        self.phase = Phase.STEALING
        self._untried = self._rng.sample(self._others, min(self._random_steals, len(self._others)))
        return self._ask_next()

    def refused(self, nonce: int) -> list[Message]:
        """Take the refusal of a random victim; an answer to an older question is ignored."""
        if self.asked is None or self.asked.nonce != nonce:
            return []
        return self._ask_next()

    def _ask_next(self) -> list[Message]:
        self.asked = None
        while self._untried:
            victim = self._untried.pop()
            if victim in self.members:
                self._nonce += 1
                self.asked = Request(victim, self._nonce)
                self.statistics.steals_tried += 1
                return [self.asked]
        self.phase = Phase.WAITING
        return self._ask_buddies()

    def _ask_buddies(self) -> list[Message]:
        self.statistics.lifeline_requests += len(self.buddies)
        return [Request(buddy, None) for buddy in self.buddies]

    # victim ---------------------------------------------------------------------------------------------------------

    def requested(self, thief: int, nonce: int | None) -> list[Message]:
        """Take the question of a thief; ``nonce`` is None for a lifeline request.

        A leaver remembers lifeline thieves too: it may be called back, and one of them may believe so earlier than it.
        """
        if nonce is not None and self.phase is not Phase.WORKING:
            return [Refuse(thief, nonce)]
        if self.phase is Phase.ABORTED:
            return []
        if nonce is not None:
            self.thieves.add_random(thief, nonce, self.alive)
        else:
            self.thieves.add_lifeline(thief)
        self.calls += 1
        self._refresh()
        return []

    def _refuse_all(self) -> list[Message]:
        return [Refuse(thief, nonce) for thief, nonce in self.thieves.refuse_all()]

    # members --------------------------------------------------------------------------------------------------------

    def set_members(self, members: Sequence[int]) -> list[Message]:
        """Rewire the lifelines for new ``members`` and ask elsewhere what was asked of places that leave."""
        if self.phase is Phase.ABORTED:
            return []
        self._know(members)
        self.thieves.keep(self.members)
        self._refresh()
        if self.phase is Phase.STEALING and (self.asked is None or self.asked.to not in self.members):
            return self._ask_next()
        return self._ask_buddies() if self.phase is Phase.WAITING else []

    def _know(self, members: Sequence[int]) -> None:
        self.members = tuple(members)
        self._others = tuple(place for place in self.members if place != self.me)
        self.buddies = self._lifelines.buddies(self.me, self.members) if self.me in self.members else ()

    # leaver ---------------------------------------------------------------------------------------------------------

    def evacuate(self, survivors: Sequence[int]) -> list[Message]:
        """Begin to leave: workers hand out their bags to ``survivors`` as they stop; later bags are forwarded."""
        if self.phase is Phase.ABORTED:
            return []
        effects = self._refuse_all()
        self._know(survivors)
        self.thieves.keep(self.members)
        self.asked = None
        self.phase = Phase.EVACUATING if self.alive else Phase.EVACUATED
        self.calls += 1
        self._refresh()
        return effects

    def readmit(self, members: Sequence[int]) -> None:
        """Take part again after an evacuation that was called off; ``begin`` follows when everyone knows."""
        if self.phase is Phase.EVACUATED:
            self._know(members)
            self.thieves.keep(self.members)
            self.phase = Phase.JOINING

    def take_result(self) -> R:
        """Hand over the place's result and begin a new one; the place has no worker."""
        taken, self._result = self.result, None
        return taken

    def abort(self) -> list[Message]:
        """Drop everything: the computation has failed."""
        effects = self._refuse_all()
        self.phase = Phase.ABORTED
        self.shared = None
        self.calls += 1
        self._refresh()
        return effects

    def _hand_out(self, bag: Bag[R]) -> list[Effect[R]]:
        """Give away the worker's bag and the shared bag, hungry survivors first."""
        if self.shared is not None:
            bag.merge(self.shared)
            self.shared = None
        everything = bag.split(True)
        if everything is None:
            return []
        hungry = [place for place in self.thieves.lifeline if place in self._others]
        rest = [place for place in self._others if place not in hungry]
        targets = [*hungry, *self._rng.sample(rest, len(rest))]
        share = max(1, min(MOST_TARGETS, -(-len(targets) // self.alive)))
        effects: list[Effect[R]] = []
        for to, piece in zip(targets, halve(everything, share), strict=False):
            effects.append(self._give(to, piece, None, "evacuation"))
            self.thieves.discard(to)
        return effects

    def _refresh(self) -> None:
        self.attention = (
            self.phase in (Phase.EVACUATING, Phase.ABORTED)
            or bool(self.thieves)
            or (self._workers > 1 and (bool(self._free) or self.shared is None))
        )
