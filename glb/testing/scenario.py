"""What a seed decides before a simulated computation begins."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from glb.core.lifelines import GRAPHS, Lifelines


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
    lifelines: Lifelines
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
    ) -> Scenario:
        """Draw what is not given: one run in 25 has many places, one in 8 loses some."""
        many = rng.random() < 0.04
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
            lifelines=Lifelines(kind, rng.randint(2, 4), rng.randrange(100)),
            static=rng.random() < 0.3,
            network_share=rng.choice((0.2, 0.5, 0.8)),
            order_share=rng.choice((0.02, 0.1, 0.4)),
            slow=frozenset(slow),
            long_share=rng.choice((0.0, 0.0, 0.5, 0.9, 1.0)),
            carrying=rng.random() < 0.3,
        )
