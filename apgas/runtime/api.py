"""The functions that programs call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import ParamSpec, TypeVar

import msgspec

from apgas.core.identity import Place
from apgas.errors import UsageError
from apgas.runtime import current
from apgas.runtime.context import Future, Scope, current_scope, entered

P = ParamSpec("P")
T = TypeVar("T")


def here() -> Place:
    """Tell where this code runs.

    Returns:
        This place.

    Raises:
        UsageError: Called outside of ``apgas.run``.

    Example:
        >>> apgas.here() in apgas.places()
        True
    """
    return current.required().here


def place(number: int) -> Place:
    """Look a place up by its id.

    Args:
        number: The id, an int.

    Returns:
        The place, whether it is a member, has left, or never was; only its use fails then.

    Raises:
        TypeError: The id is no int.
        UsageError: Called outside of ``apgas.run``.

    Example:
        >>> apgas.place(0) == apgas.places()[0]
        True
    """
    return current.required().place(Place.number(number))


def places() -> list[Place]:
    """List the places that the program has now.

    Returns:
        The places by id, without those that are about to leave. Ids are never used again, so there may be gaps.

    Raises:
        UsageError: Called outside of ``apgas.run``.

    Example:
        >>> [place.id for place in apgas.places()][0]
        0
    """
    return current.required().places()


def async_(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
    """Run ``fn`` as an activity on this place; the enclosing ``finish`` waits for it and gets its error.

    Each activity has a thread of its own while it runs, and at most 64 run at a time; the others wait for their turn.
    One that waits by means of the runtime (``at``, a future, the end of a ``finish``) gives its turn away. One that
    waits by other means does not: 65 activities that meet at a ``threading.Barrier`` wait for ever.

    Args:
        fn: What to run.
        *args: Its arguments, passed as they are, not copied.
        **kwargs: Its keyword arguments, likewise.

    Returns:
        A future of its value.

    Raises:
        UsageError: There is no finish around the caller: it is no activity.

    Example:
        >>> apgas.async_(pow, 2, 10).result()
        1024
    """
    driver = current.required()
    return driver.spawn(current_scope(), driver.here, (fn, args, kwargs), to_caller=False)


def async_at(where: Place | int, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
    """Run ``fn`` as an activity on place ``where``; the enclosing ``finish`` waits for it and gets its error.

    How many run at a time on a place is limited as for ``async_``.

    Args:
        where: The place, or its id.
        fn: What to run there. A function of the main program travels with the present values of the global variables
            that it uses; what it assigns to them there is not kept. Use a ``PlaceLocal`` for what a place is to keep.
        *args: Its arguments, of which the other place gets copies.
        **kwargs: Its keyword arguments, likewise.

    Returns:
        A future of its value.

    Raises:
        PlaceGoneError: The place is leaving or has left, or never was.
        SlowPeerError: The place has taken nothing for a minute, and too much is queued for it.
        TypeError: The function or an argument cannot be pickled, or ``where`` is no place.
        UsageError: There is no finish around the caller, or the arguments are larger than 16 GiB.

    Example:
        >>> with apgas.finish():
        ...     futures = [apgas.async_at(place, pow, 2, place.id) for place in apgas.places()]
        >>> sum(future.result() for future in futures) == 2 ** len(futures) - 1
        True
    """
    driver = current.required()
    return driver.spawn(current_scope(), driver.located(where), (fn, args, kwargs), to_caller=False)


def at(where: Place | int, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``fn`` on place ``where`` and wait for its value.

    Args:
        where: The place, or its id; it may be this one.
        fn: What to run there, as with ``async_at``.
        *args: Its arguments; another place gets copies.
        **kwargs: Its keyword arguments, likewise.

    Returns:
        What ``fn`` returned; from another place a copy.

    Raises:
        PlaceGoneError: The place is leaving or has left, or never was.
        SlowPeerError: The place has taken nothing for a minute, and too much is queued for it.
        TypeError: The function, an argument or the value cannot be pickled, or ``where`` is no place.
        UsageError: There is no finish around the caller, or the arguments are larger than 16 GiB.
        BaseException: What ``fn`` raised, with the place and its traceback as a note.

    Example:
        >>> last = apgas.places()[-1]
        >>> apgas.at(last, apgas.here) == last
        True
    """
    driver = current.required()
    result: T = driver.call(current_scope(), driver.located(where), (fn, args, kwargs))
    return result


def immediate(where: Place | int, fn: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Run ``fn`` at once on the thread that receives messages at ``where``: for libraries that balance or coordinate.

    No finish counts it; it must not block; those from one place to another run in order; it is dropped if the place
    is leaving or gone. An error in it ends the job.

    Args:
        where: The place, or its id; it may be this one.
        fn: What to run there.
        *args: Its arguments, of which it gets copies.
        **kwargs: Its keyword arguments, likewise.

    Raises:
        TypeError: The function or an argument cannot be pickled, or ``where`` is no place.
        UsageError: Called outside of ``apgas.run``, or the arguments are larger than 16 GiB.

    Example:
        >>> import threading
        >>> heard = threading.Event()
        >>> ref = apgas.GlobalRef(heard)
        >>> def tell(to):
        ...     apgas.immediate(to.place, lambda: to.get().set())
        >>> apgas.at(apgas.places()[-1], tell, ref)
        >>> heard.wait(10)
        True
    """
    driver = current.required()
    driver.immediate(driver.located(where), (fn, args, kwargs))


def uncounted(where: Place | int, fn: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Run ``fn`` as an activity on place ``where`` that no finish counts: nobody waits for it or hears of its end.

    An error in it is logged where it ran, at level ``ERROR`` of the logger ``apgas.uncounted``, and the job goes on. It
    runs in no finish, so it opens one to spawn or to call: ``with finish(): ...``; cancelling a finish does not reach
    it. A place that is to leave runs all that were sent to it, however long they take, before it leaves; those that
    still run when the program ends are not waited for.

    Args:
        where: The place, or its id; it may be this one.
        fn: What to run there, as with ``async_at``.
        *args: Its arguments; another place gets copies.
        **kwargs: Its keyword arguments, likewise.

    Raises:
        PlaceGoneError: The place is leaving or has left, or never was.
        SlowPeerError: The place has taken nothing for a minute, and too much is queued for it.
        TypeError: The function or an argument cannot be pickled, or ``where`` is no place.
        UsageError: Called outside of ``apgas.run``, or the arguments are larger than 16 GiB.

    Example:
        >>> def log(text):
        ...     with apgas.finish():
        ...         apgas.at(apgas.place(0), len, text)
        >>> apgas.uncounted(apgas.places()[-1], log, "nobody waits for this")
    """
    driver = current.required()
    driver.uncounted(driver.located(where), (fn, args, kwargs))


def capture() -> Scope:
    """Take hold of the finish of the running activity, for ``attach`` on another thread while this activity still runs.

    Returns:
        What ``attach`` needs.

    Raises:
        UsageError: The caller runs in no activity.

    Example:
        >>> import threading
        >>> scope = apgas.capture()
        >>> def work():
        ...     with apgas.attach(scope):
        ...         apgas.async_(pow, 2, 10)
        >>> thread = threading.Thread(target=work)
        >>> thread.start()
        >>> thread.join()
    """
    scope = current_scope()
    if scope is None:
        raise UsageError("capture works in activities only")
    return scope


def attach(scope: Scope) -> AbstractContextManager[None]:
    """Let a thread of the program's own spawn under a captured finish, in a ``with`` block.

    Args:
        scope: What ``capture`` returned on this place. An activity of that finish has to run on this place until the
            block has ended.

    Returns:
        The context of the block.

    Example:
        >>> import threading
        >>> def work(scope):
        ...     with apgas.attach(scope):
        ...         apgas.async_(pow, 2, 10)
        >>> thread = threading.Thread(target=work, args=(apgas.capture(),))
        >>> thread.start()
        >>> thread.join()
    """
    return entered(scope)


# What a place has done so far, in numbers ----------------------------------------------------------------------------


class Statistics(msgspec.Struct, frozen=True):
    """Counts of one place since the program began there.

    Attributes:
        messages_sent: Messages to other places, the runtime's own included.
        activities_run: Activities that ended well here; about, for it is counted without a lock.
    """

    messages_sent: int
    activities_run: int


def statistics() -> Statistics:
    """Tell what this place has done so far: ``apgas.gather(apgas.statistics)`` asks all of them.

    Returns:
        Its counts.

    Raises:
        UsageError: Called outside of ``apgas.run``.

    Example:
        >>> counts = apgas.gather(apgas.statistics)
        >>> sum(each.messages_sent for each in counts.values()) >= 2 * (len(counts) - 1)
        True
    """
    driver = current.required()
    return Statistics(driver.messages_sent, driver.activities_run)
