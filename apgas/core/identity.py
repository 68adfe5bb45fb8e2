"""Places as programs see them."""

from __future__ import annotations

import operator

import msgspec


class Place(msgspec.Struct, frozen=True, eq=False):
    """A process of the program; places are equal, and in order, by their ids.

    Attributes:
        id: Unique in the program and never reused.
        node: The name of the node that it runs on.
    """

    id: int
    node: str = ""

    # all of them: a Struct brings its own of each, which look at every field
    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, Place) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return self.id != other.id if isinstance(other, Place) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self.id < other.id if isinstance(other, Place) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.id <= other.id if isinstance(other, Place) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self.id > other.id if isinstance(other, Place) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self.id >= other.id if isinstance(other, Place) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    @staticmethod
    def number(place: object) -> int:
        """The id of a place that was given as such, or by its id.

        Raises:
            TypeError: It is neither.
        """
        if isinstance(place, Place):
            return place.id
        if isinstance(place, bool) or not hasattr(place, "__index__"):
            kind = type(place).__name__
            raise TypeError(f"a place is needed, or its id as an int, not {place!r:.100} ({kind})")
        return operator.index(place)

    def __str__(self) -> str:
        return f"place({self.id})"
