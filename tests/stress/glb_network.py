"""What surrounds simulated places: what travels between them, who works there, the network, and what a seed decides."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeAlias

from numbered import Numbers, Total

from glb.core.backup import Backup, Gift
from glb.core.effects import Effect, Refuse, Request
from glb.core.lifelines import GRAPHS, Graph, graph_of

# What travels between simulated places, and who works there ----------------------------------------------------------


class Carrying(Numbers):
    """Its partial result goes along when everything is split off."""

    def split(self, all: bool) -> Numbers | None:
        """Give the older half away, or everything with all that was done."""
        part = super().split(all)
        if all and part is not None:
            part.done, self.done = self.done, Counter()
        return part


def numbers(bag: object) -> Numbers:
    """Return ``bag``, which is one of these."""
    assert isinstance(bag, Numbers)
    return bag


@dataclass(frozen=True)
class Loot:
    """A counted message with a bag."""

    bag: Numbers
    nonce: int | None


@dataclass(frozen=True)
class Saved:
    """A counted message to place 0 with a backup."""

    backup: Backup[Total]


@dataclass(frozen=True)
class Sent:
    """A counted message of place 0 with a gift."""

    gift: Gift


@dataclass(frozen=True)
class Redirect:
    """A counted message to place 0: a gift found its place evacuated, and is for place ``to``."""

    ident: int
    to: int


@dataclass(frozen=True)
class Ask:
    """Place 0 asks for load and counts."""


@dataclass(frozen=True)
class Members:
    """Place 0 sends the members."""

    members: tuple[int, ...]


@dataclass(frozen=True)
class Workers:
    """Place 0 orders how many workers there may be."""

    count: int


@dataclass(frozen=True)
class Evacuate:
    """Place 0 orders a leaver to hand out its work."""

    survivors: tuple[int, ...]
    turns: tuple[int, ...]


@dataclass(frozen=True)
class Join:
    """Place 0 has a newcomer take part; those who were members ``before`` hear of it later."""

    members: tuple[int, ...]
    before: tuple[int, ...]
    workers: int


@dataclass(frozen=True)
class Readmit:
    """Place 0 calls a leaver back."""

    members: tuple[int, ...]


@dataclass(frozen=True)
class Begin:
    """All newcomers have joined and are warm, or everyone knows a place that was called back."""


@dataclass(frozen=True)
class Abort:
    """Place 0 gives the computation up."""


Counted: TypeAlias = Loot | Saved | Sent | Redirect
Wire: TypeAlias = Request | Refuse | Counted | Ask | Members | Workers | Evacuate | Join | Readmit | Begin | Abort


@dataclass(eq=False)
class Worker:
    """An activity with a bag and the effects that it has still to carry out.

    Attributes:
        place: Where it is.
        slot: Its slot.
        bag: Its bag.
        todo: Effects.
        fresh: Whether it has still to look for the first time.
        call: How many tasks it processes in the long call that it is in; 0: it is in none.
        held: What its bag held when that call began, which no other thread may touch.
        back: Whether it has come from a long call.
    """

    place: int
    slot: int
    bag: Numbers
    todo: deque[Effect[Total]] = field(default_factory=deque)
    fresh: bool = True
    call: int = 0
    held: tuple[int, ...] = ()
    back: bool = False


@dataclass(eq=False)
class Attendant(Worker):
    """The activity that attends to a place while workers are in long calls.

    Attributes:
        seen: What ``calls`` were when it last attended; -1: it has not yet.
    """

    seen: int = -1


# The network between simulated places: in order from one place to another, otherwise after any delay -----------------

_PATIENCE: Final = 20
"""A message of a slow place is passed over so often, in the mean, before it is delivered."""


class Network:
    """What is under way.

    Args:
        rng: Decides what arrives next.
        slow: Places from and to which messages take long.
    """

    def __init__(self, rng: Random, slow: frozenset[int]) -> None:
        self.delivered: Counter[str] = Counter()
        self._rng = rng
        self._slow = slow
        self._queues: dict[tuple[int, int], deque[Wire]] = {}
        self._busy: list[tuple[int, int]] = []

    def __bool__(self) -> bool:
        return bool(self._busy)

    def send(self, sender: int, to: int, message: Wire) -> None:
        """Put ``message`` behind those that ``sender`` has sent to ``to``."""
        queue = self._queues.setdefault((sender, to), deque())
        if not queue:
            self._busy.append((sender, to))
        queue.append(message)

    def deliver(self) -> tuple[int, int, Wire]:
        """Take out the next message: sender, receiver, message."""
        index = self._rng.randrange(len(self._busy))
        if self._slow and len(self._busy) > 1 and not self._slow.isdisjoint(self._busy[index]):
            # often another link is taken instead, which may be a slow one, too
            index = index if self._rng.random() * _PATIENCE < 1 else self._rng.randrange(len(self._busy))
        pair = self._busy[index]
        queue = self._queues[pair]
        message = queue.popleft()
        if not queue:
            self._quiet(index)
        self.delivered[type(message).__name__] += 1
        return *pair, message

    def between(self, sender: int, to: int) -> Sequence[Wire]:
        """Return what is under way from ``sender`` to ``to``."""
        return self._queues.get((sender, to), ())

    def bags_to(self, place: int) -> bool:
        """Return whether a bag is under way to ``place``."""
        pairs = [pair for pair in self._busy if pair[1] == place]
        return any(isinstance(message, Loot | Sent) for pair in pairs for message in self._queues[pair])

    def cut_off(self, place: int) -> list[Wire]:
        """Lose all that is under way to ``place``, and the last of what it sent; return what is lost."""
        lost: list[Wire] = []
        for pair in [pair for pair in self._busy if place in pair]:
            queue = self._queues[pair]
            kept = self._rng.randint(0, len(queue)) if pair[0] == place and pair[1] != place else 0
            while len(queue) > kept:
                lost.append(queue.pop())
            if not queue:
                self._quiet(self._busy.index(pair))
        return lost

    def _quiet(self, index: int) -> None:
        last = self._busy.pop()
        if index < len(self._busy):
            self._busy[index] = last


# What a seed decides before a simulated computation begins -----------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """The settings of one run.

    Attributes:
        places: Places at the start.
        limit: The tasks are 1 to ``limit`` - 1.
        orders: Orders that come while it runs: grow, shrink, another number of workers.
        losses: Places that die.
        workers: Workers per place at the start.
        random_steals: Random victims asked.
        chunk: Most tasks per call of ``process``.
        lifelines: The graph.
        static: Whether the work is spread at the start.
        network_share: How often a message is delivered rather than a worker takes its turn.
        order_share: How often place 0 goes on with its orders.
        slow: Places whose messages take long.
        long_share: How many calls of ``process`` are long: anything may happen during them.
        carrying: Whether a bag that is split as a whole takes its partial result along.
    """

    places: int
    limit: int
    orders: int
    losses: int
    workers: int
    random_steals: int
    chunk: int
    lifelines: Graph
    static: bool
    network_share: float
    order_share: float
    slow: frozenset[int]
    long_share: float
    carrying: bool

    @classmethod
    def draw(
        cls,
        rng: Random,
        *,
        places: int | None = None,
        limit: int | None = None,
        orders: int | None = None,
        losses: int | None = None,
        large: float = 0.04,
    ) -> Scenario:
        """Draw what is not given: a share of ``large`` of the runs has many places, one in 8 loses some."""
        many = rng.random() < large
        drawn_places = rng.randint(16, 64) if many else rng.randint(1, 7)
        drawn_limit = rng.choice((2, 20, 100, 400))
        drawn_orders = rng.randint(0, 5)
        drawn_losses = rng.choice((1, 1, 2)) if rng.random() < 0.125 else 0
        kind = rng.choice(tuple(GRAPHS))
        chosen = drawn_places if places is None else places
        slow = frozenset(place for place in range(chosen + 4) if rng.random() < 0.15) if rng.random() < 0.3 else ()
        return cls(
            places=chosen,
            limit=limit or (2 * drawn_limit + 200 if many else drawn_limit),
            orders=drawn_orders if orders is None else orders,
            losses=drawn_losses if losses is None else losses,
            workers=rng.randint(1, 3),
            random_steals=rng.randint(0, 3),
            chunk=rng.choice((1, 3, 10)),
            lifelines=graph_of(kind, rng.randint(2, 4), rng.randrange(100)),
            static=rng.random() < 0.3,
            network_share=rng.choice((0.2, 0.5, 0.8)),
            order_share=rng.choice((0.02, 0.1, 0.4)),
            slow=frozenset(slow),
            long_share=rng.choice((0.0, 0.0, 0.5, 0.9, 1.0)),
            carrying=rng.random() < 0.3,
        )
