"""What a library keeps on every place in a variable of its module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NoReturn, TypeVar, cast

from apgas.runtime import current

T = TypeVar("T")


class PlaceState(Generic[T]):
    """One object per place, for a module's variable: ``_state = PlaceState(State)`` where ``_state = State()`` stood.

    Every process imports the module and has a ``PlaceState`` of its own, so nothing travels. With one place in a
    process both are the same; where a process simulates places (``apgas_job``), each place has its own object. For
    objects of a program, which are made once and sent along, there is ``PlaceLocal``.

    Args:
        factory: Makes the object of a place when it is first asked for; it must not use other places.
    """

    def __init__(self, factory: Callable[[], T]) -> None:
        self._factory = factory

    def get(self) -> T:
        """Read this place's object.

        Returns:
            The object itself, not a copy.

        Raises:
            UsageError: Called outside of ``apgas.run``.
        """
        objects = current.required().objects
        try:
            return cast(T, objects.states[self])
        except KeyError:
            with objects.lock:
                if self not in objects.states:
                    objects.states[self] = self._factory()
                return cast(T, objects.states[self])

    def __reduce__(self) -> NoReturn:
        raise TypeError("a PlaceState does not travel: make it in a module that every place imports, or a PlaceLocal")
