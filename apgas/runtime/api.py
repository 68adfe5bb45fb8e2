"""The functions that programs call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import ParamSpec, TypeVar

import msgspec

from apgas.core.identity import Place
from apgas.core.messages import FinishId
from apgas.errors import CancelledError, DeadlineError, UsageError
from apgas.runtime.context import Future, Scope, current_scope, entered, waiting_until
from apgas.runtime.driver import Driver, required_driver

P = ParamSpec("P")
T = TypeVar("T")


def here() -> Place:
    """Return the place that this code runs on.

    Returns:
        This place.

    Raises:
        UsageError: Called outside of ``apgas.run``.

    Example:
        >>> apgas.here() in apgas.places()
        True
    """
    return required_driver().here


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
    return required_driver().place(Place.number(number))


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
    return required_driver().places()


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
    driver = required_driver()
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
    driver = required_driver()
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
    driver = required_driver()
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
        >>> def notify(to):
        ...     apgas.immediate(to.place, lambda: to.get().set())
        >>> apgas.at(apgas.places()[-1], notify, ref)
        >>> heard.wait(10)
        True
    """
    driver = required_driver()
    driver.immediate(driver.located(where), (fn, args, kwargs))


def uncounted(where: Place | int, fn: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Run ``fn`` as an activity on place ``where`` that no finish counts: its end is neither awaited nor reported.

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
        >>> apgas.uncounted(apgas.places()[-1], log, "this is not waited for")
    """
    driver = required_driver()
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


# Statistics ----------------------------------------------------------------------------------------------------------


class Statistics(msgspec.Struct, frozen=True):
    """Counts of one place since the program began there.

    Attributes:
        messages_sent: Messages to other places, the runtime's own included.
        activities_run: Activities that ended well here; about, for it is counted without a lock.
    """

    messages_sent: int
    activities_run: int


def statistics() -> Statistics:
    """Count what this place has done so far: ``apgas.gather(apgas.statistics)`` asks all of them.

    Returns:
        Its counts.

    Raises:
        UsageError: Called outside of ``apgas.run``.

    Example:
        >>> counts = apgas.gather(apgas.statistics)
        >>> sum(each.messages_sent for each in counts.values()) >= 2 * (len(counts) - 1)
        True
    """
    driver = required_driver()
    return Statistics(driver.messages_sent, driver.activities_run)


# ``finish``, its cancellation, and limits of time --------------------------------------------------------------------


class FinishScope:
    """A finish, as the block of ``with finish() as scope`` knows it."""

    def __init__(self, driver: Driver, outer: Scope | None, *, dense: bool) -> None:
        self._driver = driver
        self._outer = outer
        self._finish: FinishId = driver.open_finish(outer, dense=dense)
        self._was_cancelled = False
        self._expired = False
        self._late: DeadlineError | None = None

    @property
    def cancelled(self) -> bool:
        """Whether this finish, or one around it, is cancelled; after the block: whether it was."""
        return self._was_cancelled or self._finish in self._driver.core.cancelled

    def cancel(self) -> None:
        """Start nothing more in this finish, on any place; see ``apgas.cancel``. Any thread; idempotent."""
        self._driver.cancel(self._finish)

    @contextmanager
    def _limited(self, timeout_s: float) -> Iterator[None]:
        def expire() -> None:
            self._expired = True
            self.cancel()

        timer = self._driver.transport.loop.call_later(timeout_s, expire)
        try:
            with waiting_until(time.monotonic() + timeout_s):
                yield
        finally:
            timer.cancel()

    @contextmanager
    def _body(self) -> Iterator[None]:
        """Run the block, wait for all it has spawned, and raise what it is to raise."""
        errors: list[BaseException] = []
        try:
            with entered(Scope(self._finish)):
                yield
        except DeadlineError as error:
            self._late = error
        except Exception as error:  # noqa: BLE001 - joins the errors of the activities
            errors.append(error)
        except BaseException:
            if threading.current_thread() is threading.main_thread():
                self._driver.end_body(self._finish)
            else:
                self._driver.close_finish(self._finish)
            raise
        self._raise(errors + self._end())

    def _end(self) -> list[BaseException]:
        try:
            errors, self._was_cancelled = self._driver.end_finish(self._finish)
        except DeadlineError as error:
            self._was_cancelled, self._late = True, error
            return []
        if self._expired:
            self._late = DeadlineError(
                f"out of time: a finish at {self._driver.here} was cancelled; all of it has ended"
            )
        return errors

    def _raise(self, errors: list[BaseException]) -> None:
        if self._was_cancelled:
            errors = [error for error in errors if not isinstance(error, CancelledError)]
        if errors:
            if self._late is not None:
                errors.append(self._late)
            raise BaseExceptionGroup(f"{len(errors)} error(s) under a finish at {self._driver.here}", errors)
        if self._late is not None:
            raise self._late
        if self._was_cancelled and self._outer is not None and self._outer.finish in self._driver.core.cancelled:
            raise CancelledError("a finish around this one was cancelled: not all of it has run")


@contextmanager
def finish(*, timeout: float | None = None, dense: bool = False) -> Iterator[FinishScope]:
    """Wait, at the end of the block, for every activity spawned in it, transitively, wherever it runs.

    What is no ``Exception`` (``SystemExit``, Ctrl-C) leaves the block as it is: at once in the main thread of place 0,
    for it ends the program; in an activity after the wait.

    If the finish is cancelled (``scope.cancel()``, ``apgas.cancel``) the block ends as soon as what runs has ended, and
    raises only what went wrong apart from that; ``scope.cancelled`` is true then. If one around it is cancelled, it
    raises ``CancelledError``, so that an activity does not take a part of its work for the whole.

    Args:
        timeout: Seconds after which the finish is cancelled. Waits in the block end then, too, as with ``deadline``,
            and so does the wait at its end: what has begun and does not look at ``cancelled`` runs on unheard.
        dense: Very many activities come and go on many places, as under a load balancer: reports of their ends go up a
            tree, in which they are added, so that the place of this block does not have to read all of them. It costs
            a few activities on few places a little more time.

    Yields:
        The scope: ``with finish() as scope``.

    Raises:
        ExceptionGroup: All errors of the activities and of the block; remote tracebacks are notes.
        DeadlineError: (a ``TimeoutError``) Time ran out; the text says how many activities are under way on which
            places. With other errors it is one of the group.
        CancelledError: A finish around this one was cancelled.
        UsageError: Called outside of ``apgas.run``, or with a negative timeout.

    Example:
        >>> def search(number):
        ...     if number == 3:
        ...         apgas.cancel()
        >>> with apgas.finish(timeout=60) as scope:
        ...     for number in range(10):
        ...         _ = apgas.async_at(apgas.places()[-1], search, number)
        >>> scope.cancelled
        True
    """
    limit_s = None if timeout is None else _seconds(timeout)
    scope = FinishScope(required_driver(), current_scope(), dense=dense)
    with nullcontext() if limit_s is None else scope._limited(limit_s), scope._body():  # noqa: SLF001 - its own
        yield scope


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Let no wait in the block go on for longer than ``seconds`` from now.

    That is every wait of this thread for other activities: in ``at``, for the value of a future, at the end of a
    ``finish``, which is then cancelled. Deadlines nest; the earliest counts. What runs elsewhere does not know of it,
    and goes on; the finish around still waits for that.

    Args:
        seconds: How long; 0 takes only what is there already.

    Raises:
        DeadlineError: (a ``TimeoutError``) A wait would have gone on for longer.
        UsageError: ``seconds`` is negative or not a number.

    Example:
        >>> import time
        >>> try:
        ...     with apgas.deadline(0.01):
        ...         apgas.at(apgas.places()[-1], time.sleep, 0.5)
        ... except TimeoutError as error:
        ...     print(error)
        the deadline passed, and what was waited for is not done
    """
    with waiting_until(time.monotonic() + _seconds(seconds)):
        yield


def _seconds(value: float) -> float:
    if not value >= 0:
        raise UsageError(f"a number of seconds, at least 0, is needed, not {value!r}")
    return float(value)


def cancel() -> None:
    """Start nothing more in the finish around the caller, on any place; the caller itself goes on.

    The finish is the innermost one: the one that the caller has opened, or that of its activity, wherever that was
    opened. Activities that have begun run to their end, and the finish waits for them; they can ask ``cancelled``. What
    has not begun never will: its future raises ``CancelledError``, and so does everything that is spawned from now on.
    All this holds for finishes within the cancelled one, too.

    Raises:
        UsageError: There is no finish around the caller.

    Example:
        >>> with apgas.finish():
        ...     apgas.cancel()
        ...     apgas.cancelled(), type(apgas.async_(print, "never").exception()).__name__
        (True, 'CancelledError')
    """
    scope = current_scope()
    if scope is None:
        raise UsageError("cancel works inside of apgas.run and inside of activities only")
    required_driver().cancel(scope.finish)


def cancelled() -> bool:
    """Return whether the finish around the caller, or one around that, is cancelled: long work should ask now and then.

    Returns:
        Whether it is, as far as this place has heard; False where no finish is around the caller.

    Raises:
        UsageError: Called outside of ``apgas.run``.

    Example:
        >>> import time
        >>> def work():
        ...     while not apgas.cancelled():
        ...         time.sleep(0.001)
        >>> with apgas.finish() as scope:
        ...     _ = apgas.async_at(apgas.places()[-1], work)
        ...     scope.cancel()
    """
    scope = current_scope()
    return scope is not None and scope.finish in required_driver().core.cancelled
