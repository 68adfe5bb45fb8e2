"""References that travel: ``GlobalRef`` to one object, ``PlaceLocal`` to one object per place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, cast

from apgas.core.identity import Place
from apgas.errors import PlaceGoneError, UsageError
from apgas.runtime import current
from apgas.runtime.driver import Driver

T = TypeVar("T")


def _driver() -> Driver:
    driver = current.driver()
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
        driver = _driver()
        self.place: Place = driver.here
        self._number = next(driver.objects.numbers)
        driver.objects.homed[self._number] = value

    def get(self) -> T:
        """Read it, at home.

        Returns:
            The object itself, not a copy.

        Raises:
            UsageError: This is not its home.
            PlaceGoneError: Its home has left the program, or the reference was freed.
        """
        driver = self._at_home()
        if self._number not in driver.objects.homed:
            raise PlaceGoneError(self.place.id, driver.core.epoch, "has freed this reference")
        return cast(T, driver.objects.homed[self._number])

    def free(self) -> None:
        """(home) Let the object go; later reads raise. Idempotent.

        Raises:
            UsageError: This is not its home.
            PlaceGoneError: Its home has left the program.
        """
        self._at_home().objects.homed.pop(self._number, None)

    def _at_home(self) -> Driver:
        driver = _driver()
        if driver.here == self.place:
            return driver
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
        driver = _driver()
        self._key = (driver.here.id, next(driver.objects.numbers))
        self._factory = factory

    def get(self) -> T:
        """Read this place's object; whoever asks while it is being made waits for it.

        Returns:
            The object itself, not a copy.

        Raises:
            Exception: What the factory raised; the next call tries again.
        """
        objects = _driver().objects
        with objects.making(self._key):
            if self._key not in objects.local:
                objects.local[self._key] = self._factory()
            return cast(T, objects.local[self._key])

    def set(self, value: T) -> None:
        """Let ``value`` be this place's object; those of other places stay as they are.

        Args:
            value: The object itself; it is not copied.

        Raises:
            UsageError: Called outside of ``apgas.run``.
        """
        objects = _driver().objects
        with objects.making(self._key):
            objects.local[self._key] = value
