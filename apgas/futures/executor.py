"""``MalleableExecutor``, and what it needs of the program that it is in, or begins itself.

The runtime is loaded when the first executor is opened: where that starts places, they load it at the same time.
"""

from __future__ import annotations

import operator
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import nullcontext, suppress
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from apgas.errors import UsageError
from apgas.futures.progress import LIVE_EVERY_S, MapProgress, total_of
from apgas.runtime import at_once, children, environment

if TYPE_CHECKING:
    from apgas.core.identity import Place
    from apgas.futures.pool import Pool
    from apgas.runtime.driver import Driver
    from apgas.runtime.program import Job

P = ParamSpec("P")
T = TypeVar("T")

AHEAD: Final = 65_536
"""How many items of a ``map`` are under way or wait to be taken, if its caller does not say."""


class MalleableExecutor(Executor):
    """An executor of ``concurrent.futures`` whose places come and go while it works.

    It works in three settings, with the same program. In ``apgas.run``, and in a script that
    ``mpiexec -n 4 python -m apgas.futures script.py`` starts, its places are those of the program. From plain Python,
    and in a notebook, it starts MPI and places by itself, and ends them when it is shut down.

    Orders of a scheduler resize it. A place that is to leave finishes the task that it runs and hands back the others:
    none is lost and none is run twice. Where place 0 belongs to what the program was given, it runs tasks, too; if the
    executor has started places by itself, it does not.

    Args:
        places: How many places the executor starts where it does so, from plain Python; None: one per core. Elsewhere
            it has those of the program.
        initializer: Called by each place before its first task, by newcomers, too.
        initargs: Its arguments.
        retries: How often a task is run again if its place is lost (in a resilient job), before its future raises
            ``DeadPlaceError``.

    Raises:
        TypeError: ``places`` or ``retries`` is no whole number, or ``initializer`` cannot be called.
        ValueError: ``places`` is less than 1, or ``retries`` less than 0.
        UsageError: Not on place 0, or in a task or another activity; or in another thread than the main one, where it
            starts places; or an executor is open already; or MPI cannot be used here.
        ApgasError: The places could not be started.

    Example:
        >>> with MalleableExecutor(places=2) as executor:  # doctest: +SKIP
        ...     print(sum(executor.map(abs, range(-10, 10))))
        100
    """

    def __init__(
        self,
        places: int | None = None,
        *,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        retries: int = 0,
    ) -> None:
        places = None if places is None else _whole("places", places)
        retries = _whole("retries", retries, least=0)
        if initializer is not None and not callable(initializer):
            raise TypeError(f"the initializer must be callable, not {initializer!r}")
        global _pool, _last  # noqa: PLW0603 - one at a time
        places = places or len(os.sched_getaffinity(0))
        try:
            _prestart(places)
            with at_once():
                from apgas.futures.elastic import elastic_of_place
                from apgas.futures.pool import Pool

            _check_caller()
            driver, self._own = _program()
            self._elastic = elastic_of_place.get()
            pool: Pool | None = None
            try:
                begins = None if initializer is None else (initializer, initargs)
                self._pool = pool = _pool = Pool(driver, retries, begins)
                self._elastic.begin(pool, own=self._own is not None)
                if self._own is not None:
                    self._elastic.resize(places)
            except BaseException:
                if pool is not None:  # else who opens the next one would wait for its end
                    self._abandon("the executor could not be opened")
                _leave(self._own)
                raise
        finally:
            children.discard()
        _last = weakref.ref(self)
        self._finalizer = weakref.finalize(self, self._pool.close, cancel=False)
        self._finalizer.atexit = False

    # Executor --------------------------------------------------------------------------------------------------------

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have ``fn`` called on a place.

        Args:
            fn: What to call. A function of the main program travels with the present values of what it uses.
            *args: Its arguments, of which the place gets copies.
            **kwargs: Its keyword arguments, likewise.

        Returns:
            A future of its value. It can be cancelled until its task is sent to a place.

        Raises:
            RuntimeError: The executor was shut down, or an initializer has failed (``BrokenExecutor``).
        """
        future: Future[T] = Future()
        self._pool.submit(future, fn, args, kwargs)
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int | None = None,
        buffersize: int | None = None,
        progress: bool = False,
    ) -> Iterator[T]:
        """Call ``fn`` for each item, on all places; the values come in the order of the items.

        Items are taken from the iterables ahead of the values, ``buffersize`` of them, so that the memory that is
        needed does not depend on how many there are.

        Args:
            fn: What to call.
            *iterables: Its arguments; the shortest one ends the map.
            timeout: Seconds from now for which a value is waited for at most.
            chunksize: Items that travel together, and are not divided; None: as many as take some milliseconds.
            buffersize: Items that may be under way, or wait to be taken; None: 65,536.
            progress: Whether to show, while values are taken, how many items are done, how many in a second, on how
                many places, and after how many resizes: by a bar on a terminal and in a notebook, by a line on standard
                error every two seconds elsewhere. It needs the package rich.

        Returns:
            An iterator of the values.

        Raises:
            TypeError: ``chunksize`` or ``buffersize`` is no whole number.
            ValueError: It is less than 1.
            RuntimeError: As with ``submit``; (iterator) the executor was shut down before all items were taken.
            UsageError: ``progress`` is wanted, and the package rich is missing.
            TimeoutError: (iterator) A value did not come in time.
            BaseException: (iterator) What ``fn`` raised.
        """
        chunksize = None if chunksize is None else _whole("chunksize", chunksize)
        buffersize = None if buffersize is None else _whole("buffersize", buffersize)
        until = None if timeout is None else time.monotonic() + timeout
        shown = MapProgress(total_of(iterables), self._elastic.standing) if progress else None
        stream = _Stream(self, self._pool, fn, zip(*iterables, strict=False), chunksize or 1, shown)
        stream.ahead(buffersize or AHEAD)
        return stream.values(until)

    def scatter(self, value: T) -> T:
        """Send a large value to each place once, for tasks that use it again and again.

        Args:
            value: It; later changes of it are not sent.

        Returns:
            What stands for the value in the arguments of tasks, also within other arguments: they get the place's copy,
            which all tasks of a place share. It is kept until the executor is shut down.

        Raises:
            TypeError: It cannot be pickled.
            RuntimeError: The executor was shut down.
        """
        if self._pool.closed:
            raise RuntimeError("cannot scatter after shutdown")
        return self._pool.scatter(value)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more tasks; end what the executor has started when all tasks have ended.

        Args:
            wait: Whether to return only then (Ctrl-C ends it at once), or let it go on until the end of the program.
            cancel_futures: Whether tasks that no place has yet are cancelled.

        Raises:
            UsageError: It is to wait, and this is a callback of a future, which must not.
        """
        if wait:
            self._pool.refuse_own_thread("shutdown(wait=True)")
        self._pool.close(cancel=cancel_futures)
        if wait:
            try:
                self._pool.await_end()
            except KeyboardInterrupt:
                self._abandon("the executor was interrupted")
                raise
            self._end()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Shut down; after Ctrl-C what runs is not waited for."""
        if isinstance(error, KeyboardInterrupt):
            self._abandon("the executor was interrupted")
        else:
            self.shutdown()

    def _abandon(self, why: str) -> None:
        self._pool.abandon(why)
        self._pool.ended.wait(1.0)
        self._end()

    def __reduce__(self) -> str:
        raise TypeError("an executor stays with the program: return what there is to do, and let that submit it")

    # places ----------------------------------------------------------------------------------------------------------

    @property
    def places(self) -> list[Place]:
        """The places that run tasks at present.

        Raises:
            RuntimeError: The executor was shut down, and all of it has ended.
        """
        self._check_lives()
        return self._elastic.places()

    def _check_lives(self) -> None:
        if self._pool.closed and self._elastic.pool is not self._pool:
            raise RuntimeError("the executor has no places after shutdown: open another one")

    def resize(self, places: int) -> None:
        """Let ``places`` places run tasks from now on; returns when it is so.

        Under a scheduler that is asked for nodes, or offered some, and decides.

        Args:
            places: How many, at least 1.

        Raises:
            ApgasError: It could not be done, or the scheduler did not grant it; the executor goes on with those that it
                has.
            UsageError: This is a callback of a future, which must not wait.
            TypeError: ``places`` is no whole number.
            ValueError: It is less than 1.
            RuntimeError: The executor was shut down, and all of it has ended.
        """
        self._check_lives()
        self._pool.refuse_own_thread("resize")
        self._elastic.resize(_whole("places", places))

    def adapt(self, minimum: int = 1, maximum: int | None = None) -> None:
        """Have the number of places follow the length of the queue from now on, until ``resize`` is called.

        It grows as long as there is work for more than some seconds, and shrinks when for 3 s there have been more
        places than it needs, or than ``maximum``. Under a scheduler that is asked for nodes, and offered those that are
        not needed.

        Args:
            minimum: How many places there are at least.
            maximum: How many at most; None: as many as this machine has cores, or as the scheduler grants.

        Raises:
            TypeError: One is no whole number.
            ValueError: The numbers are none of places.
            RuntimeError: The executor was shut down, and all of it has ended.
        """
        self._check_lives()
        maximum = None if maximum is None else _whole("maximum", maximum)
        self._elastic.adapt(_whole("minimum", minimum), maximum)

    def _end(self) -> None:
        """End the program, if it is only this executor's."""
        self._elastic.end(self._pool)
        _leave(self._own)


def _whole(name: str, value: object, least: int = 1) -> int:
    """An argument as an int: those of NumPy, which compute otherwise, are not passed on.

    Raises:
        TypeError: It is no whole number.
        ValueError: It is less than ``least``.
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # what it refuses is the question
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {value!r:.100}") from None
    if number < least:
        raise ValueError(f"{name} must be at least {least}, not {number}")
    return number


# The values of a map -------------------------------------------------------------------------------------------------


class _Slot:
    """What takes the value of one item, or of several that travel together."""

    __slots__ = ("done", "error", "items", "stream", "value")

    def __init__(self, stream: _Stream, items: int) -> None:
        self.stream = stream
        self.items = items
        self.done = False
        self.value: Any = None
        self.error: BaseException | None = None

    def set_running_or_notify_cancel(self) -> bool:
        return not self.stream.cancelled

    def set_result(self, result: Any, /) -> None:
        self.value = result
        self._end()

    def set_exception(self, exception: BaseException, /) -> None:
        self.error = exception
        self._end()

    def _end(self) -> None:
        self.done = True
        self.stream.done += self.items
        if self.stream.awaited is self:
            self.stream.news.set()


def _call_each(fn: Callable[..., T], items: list[tuple[Any, ...]]) -> list[T]:
    return [fn(*item) for item in items]


class _Stream:
    """A map: draws items as their values are taken.

    Attributes:
        cancelled: Whether the values are not taken any more.
        done: How many items are done.
        news: Set when the value of the ``awaited`` slot has come.
    """

    def __init__(
        self,
        executor: MalleableExecutor,
        pool: Pool,
        fn: Callable[..., Any],
        items: Iterator[tuple[Any, ...]],
        chunksize: int,
        progress: MapProgress | None,
    ) -> None:
        self.cancelled = False
        self.done = 0
        self.awaited: _Slot | None = None
        self.news = threading.Event()
        self._executor = executor  # which would close its pool if nothing referred to it
        self._pool = pool
        self._fn = fn
        self._items = items
        self._chunksize = chunksize
        self._progress = progress
        self._slots: deque[_Slot] = deque()

    def ahead(self, count: int) -> None:
        """Draw up to ``count`` items."""
        for _ in range(-(-count // self._chunksize)):
            items = list(islice(self._items, self._chunksize))
            if not items:
                return
            slot = _Slot(self, len(items))
            alone = self._chunksize == 1
            self._pool.submit(slot, self._fn if alone else _call_each, items[0] if alone else (self._fn, items), {})
            self._slots.append(slot)

    def values(self, until: float | None) -> Iterator[Any]:
        """The values, in order."""
        try:
            with self._progress or nullcontext():
                while self._slots:
                    values = self._next(until)
                    while values:  # none is kept here while its taker works with it
                        yield values.pop()
                if self._pool.closed:  # then no more items were drawn, and who misses values hears of it
                    self.ahead(1)
        finally:
            self.cancelled = True
            if self._slots:  # places may have many of its items, if those before were quick
                self._pool.withdraw(lambda target: isinstance(target, _Slot) and target.stream is self)

    def _next(self, until: float | None) -> list[Any]:
        """The values of the next slot, the last one first."""
        slot = self._slots[0]
        if not slot.done:
            self._wait(slot, until)
        self._slots.popleft()
        if slot.error is not None:
            raise slot.error
        if not self._pool.closed:  # else what was submitted before still comes
            self.ahead(self._chunksize)
        if self._progress is not None:
            self._progress.update(self.done, last=not self._slots)
        return [slot.value] if self._chunksize == 1 else slot.value[::-1]

    def _wait(self, slot: _Slot, until: float | None) -> None:
        self.news.clear()
        self.awaited = slot
        while not slot.done:
            left_s = 1.0 if until is None else until - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            if self._progress is None:
                self.news.wait(min(left_s, 1.0))
            else:
                self.news.wait(min(left_s, LIVE_EVERY_S))
                self._progress.update(self.done)
        self.awaited = None  # or it would keep the value


# The program around --------------------------------------------------------------------------------------------------

_pool: Pool | None = None
"""Of the executor that was opened last, until all of it has ended."""
_last: weakref.ref[MalleableExecutor] | None = None
"""The executor that was opened last."""
_ours: Job | None = None
"""The program that an executor has begun, and that has not ended."""


def open_executor() -> MalleableExecutor | None:
    """Find the executor that is open, if there is one."""
    found = _last() if _last is not None else None
    return None if found is None or found._pool.closed else found  # noqa: SLF001 - its own


def _prestart(places: int) -> None:
    """Start the places of a program that an executor begins as the first thing in this process."""
    ours = "apgas.runtime.driver" not in sys.modules and environment.launched_by(os.environ).kind == "none"
    if ours and environment.transport() == "tcp" and threading.current_thread() is threading.main_thread():
        with suppress(OSError):  # the reason is raised when they are wanted
            children.prestart(places)


def _check_caller() -> None:
    """Refuse an executor where it could not work.

    Raises:
        UsageError: With the reason.
    """
    from apgas.runtime.context import this_thread
    from apgas.runtime.driver import current_driver

    driver = current_driver()
    if driver is None:
        return
    if driver.core.here != 0 or this_thread.waiting is not nullcontext:
        raise UsageError(
            "a MalleableExecutor is opened by the program itself, on place 0, not in a task or another activity: "
            "return what there is to do, and let the program submit it"
        )
    if _pool is not None and not _pool.closed:
        raise UsageError("a MalleableExecutor is open already: use that one, or shut it down before")


def _program() -> tuple[Driver, Job | None]:
    """The place to work on, and the program, if an executor has begun it: it ends with that, or with the process.

    Raises:
        UsageError: None can begin here, or now.
    """
    global _ours  # noqa: PLW0603 - one program a process
    from apgas.runtime import program
    from apgas.runtime.driver import current_driver

    _await_last()
    driver = current_driver()
    if driver is not None:
        return driver, None
    if threading.current_thread() is not threading.main_thread():
        raise UsageError(
            "a MalleableExecutor that starts its places is opened in the main thread only: there it hears of Ctrl-C; "
            "open it there, and let other threads submit"
        )
    # these places can be lost without harm, because they are no processes of MPI's
    alone = environment.launched_by(os.environ).kind == "none" and environment.transport() == "tcp"
    _ours = program.begin(survive=alone, alone=alone)
    return _ours.driver, _ours if alone else None


def _await_last() -> None:
    """Wait for the last executor, if that was not waited for, and end its program, if it is the executor's own."""
    if _pool is not None:
        _pool.await_end()
    if environment.launched_by(os.environ).kind == "none":
        _leave(_ours)


def _leave(job: Job | None) -> None:
    """End a program that an executor has begun, unless it has ended."""
    global _ours  # noqa: PLW0603 - one program a process
    if job is not None and job is _ours:
        from apgas.runtime import program

        _ours = None
        program.shut_down(job, None)


def _at_exit() -> None:
    """End what is open, before the threads of the process end."""
    error = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
    try:
        if _pool is not None:
            if isinstance(error, KeyboardInterrupt):
                _pool.abandon("the program was interrupted")
            _pool.close(cancel=isinstance(error, BaseException))
            _await_last()
        _leave(_ours)
    except KeyboardInterrupt as error:
        from apgas.runtime import program

        program.end_interrupted(error)  # Python would report it and end with 0, though tasks are lost


# as concurrent.futures does: later, what this registers with atexit would not be called
threading._register_atexit(_at_exit)  # type: ignore[attr-defined]  # noqa: SLF001 - nothing public is as early
