"""Which place a thread works for, and what libraries keep on each place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar, cast

from apgas.errors import UsageError

if TYPE_CHECKING:
    from apgas.runtime.driver import Driver


class _Thread(threading.local):
    driver: Driver | None = None
    """On the class: the place of the process. On an instance: that of one thread."""


_thread = _Thread()


def driver() -> Driver | None:
    """The place that this thread works for; None outside of ``apgas.run``."""
    return _thread.driver


def required() -> Driver:
    """The place that this thread works for.

    Raises:
        UsageError: Called outside of ``apgas.run``.
    """
    found = _thread.driver
    if found is None:
        raise UsageError("this works inside of apgas.run only: call apgas.run(main)")
    return found


def be(driver: Driver | None) -> None:
    """Let all threads that have no place of their own work for ``driver``."""
    _Thread.driver = driver


def stay(driver: Driver) -> None:
    """Let this thread work for ``driver`` for ever: it may outlive its program, and must not meddle with the next."""
    _thread.driver = driver


@contextmanager
def working_for(driver: Driver | None) -> Iterator[None]:
    """Let this thread work for ``driver`` within the block: simulated places share a process."""
    before = _thread.__dict__.get("driver")
    _thread.driver = driver
    try:
        yield
    finally:
        if before is None:
            del _thread.driver
        else:
            _thread.driver = before


# What a library keeps on every place in a variable of its module -----------------------------------------------------

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
        objects = required().objects
        try:
            return cast(T, objects.states[self])
        except KeyError:
            with objects.lock:
                if self not in objects.states:
                    objects.states[self] = self._factory()
                return cast(T, objects.states[self])

    def __reduce__(self) -> NoReturn:
        raise TypeError("a PlaceState does not travel: make it in a module that every place imports, or a PlaceLocal")
