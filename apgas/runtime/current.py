"""Which place a thread works for: that of the process, or its own where several places share a process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

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
