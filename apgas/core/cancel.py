"""Which finishes are cancelled, as one place knows it.

    any place       cancel(finish): starts nothing more of it      Cancel ---> home
    home            open and not cancelled yet                     Cancel ---> every other member, and each newcomer
    a place that hears of it starts nothing more of it, and cancels the open finishes that its activities opened here
    home            the finish fires                               Forget ---> every other member

Cancelling changes no count: an activity of a cancelled finish that has arrived ends instead of beginning. So a finish
fires as it would have fired without, only sooner. Messages of one pair arrive in order, so a place forgets after it has
heard, and remembers no finish that has fired: only one that has an activity of the finish may cancel it before home has
said so, and while that lives the finish cannot fire.
"""

from __future__ import annotations

from apgas.core.messages import FinishId
from apgas.errors import InvariantError


class Cancellations:
    """The cancelled finishes that one place has heard of, and the nesting of those opened here.

    Attributes:
        known: The cancelled finishes.
        told: Those opened here of which the other members have been told.
    """

    def __init__(self, here: int) -> None:
        self.here = here
        self.known: set[FinishId] = set()
        self.told: set[FinishId] = set()
        self._outer: dict[FinishId, FinishId] = {}

    def opened(self, finish: FinishId, outer: FinishId) -> None:
        """``finish`` was opened here by an activity of ``outer``; if that is cancelled, nobody else needs to know."""
        self._outer[finish] = outer
        if outer in self.known:
            self.known.add(finish)

    def add(self, finish: FinishId) -> list[FinishId]:
        """Cancel ``finish`` and those opened here under it; returns those of which the others are to be told."""
        self.known.add(finish)
        inner = [nested for nested, outer in self._outer.items() if outer == finish and nested not in self.known]
        announced = [finish] if finish.home == self.here and finish not in self.told else []
        self.told.update(announced)
        for nested in inner:
            announced += self.add(nested)
        return announced

    def fired(self, finish: FinishId) -> tuple[bool, bool]:
        """A finish opened here has fired: whether it was cancelled, and whether the others are to forget that."""
        self._outer.pop(finish, None)
        if finish not in self.known:
            return False, False
        was_told = finish in self.told
        self.forget(finish)
        return True, was_told

    def forget(self, finish: FinishId) -> None:
        """``finish`` has fired at its home."""
        self.known.discard(finish)
        self.told.discard(finish)

    def validate(self) -> None:
        """Check the whole state; for tests.

        Raises:
            InvariantError: It contradicts itself.
        """
        if not self.told <= self.known:
            raise InvariantError(f"place {self.here} has told of {self.told - self.known}, which are not cancelled")
        for finish, outer in self._outer.items():
            if outer in self.known and finish not in self.known:
                raise InvariantError(f"place {self.here}: {outer} is cancelled, and {finish} in it is not")
