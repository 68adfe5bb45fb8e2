"""References that travel: ``GlobalRef`` to one object, ``PlaceLocal`` to one object per place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, cast

from apgas.core.identity import Place
from apgas.core.messages import RefId
from apgas.errors import PlaceGoneError, UsageError
from apgas.runtime.driver import Driver, current_driver, required_driver
from apgas.runtime.serialization import Carrier, Handle

T = TypeVar("T")
R = TypeVar("R", bound="_Reference")


class _Reference(Carrier):
    """Something that travels, and is counted as long as it travels with messages of the runtime."""

    _handle: Handle

    def handles(self) -> Iterable[Handle]:
        """Its own."""
        return (self._handle,)

    def travel(self) -> tuple[Any, ...]:
        """Its number and its other attributes."""
        state = {name: value for name, value in self.__dict__.items() if name != "_handle"}
        return _arrive, (type(self), self._handle.ref.home, self._handle.ref.seq), state

    def __reduce__(self) -> tuple[Any, ...]:
        # pickled by the program itself, which may keep the copy for as long as it likes
        driver = current_driver()
        if driver is not None:
            driver.counting.keep(self._handle)
        return self.travel()

    def __copy__(self: R) -> R:
        return self

    def __deepcopy__(self: R, _: object) -> R:
        return self


def _arrive(kind: type[R], home: int, seq: int) -> R:
    driver, ref = current_driver(), RefId(home, seq)
    made = kind.__new__(kind)
    made._handle = Handle(ref, counts=False) if driver is None else driver.counting.handle(ref)  # noqa: SLF001 - a constructor
    return made


class GlobalRef(_Reference, Generic[T]):
    """A reference to an object of the place that made it; it can be sent anywhere and read at its home only.

    The object is kept until ``free``, or until no reference to it is left on any place. Copies are counted as they
    travel with activities, their values, and immediates; a place that leaves lets go of those that it has. Those that
    the program pickles by itself, and those in errors and in bags that ``glb`` backs up, keep it until ``free``.

    Args:
        value: The object.

    Attributes:
        place: Its home.

    Raises:
        UsageError: Made outside of ``apgas.run``.

    Example:
        >>> totals = []
        >>> ref = apgas.GlobalRef(totals)
        >>> def add(ref, number):
        ...     apgas.at(ref.place, lambda: ref.get().append(number))
        >>> apgas.at(apgas.places()[-1], add, ref, 3)
        >>> totals
        [3]
    """

    def __init__(self, value: T) -> None:
        driver = required_driver()
        self.place: Place = driver.here
        self._handle = driver.counting.make()
        driver.objects.homed[self._handle.ref] = value

    def get(self) -> T:
        """Read it, at home.

        Returns:
            The object itself, not a copy.

        Raises:
            UsageError: This is not its home.
            PlaceGoneError: Its home has left the program, or the reference was freed.
        """
        driver = self._at_home()
        if self._handle.ref not in driver.objects.homed:
            raise PlaceGoneError(self.place.id, driver.core.epoch, "has freed this reference")
        return cast(T, driver.objects.homed[self._handle.ref])

    def free(self) -> None:
        """(home) Let the object go; later reads raise. Idempotent.

        Raises:
            UsageError: This is not its home.
            PlaceGoneError: Its home has left the program.
        """
        self._at_home().objects.homed.pop(self._handle.ref, None)

    def _at_home(self) -> Driver:
        driver = required_driver()
        if driver.here == self.place:
            return driver
        membership = driver.core.membership
        if self.place.id not in membership.members:
            membership.require(self.place.id)
        raise UsageError(f"the object lives on {self.place}: use at({self.place}, ...) to work with it")


class PlaceLocal(_Reference, Generic[T]):
    """One object per place, made by ``factory`` when a place first asks for it; newcomers make theirs, too.

    It can be sent anywhere; make it once, on one place, and send it along. The objects are kept until ``free``, or
    until this handle is left on no place (as with ``GlobalRef``); if the place that made the handle has left, until
    ``free``.

    Args:
        factory: Makes the object of a place; it has to be picklable. It may use other places.

    Raises:
        UsageError: Made outside of ``apgas.run``.

    Example:
        >>> counts = apgas.PlaceLocal(list)
        >>> _ = apgas.gather(lambda: counts.get().append(apgas.here().id))
        >>> apgas.at(apgas.places()[-1], lambda: counts.get()) == [apgas.places()[-1].id]
        True
    """

    def __init__(self, factory: Callable[[], T]) -> None:
        driver = required_driver()
        self._handle = driver.counting.make()
        driver.objects.placed.add(self._handle.ref)
        self._factory = factory

    def get(self) -> T:
        """Read this place's object; threads that ask while it is being made wait for it.

        Returns:
            The object itself, not a copy.

        Raises:
            Exception: What the factory raised; the next call tries again.
        """
        return cast(T, required_driver().objects.made(self._handle.ref, self._factory))

    def set(self, value: T) -> None:
        """Let ``value`` be this place's object; those of other places stay as they are.

        Args:
            value: The object itself; it is not copied.

        Raises:
            UsageError: Called outside of ``apgas.run``.
        """
        objects, ref = required_driver().objects, self._handle.ref
        with objects.making(ref):
            objects.local[ref] = value

    def free(self) -> None:
        """Let the objects of all places go; who asks again gets a new one.

        Raises:
            UsageError: Called outside of ``apgas.run``.
        """
        required_driver().counting.free_everywhere(self._handle.ref)
