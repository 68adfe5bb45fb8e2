"""References that travel: ``GlobalRef`` to one object, ``PlaceLocal`` to one object per place."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from apgas.core.identity import Place
from apgas.errors import PlaceGoneError, UsageError
from apgas.runtime import process
from apgas.runtime.driver import Driver

T = TypeVar("T")

_lock = threading.Lock()
_numbers = itertools.count()
_homed: dict[int, Any] = {}
_local: dict[tuple[int, int], Any] = {}
_making: dict[tuple[int, int], threading.RLock] = {}
"""One lock for each, not one for all: a factory may wait for another place, and that for another object here."""


def _driver() -> Driver:
    driver = process.driver()
    if driver is None:
        raise UsageError("references work inside of apgas.run only")
    return driver


class GlobalRef(Generic[T]):
    """A reference to an object of the place that made it; it can be sent anywhere and read at its home only.

    Args:
        value: The object. It is kept until ``free``.

    Attributes:
        place: Its home.

    Raises:
        UsageError: Made outside of ``apgas.run``.

    Example:
        ``ref = GlobalRef(totals)`` and, in an activity elsewhere, ``at(ref.place, add, ref, 3)``.
    """

    def __init__(self, value: T) -> None:
        self.place: Place = _driver().here
        self._number = next(_numbers)
        _homed[self._number] = value

    def get(self) -> T:
        """Read it, at home.

        Returns:
            The object itself, not a copy.

        Raises:
            UsageError: This is not its home.
            PlaceGoneError: Its home has left the program, or the reference was freed.
        """
        self._check_home()
        if self._number not in _homed:
            raise PlaceGoneError(self.place.id, _driver().core.epoch, "has freed this reference")
        return cast(T, _homed[self._number])

    def free(self) -> None:
        """(home) Let the object go; later reads raise. Idempotent.

        Raises:
            UsageError: This is not its home.
            PlaceGoneError: Its home has left the program.
        """
        self._check_home()
        _homed.pop(self._number, None)

    def _check_home(self) -> None:
        driver = _driver()
        if driver.here == self.place:
            return
        membership = driver.core.membership
        if self.place.id not in membership.members:
            raise PlaceGoneError(self.place.id, membership.epoch)
        raise UsageError(f"the object lives on {self.place}: use at({self.place}, ...) to work with it")


class PlaceLocal(Generic[T]):
    """One object per place, made by ``factory`` when a place first asks for it; newcomers make theirs, too.

    It can be sent anywhere; make it once, on one place, and send it along.

    Args:
        factory: Makes the object of a place; it has to be picklable. It may use other places.

    Raises:
        UsageError: Made outside of ``apgas.run``.
    """

    def __init__(self, factory: Callable[[], T]) -> None:
        self._key = (_driver().here.id, next(_numbers))
        self._factory = factory

    def get(self) -> T:
        """Read this place's object; whoever asks while it is being made waits for it.

        Returns:
            The object itself, not a copy.

        Raises:
            Exception: What the factory raised; the next call tries again.
        """
        with _lock:
            making = _making.setdefault(self._key, threading.RLock())
        with making:
            if self._key not in _local:
                _local[self._key] = self._factory()
            return cast(T, _local[self._key])
