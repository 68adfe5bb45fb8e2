"""Something done at all places of one moment: ``gather``, ``reduce``, ``broadcast``.

They are flat: the caller sends to every place and every place answers the caller. So the set of places is that of one
moment, even during a resize: all calls are on their way before the membership may change here, hence ahead of the word
that this place sends nothing more to a leaver. A tree would have to pass calls on, to places that have begun to leave.
"""

from __future__ import annotations

import functools
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from apgas.core.identity import Place
from apgas.core.messages import RefId
from apgas.errors import CancelledError, UsageError
from apgas.runtime import process, serialization
from apgas.runtime.api import at
from apgas.runtime.context import Future, Scope, at_end, current_scope, this_thread, wait_context
from apgas.runtime.driver import Driver, required_driver
from apgas.runtime.environment import ENV_TRANSPORT
from apgas.runtime.refs import GlobalRef, PlaceLocal
from apgas.runtime.serialization import Call, Carrier, Carrying, Handle, notice
from apgas.transport.base import Buffer

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from apgas.transport.communicators import Communicators
    from apgas.transport.mpi import MpiTransport


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
    """A call that is pickled once and sent to several places, and takes its name; ``call`` itself does not travel."""

    def __init__(self, name: str, payload: list[Buffer], call: Call | None = None) -> None:
        self.__qualname__ = name
        self.payload = payload
        self._call = call

    def handles(self) -> Iterable[Handle]:
        """Those of the references among the arguments."""
        return self.payload.handles if isinstance(self.payload, Carrying) else ()

    def travel(self) -> tuple[Any, ...]:
        """Without copying what is pickled already."""
        refs = [handle.ref for handle in self.handles()]
        return _packed, (self.__qualname__, refs, *map(pickle.PickleBuffer, self.payload))

    def __call__(self, together: tuple[int, ...] | None) -> Any:
        fn, args, kwargs = self._call or serialization.loads(self.payload)
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
    payload = serialization.dumps(call, of_call=True) if len(places) > 1 else []
    packed = _Packed(serialization.name_of(call[0]), payload, call)
    if packed.payload:
        notice(call[0], packed.payload, {place.id for place in places if place != driver.here})
    with driver.lock:
        places = driver.places()
        if len(places) > 1 and not packed.payload:  # a place has joined meanwhile
            packed.payload = serialization.dumps(call, of_call=True)
        together = tuple(place.id for place in places) if process.mpi_plane is not None else None
        # this place comes last: an activity of its own may wait for the others without letting go of the interpreter
        futures = {
            place: driver.spawn(scope, place, (packed, (together,), {}), to_caller=True, throttled=False)
            for place in sorted(places, key=lambda place: place == driver.here)
        }
    return {place: futures[place] for place in places}


# ``apgas.comm``: MPI's own operations among the places of one moment -------------------------------------------------

COMM_S: Final = 30.0
"""How long ``comm`` waits for a communicator, not counting the drain of leavers."""
_LOOK_S: Final = 0.25
DRAIN_S: Final = 5.0
"""How long ``comm`` waits until others have what was sent to them: they may need it to come to MPI."""


@contextmanager
def among(places: tuple[int, ...] | None) -> Iterator[None]:
    """Let ``comm`` be that of ``places`` on this thread, within the block."""
    before, this_thread.together = this_thread.together, places
    try:
        yield
    finally:
        this_thread.together = before
        plane = process.mpi_plane
        if plane is not None:
            # what MPI calls done here, another place may still be waiting for
            plane.linger()


def comm(members: Sequence[Place] | None = None) -> Intracomm:
    """Get an MPI communicator of exactly these places, for mpi4py's operations and whatever builds on them.

    Works on the mpi transport only. As always with MPI, all its places have to call this and to take part in the same
    operations: begin them all with ``gather``, which calls the places of one moment, and call this in what it runs.
    Rank i is the i-th of the places by their ids. Right after a resize this waits until the communicator is made.

    Operations on buffers (``Allreduce``) and on objects (``allreduce``) are safe, for they let other threads run while
    they wait. ``Reduce_scatter`` without ``recvcounts``, ``mpi4py.util.pkl5`` and libraries that call MPI without
    letting go of the interpreter are safe within ``gather`` only: elsewhere they can wait for places that cannot be
    asked any more to take part.

    Args:
        members: The places, all members of one epoch. By default those that the ``gather`` around the caller has
            called; else those of now, as this place knows them: another one may hear of a resize earlier or later.

    Returns:
        An ``mpi4py.MPI.Intracomm`` of the program's own. It can be used until this place gets that of a later epoch;
        never free it.

    Raises:
        UsageError: The job does not use the mpi transport, this is called outside of ``apgas.run`` or in an
            ``immediate``, or these places are the members of no present or coming epoch.

    Example:
        >>> def everybody():
        ...     return apgas.comm().allreduce(1)
        >>> set(apgas.gather(everybody).values()) == {len(apgas.places())}
        True
    """
    driver = required_driver()
    plane = process.mpi_plane
    if plane is None:
        raise UsageError(f"apgas.comm needs the mpi transport: start the program with {ENV_TRANSPORT}=mpi")
    if members is not None:
        wanted = tuple(sorted(place.id for place in members))
    else:
        wanted = this_thread.together or tuple(place.id for place in driver.places())
    with wait_context():
        found = _await(driver, plane.communicators, wanted)
        # The caller may now wait for them within MPI, in code that keeps the interpreter from sending anything. One
        # that takes nothing for long may be in there already, and wait for us.
        plane.drain(wanted, DRAIN_S)
    at_end(partial(_leave, plane, plane.within(wanted)))
    return found


def _leave(plane: MpiTransport, leave: Callable[[], None]) -> None:
    leave()
    plane.linger()


def _await(driver: Driver, communicators: Communicators, wanted: tuple[int, ...]) -> Intracomm:
    until_s = time.monotonic() + COMM_S
    while time.monotonic() < until_s:
        found = communicators.fetch(wanted, _LOOK_S)
        if found is not None:
            return found
        with driver.lock:
            membership = driver.core.membership
            if membership.leaving and wanted == tuple(info.place for info in membership.staying):
                # it will come when the leavers have drained; if they do not, their order has a deadline
                until_s = time.monotonic() + COMM_S
    with driver.lock:
        members = sorted(driver.core.membership.members)
    raise UsageError(
        f"no communicator of exactly the places {list(wanted)} came within {COMM_S:g} s; the members are {members}: "
        "call apgas.comm in what apgas.gather runs, so that all places mean the same"
    )
