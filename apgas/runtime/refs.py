"""References that travel: ``GlobalRef`` to one object, ``PlaceLocal`` to one object per place."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from apgas.core.identity import Place
from apgas.errors import PlaceGoneError, UsageError
from apgas.runtime import process

T = TypeVar("T")

_lock = threading.RLock()
_numbers = itertools.count()
_homed: dict[int, Any] = {}
_local: dict[tuple[int, int], Any] = {}


def _here() -> Place:
    driver = process.driver()
    if driver is None:
        raise UsageError("references work inside of apgas.run only")
    return driver.here


class GlobalRef(Generic[T]):
    """A reference to an object of the place that made it; it can be sent anywhere and read at its home only.

    Example:
        ``ref = GlobalRef(totals)`` and, in an activity elsewhere, ``at(ref.place, add, ref, 3)``.
    """

    def __init__(self, value: T) -> None:
        self.place = _here()
        self._number = next(_numbers)
        _homed[self._number] = value

    def get(self) -> T:
        """The object.

        Raises:
            UsageError: This is not its home.
            PlaceGoneError: Its home has left the program, or the reference was freed.
        """
        if _here() != self.place:
            raise UsageError(f"the object lives on {self.place}: use at({self.place}, ...) to work with it")
        if self._number not in _homed:
            raise PlaceGoneError(self.place.id, 0, "has freed this reference")
        return cast(T, _homed[self._number])

    def free(self) -> None:
        """(home) Let the object go; later reads raise."""
        _homed.pop(self._number, None)


class PlaceLocal(Generic[T]):
    """One object per place, made by ``factory`` when a place first asks for it; newcomers make theirs, too."""

    def __init__(self, factory: Callable[[], T]) -> None:
        self._key = (_here().id, next(_numbers))
        self._factory = factory

    def get(self) -> T:
        """This place's object."""
        with _lock:
            if self._key not in _local:
                _local[self._key] = self._factory()
            return cast(T, _local[self._key])
