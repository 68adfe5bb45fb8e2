"""``finish`` and its cancellation."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from apgas.core.messages import FinishId
from apgas.errors import CancelledError, UsageError
from apgas.runtime import current
from apgas.runtime.context import Scope, current_scope, entered
from apgas.runtime.driver import Driver


class FinishScope:
    """A finish, as the block of ``with finish() as scope`` knows it."""

    def __init__(self, driver: Driver, finish: FinishId) -> None:
        self._driver = driver
        self._finish = finish
        self._was_cancelled = False

    @property
    def cancelled(self) -> bool:
        """Whether this finish, or one around it, is cancelled; after the block: whether it was."""
        return self._was_cancelled or self._finish in self._driver.core.cancelled

    def cancel(self) -> None:
        """Start nothing more in this finish, on any place; see ``apgas.cancel``. Any thread; idempotent."""
        self._driver.cancel(self._finish)

    def _end(self) -> list[BaseException]:
        errors, self._was_cancelled = self._driver.end_finish(self._finish)
        return errors


@contextmanager
def finish() -> Iterator[FinishScope]:
    """Wait, at the end of the block, for every activity spawned in it, transitively, wherever it runs.

    What is no ``Exception`` (``SystemExit``, Ctrl-C) leaves the block as it is: at once in the main thread of place 0,
    for it ends the program; in an activity after the wait.

    If the finish is cancelled (``scope.cancel()``, ``apgas.cancel``) the block ends as soon as what runs has ended, and
    raises only what went wrong apart from that: ``scope.cancelled`` tells. If one around it is cancelled, it raises
    ``CancelledError``, so that an activity does not take a part of its work for the whole.

    Yields:
        The scope: ``with finish() as scope``.

    Raises:
        ExceptionGroup: All errors of the activities and of the block; remote tracebacks are notes.
        CancelledError: A finish around this one was cancelled.
        UsageError: Called outside of ``apgas.run``.
    """
    driver = current.required()
    outer = current_scope()
    scope = FinishScope(driver, driver.open_finish(outer))
    errors: list[BaseException] = []
    try:
        with entered(Scope(scope._finish)):  # noqa: SLF001 - made for this function
            yield scope
    except Exception as error:  # noqa: BLE001 - joins the errors of the activities
        errors.append(error)
    except BaseException:
        if threading.current_thread() is threading.main_thread():
            driver.abandon_finish(scope._finish)  # noqa: SLF001
        else:
            driver.close_finish(scope._finish)  # noqa: SLF001
        raise
    errors += scope._end()  # noqa: SLF001
    if scope.cancelled:
        errors = [error for error in errors if not isinstance(error, CancelledError)]
    if errors:
        raise BaseExceptionGroup(f"{len(errors)} error(s) under a finish at {driver.here}", errors)
    if scope.cancelled and outer is not None and outer.finish in driver.core.cancelled:
        raise CancelledError("a finish around this one was cancelled: not all of it has run")


def cancel() -> None:
    """Start nothing more in the finish around the caller, on any place; the caller itself goes on.

    The finish is the innermost one: the one that the caller has opened, or that of its activity, wherever that was
    opened. Activities that have begun run to their end, and the finish waits for them; ``cancelled`` tells them. What
    has not begun never will: its future raises ``CancelledError``, and so does everything that is spawned from now on.
    All this holds for finishes within the cancelled one, too.

    Raises:
        UsageError: There is no finish around the caller.
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
    """
    scope = current_scope()
    return scope is not None and scope.finish in current.required().core.cancelled
