"""A place of an executor at work: runs the tasks that it is sent, one after another, and sends the results back.

Tasks come in an activity that no finish counts. The first one that finds no other at work runs what there is until
there is no more, so that a place which is to leave waits for it; the others only add to the queue. Results go back
together, but none waits for longer than ``LATEST_S`` for those after it.
"""

from __future__ import annotations

import reprlib
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Literal, TypeAlias

import msgspec

from apgas.errors import SlowPeerError, UsageError
from apgas.runtime import context, exceptions, serialization
from apgas.runtime.driver import Driver, PlaceState, required_driver
from apgas.runtime.serialization import Pickled, received_function
from apgas.transport.base import Buffer

LATEST_S: Final = 0.005
"""How long a result may wait for others to travel with."""

# What travels --------------------------------------------------------------------------------------------------------


class Packed(Pickled):
    """Something of the program, pickled apart: if it cannot be unpickled, what it travels with still arrives."""

    def travel(self) -> tuple[Any, ...]:
        """Arrives as what ``unpacked`` returns."""
        return unpacked, super().travel()[1]

    def here(self) -> Any:
        """Arrive on this place."""
        return unpacked(*map(bytes, self._payload))


class Scattered:
    """Stands for an object in the arguments of tasks; where they run, it is that object.

    ``key``: the executor's number, and its own.
    """

    def __init__(self, key: tuple[int, int]) -> None:
        self.key = key

    def __reduce__(self) -> tuple[Any, ...]:
        return _gathered, (self.key,)


def _gathered(key: tuple[int, int]) -> Any:
    """The object that a place keeps for a ``Scattered``."""
    kept = _kept.get()
    if key not in kept:
        raise UsageError("what was scattered is gone: its executor was shut down")
    value = kept[key]
    if isinstance(value, Unreadable):
        raise exceptions.load(value.error)
    return value


class Unreadable(msgspec.Struct, frozen=True):
    """What stands for something that cannot be unpickled here."""

    error: bytes


def unpacked(*buffers: Buffer) -> Any:
    """Unpickle something; if that fails, an ``Unreadable``."""
    try:
        return serialization.loads(buffers)
    except BaseException as error:  # noqa: BLE001 - code of the program, which may raise anything
        return Unreadable(dumped(error, "while it was unpickled"))


def dumped(error: BaseException, where: str) -> bytes:
    """Pickle an error of this place with its traceback, and with ``where`` in the program it was raised."""
    here = required_driver().here
    return exceptions.dump(error, f"raised on place {here.id} ({here.node}) {where}:\n{exceptions.text(error)}")


class Function(msgspec.Struct, frozen=True):
    """A function that travels by its value: with its definition until the other place is known to have that."""

    number: int
    body: bytes | None


Item: TypeAlias = tuple[int, Any, Any]
"""A task: its number; what it calls, a function, a ``Function`` or ``Unreadable``; its arguments, or ``Unreadable``."""

Result: TypeAlias = tuple[int, Any, bytes | None]
"""A task's number; its value, or ``Unreadable``; its error if it has one."""


def packed(value: object) -> object:
    """Make ``value`` ready to travel: apart, if it could fail to arrive.

    Raises:
        TypeError: It cannot be pickled.
    """
    return value if serialization.is_plain(value) else Packed(value)


# At work -------------------------------------------------------------------------------------------------------------


class Worker:
    """What one place has to do for one executor."""

    def __init__(self, driver: Driver, executor: int) -> None:
        self._driver = driver
        self._executor = executor
        self._lock = threading.Lock()
        self._queue: deque[Item] = deque()
        self._functions: dict[int, Callable[[], Callable[..., Any]]] = {}
        self._working = False
        self._chunks = 0
        self._recalls: deque[tuple[int, bool]] = deque()
        self._results: list[Result] = []
        self._seconds = 0.0
        self._due = False

    def take(self, items: list[Item]) -> None:
        """Queue tasks, and work, unless that is being done."""
        with self._lock:
            self._chunks += 1
            for _, function, _ in items:
                if isinstance(function, Function) and function.body is not None:
                    self._functions.setdefault(function.number, received_function(function.body))
            self._queue.extend(items)
            begin, self._working = not self._working, True
        self._hand_back()
        if begin:
            while self._work():
                pass

    def recall(self, chunks: int, *, everything: bool) -> None:
        """Hand back what was not begun, once all ``chunks`` that were sent before have arrived."""
        with self._lock:
            self._recalls.append((chunks, everything))
        self._driver.chores.submit(self._hand_back)

    def _work(self) -> bool:
        """Run the next task; False if there is none."""
        with self._lock:
            item = self._queue.popleft() if self._queue else None
            self._working = item is not None
        if item is None:
            self._flush()
            return False
        number, function, call = item
        began_s = time.perf_counter()
        value: Any = None
        error: bytes | None = None
        try:
            if isinstance(function, Function):
                function = self._functions[function.number]()
            unreadable = next((part for part in (function, call) if isinstance(part, Unreadable)), None)
            if unreadable is not None:
                error = unreadable.error
            else:
                value = _run(function, *call)
        except BaseException as raised:  # noqa: BLE001 - a task's error travels, whatever it is
            error = dumped(raised, f"in {_shown(function, call)}")
        with self._lock:
            self._results.append((number, value, error))
            self._seconds += time.perf_counter() - began_s
            due, self._due = self._due, bool(self._queue)
        if self._due and not due:
            self._driver.transport.loop.call_later(LATEST_S, lambda: self._driver.chores.submit(self._flush))
        return True

    def _flush(self) -> None:
        """Send the results that there are."""
        with self._lock:
            results, self._results = self._results, []
            seconds, self._seconds = self._seconds, 0.0
            self._due = False
        if results:
            with suppress(SlowPeerError):  # they have to go, even to a place that takes nothing for a minute
                self._driver.transport.throttle(0)
            self.tell("took", [_ready(*result) for result in results], seconds)

    def tell(self, what: Literal["took", "handed_back", "began"], *about: Any) -> None:
        """Have the executor hear something of this place.

        Args:
            what: "took" results, of some seconds of work; "handed_back" tasks; "began", or its initializer has failed.
            *about: The results and the seconds; the tasks; the error or None.
        """
        driver = self._driver
        driver.immediate(driver.place(0), (heard, (self._executor, what, driver.core.here, *about), {}))

    def _hand_back(self) -> None:
        with self._lock:
            if not self._recalls or self._recalls[0][0] > self._chunks:
                return
            _, everything = self._recalls.popleft()
            count = len(self._queue) if everything else (len(self._queue) + 1) // 2
            back = [self._queue.pop()[0] for _ in range(count)]
        self._flush()
        self.tell("handed_back", back[::-1])


@context.runs("function")
def _run(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


def _ready(number: int, value: Any, error: bytes | None) -> Result:
    """Make a result ready to travel; one that cannot becomes an error."""
    try:
        return number, packed(value), error
    except Exception as refused:  # noqa: BLE001 - code of the program
        return number, None, dumped(refused, "as its value was to be sent back")


_shortened: Final = reprlib.Repr()
_shortened.maxother = _shortened.maxstring = 60


def _shown(function: object, call: Any) -> str:
    """Write a call for people."""
    try:
        args, kwargs = call
        written = [_shortened.repr(arg) for arg in args]
        written += [f"{name}={_shortened.repr(value)}" for name, value in kwargs.items()]
        return f"{serialization.name_of(function)}({', '.join(written[:8])}{', ...' if len(written) > 8 else ''})"
    except Exception:  # noqa: BLE001 - code of the program
        return "a task"


# What place 0 has done here, and what is reported to it ---------------------------------------------------------------

_workers: Final = PlaceState(dict[int, Worker])
_kept: Final = PlaceState(dict[tuple[int, int], Any])
"""What was scattered to this place."""

_listeners: Final = PlaceState(dict[int, Callable[..., None]])
"""(place 0) The executors that are open."""


def listen(executor: int, hear: Callable[..., None] | None) -> None:
    """(place 0) Have ``hear``, which must not wait, called with what places tell an executor; None: no more."""
    if hear is None:
        _listeners.get().pop(executor, None)
    else:
        _listeners.get()[executor] = hear


def begin(executor: int, initializer: Any) -> None:
    """Begin to work for an executor: call its initializer, a function with its arguments, if there is one."""
    driver = required_driver()
    worker = _workers.get()[executor] = Worker(driver, executor)
    error: bytes | None = None
    if isinstance(initializer, Unreadable):
        error = initializer.error
    elif initializer is not None:
        function, args = initializer
        try:
            _run(function, args, {})
        except BaseException as raised:  # noqa: BLE001 - it travels
            error = dumped(raised, f"in the initializer {_shown(function, (args, {}))}")
    worker.tell("began", error)


def take(executor: int, items: list[Item]) -> None:
    """Work on tasks of an executor."""
    _workers.get()[executor].take(items)


def recall(executor: int, chunks: int, everything: bool) -> None:
    """Hand back tasks of an executor; see ``Worker.recall``."""
    _workers.get()[executor].recall(chunks, everything=everything)


def keep(key: tuple[int, int], value: Any) -> None:
    """Keep what was scattered."""
    _kept.get()[key] = value


def end(executor: int) -> None:
    """Work no more for an executor."""
    _workers.get().pop(executor, None)
    kept = _kept.get()
    for key in [key for key in kept if key[0] == executor]:
        del kept[key]


def heard(executor: int, what: str, place: int, *about: Any) -> None:
    """(place 0) Have an executor, if it is open, hear of a place; see ``Worker.tell``."""
    if (hear := _listeners.get().get(executor)) is not None:
        hear(what, place, *about)


def arrived(value: object) -> Any:
    """What becomes of something packed on this place itself."""
    return value.here() if isinstance(value, Packed) else value
