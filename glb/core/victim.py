"""How a place with work serves thieves.

| thief    | becomes known by          | forgotten by                                                                |
|----------|---------------------------|-----------------------------------------------------------------------------|
| random   | its question              | serve: loot, or a refusal once every worker has had nothing; no worker left |
| lifeline | its question, or by being | serve: loot; a failed gift; leaving                                         |
|          | a buddy's new member      |                                                                             |

Every thief that is known when a worker with something to split looks is served in that look: a thief waits for a
victim with splittable work no longer than the call of ``process`` that is under way. Work that was set out before a
long call is given by the attendant, which waits for no call.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

from glb.bag import Bag, Result
from glb.core.effects import Refuse
from glb.core.pool import Pool
from glb.core.thieves import Thieves

R = TypeVar("R", bound=Result)


class Victim(Generic[R]):
    """Serves thieves from the workers' bags and the pool.

    Args:
        pool: The bags that no worker holds.
        lifeline: Lifeline thieves that are known from the start.
    """

    __slots__ = ("_pool", "thieves")

    def __init__(self, pool: Pool[R], lifeline: Collection[int]) -> None:
        self._pool = pool
        self.thieves = Thieves(lifeline)

    def serve(self, bag: Bag[R] | None) -> tuple[list[tuple[int, int | None, Bag[R]]], list[Refuse]]:
        """Let a worker with ``bag`` serve all thieves, or with None the attendant from what is set out.

        Returns:
            (thief, nonce, loot) of each gift, and the refusals.
        """
        gifts: list[tuple[int, int | None, Bag[R]]] = []
        while (thief := self.thieves.first()) is not None:
            loot = self._pool.loot() if bag is None else self._pool.cut(bag)
            if loot is None:
                # thieves count the workers that had nothing, and the attendant is none
                disappointed = [] if bag is None else self.thieves.disappoint()
                return gifts, [Refuse(to, nonce) for to, nonce in disappointed]
            to, nonce = thief
            self.thieves.served(to, nonce)
            gifts.append((to, nonce, loot))
        return gifts, []

    def refuse_all(self) -> list[Refuse]:
        """Refuse the random thieves: there is no worker left to ask."""
        return [Refuse(thief, nonce) for thief, nonce in self.thieves.refuse_all()]
