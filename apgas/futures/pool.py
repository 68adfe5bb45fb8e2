"""An executor on place 0: one thread that is notified of all that happens, and does what the state machine decides.

The thread that uses the executor only adds to a queue, so that it may be interrupted at any time, as in a notebook.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import BrokenExecutor, Future, InvalidStateError
from contextlib import suppress
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol, TypeAlias, TypeVar, assert_never, cast

import msgspec

from apgas.core.identity import Place
from apgas.errors import ApgasError, PlaceGoneError, SlowPeerError, UsageError
from apgas.futures import worker
from apgas.futures.core import Effect, Lost, PoolCore, Recall, Send
from apgas.futures.worker import Function, Item, Packed, Result, Unreadable
from apgas.runtime import serialization
from apgas.runtime.driver import Driver, keep_driver
from apgas.runtime.serialization import Definition, SentFunctions

T = TypeVar("T")

_AT_ONCE: Final = 1000
"""Events that are taken before tasks are sent again."""
_STILLBORN: Final = 3
"""Places in a row that may die in their initializer: one may be killed by others, but not each."""


class Target(Protocol):
    """What takes the value of a task: a future, or what behaves like one."""

    def set_running_or_notify_cancel(self) -> bool:
        """Tell whether the task is still wanted; from now on it cannot be cancelled."""

    def set_result(self, result: Any, /) -> None:
        """Take the task's value."""

    def set_exception(self, exception: BaseException, /) -> None:
        """Take the task's error."""


class Task(msgspec.Struct, eq=False):
    """A call that is to be run."""

    target: Target
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    begun: bool = False
    unwanted: bool = False

    def begin(self) -> bool:
        """Whether it is wanted; from now on it cannot be cancelled."""
        with suppress(RuntimeError):  # the program has ended it by hand
            self.begun = self.begun or self.target.set_running_or_notify_cancel()
        return self.begun and not self.unwanted

    def succeed(self, value: object) -> None:
        """End with a value."""
        with suppress(InvalidStateError):
            self.target.set_result(value)

    def fail(self, error: BaseException) -> None:
        """End with an error."""
        with suppress(InvalidStateError):  # it was cancelled
            self.target.set_exception(error)


_Event: TypeAlias = Task | Callable[[], object]
_numbers: Final = count()


class Pool:
    """The tasks of one executor.

    Attributes:
        core: What decides; see ``ask``.
        closed: Whether it is to end.
        broken: Why nothing can be run any more.
        on_loss: Called when a place was lost, on the pool's thread.
        ended: Set when all tasks have ended after ``close``, or the pool was abandoned.
    """

    def __init__(
        self, driver: Driver, retries: int, initializer: tuple[Callable[..., object], tuple[Any, ...]] | None
    ) -> None:
        self.broken: BaseException | None = None
        self.closed = False
        self.on_loss: Callable[[], None] | None = None
        self.ended = threading.Event()
        self._closing = threading.Lock()
        self._driver = driver
        self._number = next(_numbers)
        self._initializer = None if initializer is None else Packed(initializer)
        self.core = PoolCore(retries)
        self._inbox: SimpleQueue[_Event] = SimpleQueue()
        self._tasks: dict[int, Task] = {}
        self._task_numbers = count()
        self._sent = SentFunctions()
        self._teaching: dict[int, Definition] = {}
        self._chunks: Counter[int] = Counter()
        self._scattered: dict[tuple[int, int], tuple[Packed, Any]] = {}
        self._settled: list[tuple[frozenset[int], Future[None]]] = []
        self._beginning: set[int] = set()
        self._stillborn = 0
        worker.listen(self._number, self._hear)
        self._program = driver.expected()  # kept here, for the driver refers to it weakly
        self._program.add_done_callback(lambda _: self.abandon("the program is over"))
        driver.on_place_died.append(self._died)
        self._thread = threading.Thread(target=self._run, name="apgas-futures", daemon=True)
        self._thread.start()

    # any thread ------------------------------------------------------------------------------------------------------

    def submit(
        self, target: Target, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Have a call run; ``target`` takes its value.

        Raises:
            RuntimeError: The pool is to end, or is broken.
        """
        with self._closing:
            if self.broken is not None:
                raise self.broken
            if self.closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._inbox.put(Task(target, function, args, kwargs))

    def refuse_own_thread(self, what: str) -> None:
        """Refuse what waits for the pool's thread, on that thread, which would wait for ever.

        Raises:
            UsageError: This is that thread.
        """
        if threading.current_thread() is self._thread:
            raise UsageError(
                f"{what} waits for the executor, whose thread calls the callbacks of futures: let another thread do it"
            )

    def ask(self, act: Callable[[], T]) -> T:
        """Call ``act`` on the pool's thread, and wait for what it returns."""
        if threading.current_thread() is self._thread:  # in a callback of a future
            return act()
        future: Future[T] = Future()

        def answer() -> None:
            try:
                future.set_result(act())
            except BaseException as error:  # noqa: BLE001 - it is raised in the caller
                future.set_exception(error)

        self._inbox.put(answer)
        while not self.ended.is_set():
            with suppress(TimeoutError):
                return future.result(0.5)
        raise ApgasError("the executor is closed")

    def withdraw(self, unwanted: Callable[[Target], bool]) -> None:
        """Run no task any more whose target is not wanted; those that run end."""
        self._inbox.put(partial(self._withdraw, unwanted))

    def scatter(self, value: T) -> T:
        """Have all places keep ``value``; what is returned stands for it in the arguments of tasks.

        Raises:
            TypeError: It cannot be pickled.
        """
        packed = Packed(value)

        def act() -> worker.Scattered:
            key = self._number, len(self._scattered)
            self._scattered[key] = packed, value
            for place in self._driver.places():
                self._keep(place, key, self._scattered[key])
            return worker.Scattered(key)

        return cast("T", self.ask(act))

    def _keep(self, place: Place, key: tuple[int, int], kept: tuple[Packed, Any]) -> None:
        """Send what was scattered; it arrives before all that is sent there later."""
        packed, value = kept
        if place.id == self._driver.core.here:
            worker.keep(key, value)
        else:
            self._driver.immediate(place, (worker.keep, (key, packed), {}))

    def close(self, *, cancel: bool) -> None:
        """End when all tasks have ended; ``cancel`` those that wait."""
        with self._closing:
            self.closed = True
        self._inbox.put(partial(self._close, cancel=cancel))

    def abandon(self, why: str) -> None:
        """End at once; what runs is not waited for."""
        self.close(cancel=False)
        self._inbox.put(partial(self._fail_all, ApgasError(why)))
        self._inbox.put(self._end)

    def await_end(self) -> None:
        """Wait until it has ended, or the program is over, which ends it in its turn."""
        while not self.ended.wait(1.0):  # a lock that waits for ever would not be interrupted everywhere
            if self._driver.core.over:
                return

    def _hear(self, what: str, place: int, *about: Any) -> None:
        """Take what a place tells; see ``Worker.tell``."""
        acts: dict[str, Callable[..., None]] = {
            "took": self._took,
            "handed_back": self.core.handed_back,
            "began": self._began,
        }
        self._inbox.put(partial(acts[what], place, *about))

    def add(self, places: Iterable[Place]) -> None:
        """Let places work."""
        for place in places:
            self._inbox.put(partial(self._add, place))

    def stay(self, places: Iterable[int]) -> None:
        """Let places that were to leave work again."""
        for place in places:
            self._inbox.put(partial(self.core.joined, place))

    def left(self, places: Iterable[int]) -> None:
        """Places have left."""
        for place in places:
            self._inbox.put(partial(self._gone, place))

    def broke(self, why: str) -> None:
        """Nothing can be run any more."""
        self._inbox.put(partial(self._break, BrokenExecutor(why), None))

    def leave(self, places: Collection[int]) -> Future[None]:
        """Have places hand back what they have; the future is done when nothing is under way there."""
        future: Future[None] = Future()

        def act() -> None:
            self._carry_out(self.core.leave(places))
            self._settled.append((frozenset(places), future))

        self._inbox.put(act)
        return future

    # the pool's thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        keep_driver(self._driver)
        try:
            while not self.ended.is_set():
                self._take(self._inbox.get())
                with suppress(Empty):
                    for _ in range(_AT_ONCE):
                        self._take(self._inbox.get_nowait())
                self._act()
        except BaseException as error:
            self._break(BrokenExecutor(f"the executor has failed: {serialization.summary(error)}"), error)
            self._end()
            raise

    def _take(self, event: _Event) -> None:
        if not isinstance(event, Task):
            event()
        elif self.broken is not None:
            event.fail(self.broken)
        else:
            number = next(self._task_numbers)
            self._tasks[number] = event
            self.core.submitted(number)

    def _act(self) -> None:
        while self._carry_out(self.core.fill()):
            pass
        if self._settled:
            self._settled = [each for each in self._settled if not self._settle(*each)]
        if self._over and self._inbox.empty():
            self._end()

    @property
    def _over(self) -> bool:
        return self.closed and not self._tasks

    def _settle(self, places: frozenset[int], future: Future[None]) -> bool:
        if any(map(self.core.load, places)):
            return False
        future.set_result(None)
        return True

    def _carry_out(self, effects: list[Effect]) -> bool:
        """Carry out effects; returns whether the core may have more, because not all was sent."""
        again = False
        for effect in effects:
            match effect:
                case Send(place, tasks):
                    again |= not self._send(place, tasks)
                case Recall(place, everything):
                    about = (self._number, self._chunks[place], everything)
                    self._driver.immediate(self._driver.place(place), (worker.recall, about, {}))
                case Lost(place, tasks):
                    for number in tasks:
                        if (task := self._tasks.pop(number, None)) is not None:
                            task.fail(self._driver.death(place, 0))
                case _:
                    assert_never(effect)
        return again

    def _send(self, place: int, tasks: Sequence[int]) -> bool:
        """Send tasks; False if some of them were not to be sent."""
        items: list[Item] = []
        dropped: list[int] = []
        functions: dict[int, Any] = {}
        for number in tasks:
            task = self._tasks[number]
            if not task.begin():
                dropped.append(number)
                continue
            try:
                function = functions.get(id(task.function))
                if function is None:
                    function = functions[id(task.function)] = self._function(place, task.function, number)
                items.append((number, function, worker.packed((task.args, task.kwargs))))
            except Exception as error:  # noqa: BLE001 - code of the program; another attempt says more
                dropped.append(number)
                task.fail(_refused(task, error))
        for number in dropped:
            del self._tasks[number]
        self.core.dropped(place, dropped)
        if items and not self._deliver(place, items):
            return False
        return not dropped

    def _deliver(self, place: int, items: list[Item]) -> bool:
        driver = self._driver
        if place == driver.core.here:
            items = [(number, worker.arrived(function), worker.arrived(call)) for number, function, call in items]
        try:
            driver.uncounted(driver.place(place), (worker.take, (self._number, items), {}))
        except (PlaceGoneError, SlowPeerError):
            # an order of which no handler of ours has heard takes it away; or it stands still
            self.core.leave([place])
            self.core.handed_back(place, [number for number, _, _ in items])
            return False
        self._chunks[place] += 1
        return True

    def _function(self, place: int, function: Callable[..., Any], task: int) -> object:
        """Make a function ready to travel."""
        try:
            definition = self._sent.definition(function)
        except Exception:  # noqa: BLE001 - what cannot be pickled is reported with all of the call
            definition = None
        if definition is None:
            return Packed(function)
        if place in definition.sent_to:
            return Function(definition.number, None)
        self._teaching[task] = definition
        return Function(definition.number, definition.body)

    def _took(self, place: int, results: list[Result], seconds: float) -> None:
        awaited = set(self.core.done(place, [number for number, _, _ in results], seconds))
        for number, value, error in results:
            task = self._tasks.pop(number, None) if number in awaited else None
            if task is None:
                continue
            if self._teaching and (definition := self._teaching.pop(number, None)) is not None:
                definition.sent_to.add(place)
            if error is not None or isinstance(value, Unreadable):
                task.fail(serialization.load_error(value.error if error is None else error))
            else:
                task.succeed(value)

    def _add(self, place: Place) -> None:
        for key, kept in self._scattered.items():
            self._keep(place, key, kept)
        self._beginning.add(place.id)
        with suppress(PlaceGoneError):  # it leaves already
            initializer = self._initializer
            if place.id == self._driver.core.here:
                initializer = worker.arrived(initializer)
            self._driver.uncounted(place, (worker.begin, (self._number, initializer), {}))

    def _began(self, place: int, error: bytes | None) -> None:
        self._beginning.discard(place)
        if error is None:
            self._stillborn = 0
            self.core.joined(place)
        else:
            cause = serialization.load_error(error)
            self._break(
                BrokenExecutor(f"the initializer failed on place {place}: {serialization.summary(cause)}"), cause
            )

    def _died(self, place: Place) -> None:
        self._inbox.put(partial(self._lost, place.id))

    def _lost(self, place: int) -> None:
        self._stillborn += place in self._beginning
        self._gone(place)
        if self.on_loss is None or self.broken is not None or self._over:
            return
        if self._stillborn < _STILLBORN:
            self.on_loss()
        else:
            error = BrokenExecutor(f"{_STILLBORN} places in a row died in their initializer, or before they began it")
            self._break(error, self._driver.death(place, 0))

    def _gone(self, place: int) -> None:
        self._beginning.discard(place)
        self._carry_out(self.core.gone(place))

    def _withdraw(self, unwanted: Callable[[Target], bool]) -> None:
        found = {number: task for number, task in self._tasks.items() if unwanted(task.target)}
        for task in found.values():
            task.unwanted = True
        ended, effects = self.core.withdraw(found)
        for number in ended:
            del self._tasks[number]
        self._carry_out(effects)

    def _close(self, *, cancel: bool) -> None:
        if cancel:
            for number in self.core.cancel_all():
                task = self._tasks.pop(number)
                if isinstance(task.target, Future):
                    task.target.cancel()
                if task.begin():
                    task.fail(ApgasError("the executor was closed before this task could run again"))

    def _break(self, error: BaseException, cause: BaseException | None) -> None:
        error.__cause__ = cause
        self.broken = error
        self._fail_all(error)

    def _fail_all(self, error: BaseException) -> None:
        self.core.cancel_all()
        for task in self._tasks.values():
            if task.begin():
                task.fail(error)
        self._tasks.clear()

    def _end(self) -> None:
        worker.listen(self._number, None)
        with suppress(ValueError):
            self._driver.on_place_died.remove(self._died)
        if not self._driver.core.over:
            for place in self._driver.places():
                self._driver.immediate(place, (worker.end, (self._number,), {}))
        for _, future in self._settled:
            future.set_result(None)
        self.ended.set()


def _refused(task: Task, error: Exception) -> BaseException:
    """The error that says what of a call cannot be sent."""
    try:
        serialization.dumps((task.function, task.args, task.kwargs), of_call=True)
    except Exception as better:  # noqa: BLE001 - code of the program
        return better
    return error
