"""Something done at all places of one moment: ``gather``, ``reduce``, ``broadcast``.

They are flat: the caller sends to every place and every place answers the caller. So the set of places is that of one
moment, even during a resize: all calls are on their way before the membership may change here, hence ahead of the word
that this place sends nothing more to a leaver. A tree would have to pass calls on, to places that have begun to leave.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

from apgas.core.identity import Place
from apgas.core.messages import RefId
from apgas.errors import CancelledError
from apgas.runtime import process, serialization
from apgas.runtime.api import at
from apgas.runtime.context import Future, Scope, current_scope
from apgas.runtime.driver import required_driver
from apgas.runtime.mpi_comm import among
from apgas.runtime.refs import GlobalRef, PlaceLocal
from apgas.runtime.serialization import Call, Carrier, Carrying, Handle, notice
from apgas.transport.base import Buffer

P = ParamSpec("P")
T = TypeVar("T")


def gather(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> dict[Place, T]:
    """Run ``fn`` on every place at once and wait for all values.

    The places are those of one moment. One that is asked to leave later answers first; newcomers are not asked.

    Args:
        fn: What to run there, as with ``async_at``.
        *args: Its arguments, pickled once for all; other places get copies.
        **kwargs: Its keyword arguments, likewise.

    Returns:
        What ``fn`` returned, by place, in the order of their ids.

    Raises:
        ExceptionGroup: What ``fn`` raised, on one or more places; all have ended.
        CancelledError: The finish around the caller is cancelled.
        TypeError: The function, an argument or a value cannot be pickled.
        SlowPeerError: A place takes nothing: for a minute too much has been queued for it. Nothing was sent.
        UsageError: There is no finish around the caller, or the arguments are larger than 16 GiB.

    Example:
        >>> values = apgas.gather(pow, 2, 3)
        >>> values == dict.fromkeys(apgas.places(), 8)
        True
    """
    futures = _everywhere((fn, args, kwargs))
    errors = [error for future in futures.values() if (error := future.exception()) is not None]
    real = [error for error in errors if not isinstance(error, CancelledError)]
    if real:
        raise BaseExceptionGroup(f"{len(real)} of {len(futures)} places failed", real)
    if errors:
        raise errors[0]
    return {place: future.result() for place, future in futures.items()}


def reduce(join: Callable[[T, T], T], fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``fn`` on every place at once and join the values to one: ``reduce(operator.add, count, words)``.

    Args:
        join: Joins two values, here; called in the order of the places' ids, so it need not be commutative.
        fn: What to run there, as with ``gather``.
        *args: Its arguments, as with ``gather``.
        **kwargs: Its keyword arguments, likewise.

    Returns:
        The joined value; that of this place if it is the only one.

    Raises:
        ExceptionGroup: What ``fn`` raised, on one or more places.
        CancelledError: The finish around the caller is cancelled.
        TypeError: The function, an argument or a value cannot be pickled.
        SlowPeerError: A place takes nothing: for a minute too much has been queued for it. Nothing was sent.
        UsageError: There is no finish around the caller, or the arguments are larger than 16 GiB.
        BaseException: What ``join`` raised.

    Example:
        >>> import operator
        >>> apgas.reduce(operator.add, pow, 2, 3) == 8 * len(apgas.places())
        True
    """
    return functools.reduce(join, gather(fn, *args, **kwargs).values())


def broadcast(value: T) -> PlaceLocal[T]:
    """Give every place a copy of ``value``, to be had by ``get`` of what is returned, wherever that is sent.

    Newcomers fetch theirs from place 0 when they first ask. This place has ``value`` itself.

    Args:
        value: What to copy.

    Returns:
        The handle of the copies.

    Raises:
        TypeError: The value cannot be pickled.
        CancelledError: The finish around the caller is cancelled.
        SlowPeerError: A place takes nothing: for a minute too much has been queued for it.
        UsageError: There is no finish around the caller, or the value is larger than 16 GiB.

    Example:
        >>> table = apgas.broadcast({"a": 1, "b": 2})
        >>> apgas.at(apgas.places()[-1], lambda: table.get()["b"])
        2
    """
    driver = required_driver()
    source = GlobalRef(value) if driver.core.here == 0 else at(driver.place(0), GlobalRef, value)
    handle: PlaceLocal[T] = PlaceLocal(functools.partial(_fetch, source))
    gather(handle.set, value)
    return handle


def _fetch(source: GlobalRef[T]) -> T:
    if current_scope() is not None:
        return at(source.place, source.get)
    driver = required_driver()
    finish = driver.open_finish()  # no finish is around an uncounted activity
    try:
        value: T = driver.call(Scope(finish), source.place, (source.get, (), {}))
        return value
    finally:
        driver.close_finish(finish)


class _Packed(Carrier):
    """A call that is pickled once and sent to several places; takes the call's name."""

    def __init__(self, name: str, payload: list[Buffer]) -> None:
        self.__qualname__ = name
        self.payload = payload

    def handles(self) -> Iterable[Handle]:
        """Those of the references among the arguments."""
        return self.payload.handles if isinstance(self.payload, Carrying) else ()

    def travel(self) -> tuple[Any, ...]:
        """Without copying what is pickled already."""
        refs = [handle.ref for handle in self.handles()]
        return _packed, (self.__qualname__, refs, *map(pickle.PickleBuffer, self.payload))

    def __call__(self, together: tuple[int, ...] | None) -> Any:
        fn, args, kwargs = serialization.loads(self.payload)
        with among(together):
            return fn(*args, **kwargs)


def _packed(name: str, refs: list[RefId], *payload: Buffer) -> _Packed:
    handles = tuple(map(required_driver().counting.handle, refs))
    return _Packed(name, Carrying(payload, handles) if handles else list(payload))


def _everywhere(call: Call) -> dict[Place, Future[Any]]:
    driver, scope = required_driver(), current_scope()
    places = driver.places()
    for place in places:
        driver.transport.throttle(place.id)
    packed = _Packed(serialization.name_of(call[0]), serialization.dumps(call, of_call=True) if len(places) > 1 else [])
    if packed.payload:
        notice(call[0], packed.payload, {place.id for place in places if place != driver.here})
    with driver.lock:
        places = driver.places()
        if len(places) > 1 and not packed.payload:  # somebody has joined meanwhile
            packed.payload = serialization.dumps(call, of_call=True)
        together = tuple(place.id for place in places) if process.mpi_plane() is not None else None
        here = _with(together, call)
        # this place comes last: an activity of its own may wait for the others without letting go of the interpreter
        futures = {
            place: driver.spawn(
                scope,
                place,
                here if place == driver.here else (packed, (together,), {}),
                to_caller=True,
                throttled=False,
            )
            for place in sorted(places, key=lambda place: place == driver.here)
        }
    return {place: futures[place] for place in places}


def _with(together: tuple[int, ...] | None, call: Call) -> Call:
    """The call on this place; on the mpi plane ``comm`` is that of all that are called."""
    if together is None:
        return call

    def run() -> Any:
        fn, args, kwargs = call
        with among(together):
            return fn(*args, **kwargs)

    run.__qualname__ = serialization.name_of(call[0])
    return run, (), {}
