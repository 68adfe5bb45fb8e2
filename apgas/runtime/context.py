"""The threads of a place: what each works on, how it waits, and the pool that runs activities."""

from __future__ import annotations

import concurrent.futures
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import CodeType, FrameType
from typing import Any, Final, Generic, TypeVar

import msgspec

from apgas.core.messages import FinishId
from apgas.errors import DeadlineError, UsageError
from apgas.runtime.serialization import name_of

T = TypeVar("T")


class Scope(msgspec.Struct, frozen=True):
    """The finish that a thread spawns under."""

    finish: FinishId


def _nothing() -> None:
    pass


class ThreadState(threading.local):
    """What a thread works on.

    Attributes:
        driver: Its place, a ``Driver``: on the class that of the process, on an instance that of one thread. ``Any``
            because drivers are built on this module; ``driver.current_driver`` has the type.
        scope: The finish of its activity.
        waiting: What its waits are wrapped in.
        until_s: Its deadline, on the monotonic clock.
        at_end: Called when its activity ends.
        together: On the mpi plane, the places that a ``gather`` has called together.
    """

    driver: Any = None
    scope: Scope | None = None
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    until_s: float | None = None
    at_end: Callable[[], None] = staticmethod(_nothing)
    together: tuple[int, ...] | None = None


this_thread = ThreadState()


def current_scope() -> Scope | None:
    """The finish of the activity that this thread runs; None outside of activities."""
    return this_thread.scope


def wait_context() -> AbstractContextManager[None]:
    """What to wrap a wait in on this thread.

    Raises:
        UsageError: It is the io thread, in something that must not wait.
    """
    waiting, driver = this_thread.waiting, this_thread.driver
    if driver is not None:
        if waiting is nullcontext and driver.transport.loop.in_thread():
            raise UsageError(
                "this waits on the thread that receives what it would wait for: an immediate or a callback of a future "
                "must not, but may start an activity that does (apgas.uncounted)"
            )
        driver.transport.loop.flush_now()  # what is waited for may depend on frames that are still kept
    return waiting()


@contextmanager
def entered(scope: Scope | None) -> Iterator[None]:
    """Run the block as part of an activity of ``scope``."""
    before = this_thread.scope
    this_thread.scope = scope
    try:
        yield
    finally:
        this_thread.scope = before


def call_within(
    scope: Scope | None, waiting: Callable[[], AbstractContextManager[None]], fn: Callable[..., T], *args: object
) -> T:
    """Call ``fn`` as part of an activity of ``scope`` on a thread whose waits are wrapped in ``waiting``."""
    thread = this_thread
    before = thread.scope, thread.waiting, thread.until_s, thread.at_end
    thread.scope, thread.waiting, thread.until_s, thread.at_end = scope, waiting, None, _nothing
    try:
        return fn(*args)
    finally:
        thread.at_end()
        thread.scope, thread.waiting, thread.until_s, thread.at_end = before


def at_end(callback: Callable[[], None] = _nothing) -> None:
    """Have ``callback`` called when this thread's activity ends, or when this is called again within it.

    For the program itself this is called at its end.
    """
    this_thread.at_end()
    this_thread.at_end = callback


@contextmanager
def waiting_until(until_s: float) -> Iterator[None]:
    """Let waits of this thread within the block end at ``until_s`` of the monotonic clock, or earlier."""
    before = this_thread.until_s
    this_thread.until_s = until_s if before is None else min(before, until_s)
    try:
        yield
    finally:
        this_thread.until_s = before


class Future(concurrent.futures.Future[T], Generic[T]):
    """The value of an activity, to be had by ``result``.

    An activity that was sent off cannot be called back: ``cancel`` returns False. A wait by ``result`` or
    ``exception`` lets other activities of the place run meanwhile; ``concurrent.futures.wait`` does not know of that.
    What is given to ``add_done_callback`` is called by the thread that receives messages: it must not wait.
    """

    def __init__(self) -> None:
        super().__init__()
        # what set_running_or_notify_cancel does, without its lock: no other thread has this one yet
        self._state = "RUNNING"

    def done(self) -> bool:
        """Return whether the activity has ended.

        Returns:
            Whether ``result`` and ``exception`` return at once.
        """
        return self._state == "FINISHED"  # without its lock: it is never cancelled, and this changes once

    def result(self, timeout: float | None = None) -> T:
        """Wait for the value of the activity.

        Args:
            timeout: Seconds to wait; None waits without a limit.

        Returns:
            What the activity returned.

        Raises:
            TimeoutError: The value did not come in time; a ``DeadlineError`` if that was set by ``deadline``.
            UsageError: It is not there, and an immediate or a callback of a future, which must not wait, asks for it.
            BaseException: What the activity raised.
        """
        if self.done():
            return super().result()
        if this_thread.until_s is not None:
            timeout = self._wait(this_thread.until_s, timeout)
        with wait_context():
            return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end of the activity and return what it raised.

        Args:
            timeout: Seconds to wait; None waits without a limit.

        Returns:
            The error, or None.

        Raises:
            TimeoutError: It did not end in time; a ``DeadlineError`` if that was set by ``deadline``.
            UsageError: It has not ended, and an immediate or a callback of a future, which must not wait, asks for it.
        """
        if self.done():
            return super().exception()
        if this_thread.until_s is not None:
            timeout = self._wait(this_thread.until_s, timeout)
        with wait_context():
            return super().exception(timeout)

    def _wait(self, until_s: float, timeout: float | None) -> float | None:
        """Wait for the end until the thread's deadline, unless the timeout ends earlier: then return that."""
        left_s = min(max(0.0, until_s - time.monotonic()), threading.TIMEOUT_MAX)
        if timeout is not None and timeout < left_s:
            return timeout
        with wait_context(), suppress(TimeoutError):  # raised below, as the deadline's error
            super().exception(left_s)
        if not self.done():
            raise DeadlineError("the deadline passed, and what was waited for is not done")
        return 0.0


# Names of activities, found in the stack on demand, so that they cost nothing else -----------------------------------

F = TypeVar("F", bound=Callable[..., Any])

NOTHING: Final = "-"
_variables: dict[CodeType, str] = {}


def runs(variable: str) -> Callable[[F], F]:
    """Mark a function that runs what the program has written: its local ``variable`` holds that, or its name."""

    def mark(function: F) -> F:
        _variables[function.__code__] = variable
        return function

    return mark


def activity() -> str:
    """The name of the activity that the calling thread runs; ``-`` if it runs none."""
    return activity_in(sys._getframe(1))  # noqa: SLF001 - as logging does to find the caller


def activity_in(frame: FrameType | None) -> str:
    """The name of the activity that a thread with this innermost frame runs; ``-`` if it runs none."""
    while frame is not None:
        variable = _variables.get(frame.f_code)
        if variable is not None and (running := frame.f_locals.get(variable)) is not None:
            return running if isinstance(running, str) else name_of(running)
        frame = frame.f_back
    return NOTHING


# Threads for activities: as many as can run, kept for reuse; a thread that waits does not count ----------------------

MAX_RUNNING: Final = 64


class Executor:
    """Runs every submitted call on a thread of its own; at most ``limit`` run at a time, fewer if there are no threads.

    A call that waits for others inside ``waiting()`` gives its turn away, so that waiting activities can never keep
    those from running that they wait for. What a call raises, which it should not, goes to ``on_error``;
    each thread calls ``begin`` at its start.
    """

    def __init__(
        self,
        name: str,
        on_error: Callable[[BaseException], None],
        limit: int = MAX_RUNNING,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self._begin = begin
        self._name = name
        self._on_error = on_error
        self._limit = limit
        self._ready = threading.Condition(threading.Lock())
        self._queue: deque[Callable[[], None]] = deque()
        self._idle = 0
        self._running = 0
        self._started = 0
        self._closed = False

    def submit(self, call: Callable[[], None], *, first: bool = False) -> None:
        """Run ``call``, before those that wait if it is to be ``first``; what it raises goes to ``on_error``.

        Raises:
            RuntimeError: There is no thread for it, and none can be started; it will not run.
        """
        with self._ready:
            if first:
                self._queue.appendleft(call)
            else:
                self._queue.append(call)
            try:
                self._wake()
            except RuntimeError:
                self._queue.remove(call)
                raise

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around a wait in a submitted call."""
        with self._ready:
            self._running -= 1
            try:
                self._wake()
            except RuntimeError:
                self._running += 1
                raise
        try:
            yield
        finally:
            with self._ready:
                self._running += 1

    def close(self) -> None:
        """Let idle threads end; calls that still run are not waited for."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()

    def _wake(self) -> None:
        if not self._queue or self._running >= self._limit:
            return
        if self._idle >= len(self._queue):
            self._ready.notify()
            return
        thread = threading.Thread(target=self._work, name=f"{self._name}-{self._started + 1}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._running and not self._idle:
                raise
            self._ready.notify()  # those that there are have more to do
            return
        self._started += 1
        self._running += 1

    def _work(self) -> None:
        self._begin()
        while True:
            with self._ready:
                while not self._queue or self._running > self._limit:
                    if self._closed:
                        return
                    self._running -= 1
                    self._idle += 1
                    self._ready.wait()
                    self._idle -= 1
                    self._running += 1
                call = self._queue.popleft()
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - the thread goes on; ``on_error`` decides
                self._on_error(error)
            del call
