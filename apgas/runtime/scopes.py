"""``finish``, its cancellation, and limits of time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from apgas.core.messages import FinishId
from apgas.errors import CancelledError, DeadlineError, UsageError
from apgas.runtime import current
from apgas.runtime.context import Scope, current_scope, entered, waiting_until
from apgas.runtime.driver import Driver


class FinishScope:
    """A finish, as the block of ``with finish() as scope`` knows it."""

    def __init__(self, driver: Driver, outer: Scope | None) -> None:
        self._driver = driver
        self._outer = outer
        self._finish: FinishId = driver.open_finish(outer)
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

        timer = self._driver.transport.call_later(timeout_s, expire)
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
                self._driver.abandon_finish(self._finish)
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
def finish(*, timeout: float | None = None) -> Iterator[FinishScope]:
    """Wait, at the end of the block, for every activity spawned in it, transitively, wherever it runs.

    What is no ``Exception`` (``SystemExit``, Ctrl-C) leaves the block as it is: at once in the main thread of place 0,
    for it ends the program; in an activity after the wait.

    If the finish is cancelled (``scope.cancel()``, ``apgas.cancel``) the block ends as soon as what runs has ended, and
    raises only what went wrong apart from that: ``scope.cancelled`` tells. If one around it is cancelled, it raises
    ``CancelledError``, so that an activity does not take a part of its work for the whole.

    Args:
        timeout: Seconds after which the finish is cancelled. Waits in the block end then, too, as with ``deadline``,
            and so does the wait at its end: what has begun and does not look at ``cancelled`` runs on unheard.

    Yields:
        The scope: ``with finish() as scope``.

    Raises:
        ExceptionGroup: All errors of the activities and of the block; remote tracebacks are notes.
        DeadlineError: (a ``TimeoutError``) Time ran out; the text tells how many activities are under way on which
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
    scope = FinishScope(current.required(), current_scope())
    with nullcontext() if limit_s is None else scope._limited(limit_s), scope._body():  # noqa: SLF001 - its own
        yield scope


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Let no wait in the block go on for longer than so many seconds from now.

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
    opened. Activities that have begun run to their end, and the finish waits for them; ``cancelled`` tells them. What
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
    current.required().cancel(scope.finish)


def cancelled() -> bool:
    """Tell whether the finish around the caller, or one around that, is cancelled: long work should ask now and then.

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
    return scope is not None and scope.finish in current.required().core.cancelled
