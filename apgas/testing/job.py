"""Simulated jobs for tests of malleable programs: places are threads of one process, and the test is the scheduler."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import math
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final, Generic, TypeVar, assert_never

from apgas.core.messages import PlaceInfo
from apgas.core.place import PlaceCore
from apgas.core.resilient import ResilientPlaceCore
from apgas.core.resize import OutcomeKind, RecordKind, ResizeRecord
from apgas.errors import ApgasError, UsageError
from apgas.malleability import orders as wire
from apgas.malleability.communicator import OrderListener
from apgas.malleability.orders import Lost
from apgas.runtime import context, environment, process, serialization
from apgas.runtime.driver import Driver, current_driver, working_for
from apgas.runtime.program import Program, all_gone, end_places, run_main
from apgas.runtime.resizing import Resizing
from apgas.runtime.spawning import AssignIds, Spawned
from apgas.runtime.validation import checked
from apgas.transport.auth import new_token
from apgas.transport.base import TransportClosedError, UnknownPeerError
from apgas.transport.tcp import TcpTransport

T = TypeVar("T")

END_S: Final = 2.0
"""How long places may take to end once the program is over."""


class JobHangsError(AssertionError):
    """The program did not end in time; the text shows where its places are."""


class JobFailedError(AssertionError):
    """What would end a real job: a broken message, an error in an immediate, a lost place."""


class Job(Generic[T]):
    """One run of a program on simulated places.

    Each place has its own threads, messages, references and ``PlaceLocal`` objects; what travels between places is
    pickled, as between processes. Global variables are shared, for it is one process.

    Args:
        main: The program, as for ``apgas.run``.
        *args: Its arguments.
        places: How many places there are at the start; a multiple of ``places_per_node``.
        places_per_node: How many places share a node; orders count nodes.
        deadline_s: Within how many seconds the program has to end.
        resilient: Whether it goes on when places die, as with ``APGAS_RESILIENT=1``.
        setup: What every place runs before anything else, as for ``apgas.run``.

    Attributes:
        resizes: How the orders ended, in the order of their ends; the same as ``apgas.resizes()`` in the program.
        spare_nodes: How many nodes ``apgas.request_grow`` is granted in all; an order follows. Offers are all taken.

    Raises:
        UsageError: The numbers do not fit together.

    Example:
        ``job = Job(main, places=2)``, ``job.grow(2)``, ``assert job.run() == 42``, ``assert job.outcomes == ["done"]``.
    """

    def __init__(
        self,
        main: Callable[..., T],
        *args: object,
        places: int = 3,
        places_per_node: int = 1,
        deadline_s: float = 30.0,
        resilient: bool = False,
        setup: Callable[[], object] | None = None,
    ) -> None:
        if places_per_node < 1 or places < 1 or places % places_per_node:
            raise UsageError(f"a job cannot have {places} places with {places_per_node} on each node")
        self.resizes: list[ResizeRecord] = []
        self._main = main
        self._args = args
        self._deadline_s = deadline_s
        self._places_per_node = places_per_node
        self._resilient = resilient
        self._places = InProcessPlaces(places_per_node, resilient=resilient, setup=setup)
        self._names = self._places.node_names(places // places_per_node)
        self._scheduler = TestScheduler(self._places.node_names)
        self._over = threading.Event()
        self._value: T | None = None
        self._error: BaseException | None = None
        self._failure = ""
        self._began = False

    # orders ----------------------------------------------------------------------------------------------------------

    def grow(
        self, nodes: int = 1, *, on: Sequence[str] = (), at_progress: float | None = None, fails: str = ""
    ) -> Order:
        """Order the program to grow: from anywhere, before it runs or while it does.

        Args:
            nodes: By how many nodes.
            on: Their names, one for each; new ones by default.
            at_progress: Give the order when the program calls ``apgas.progress`` with at least this; else it is given
                as soon as there is a handler.
            fails: The nodes cannot be started, for this reason.

        Returns:
            The order: wait for it, or withdraw it.
        """
        names = tuple(on) or self._places.node_names(max(0, nodes))
        if fails:
            self._places.failures.update(dict.fromkeys(names, fails))
        return self._scheduler.give("grow", nodes, names, at_progress)

    def shrink(self, nodes: int = 1, *, wish: Sequence[str] = (), at_progress: float | None = None) -> Order:
        """Order the program to shrink: from anywhere, before it runs or while it does.

        Args:
            nodes: By how many nodes.
            wish: The names of nodes that should go preferably: what ``apgas.shrink_wish`` gives the handler.
            at_progress: Give the order when the program calls ``apgas.progress`` with at least this; else it is given
                as soon as there is a handler.

        Returns:
            The order: wait for it, or withdraw it.
        """
        return self._scheduler.give("shrink", nodes, tuple(wish), at_progress)

    def workers(self, count: int, *, at_progress: float | None = None, core_ids: str = "") -> Order:
        """Order the program to change the number of threads that compute in each place.

        Args:
            count: How many.
            core_ids: The cores of each node that it may use, as ``0-3,8``: what ``apgas.core_ids`` gives it.
            at_progress: Give the order when the program calls ``apgas.progress`` with at least this; else it is given
                as soon as there is a handler.

        Returns:
            The order: wait for it, or withdraw it.
        """
        return self._scheduler.give("workers", count, (), at_progress, core_ids)

    @property
    def spare_nodes(self) -> int:
        """How many nodes the simulated scheduler has left to grant."""
        return self._scheduler.spare_nodes

    @spare_nodes.setter
    def spare_nodes(self, nodes: int) -> None:
        self._scheduler.spare_nodes = nodes

    @property
    def orders(self) -> list[Order]:
        """The orders, in the order in which they were asked for."""
        return list(self._scheduler.orders)

    @property
    def outcomes(self) -> list[OutcomeKind]:
        """How the orders ended: ``done``, ``refused``, ``aborted`` or ``not_due``, in the order of their ends."""
        return [record.outcome for record in self.resizes]

    def kill(self, place: int) -> None:
        """Let a place die suddenly, as by ``kill -9``: from anywhere while the program runs.

        What it ran is cut off from the others at once, but cannot be stopped: its threads run to their end.

        Args:
            place: Its id.

        Raises:
            UsageError: It is place 0, with which a job ends, or there is no such place (any more).
        """
        self._places.kill(place, END_S)

    @property
    def lost_nodes(self) -> list[str]:
        """The nodes that the program reported as lost, because their places died."""
        return [node for message in self._scheduler.messages if isinstance(message, Lost) for node in message.nodes]

    # the run ---------------------------------------------------------------------------------------------------------

    def run(self) -> T:
        """Run the program to its end.

        Returns:
            What ``main`` returned.

        Raises:
            UsageError: The job has run already.
            JobHangsError: It did not end within its deadline.
            JobFailedError: Something happened that would end a real job.
            BaseException: What ``main`` raised.
        """
        __tracebackhide__ = True
        if self._began:
            raise UsageError("a job runs once: make another")
        self._began = True
        before_s = sys.getswitchinterval()
        with ExitStack() as stack:
            stack.callback(sys.setswitchinterval, before_s)
            sys.setswitchinterval(process.SWITCH_S)
            stack.enter_context(inherited())
            self._run()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # it is the program's once the program has ended

    def _run(self) -> None:
        __tracebackhide__ = True
        driver = self._places.start(tuple(name for name in self._names for _ in range(self._places_per_node)))
        driver.on_place_lost = self._lost
        with working_for(driver):
            this = Program(driver, lambda: Resizing(driver, self._places, self._scheduler))
            self.resizes = this.resizing.records
            this.resizing.progress_every_s = 0.0
            this.resizing.share_nodes(self._places_per_node)
            self._scheduler.start(this.resizing)
            main = threading.Thread(target=self._be_main, args=(this,), name="apgas-main", daemon=True)
            main.start()
            try:
                self._await_end(driver)
            finally:
                self._part(this)

    def _be_main(self, this: Program) -> None:
        try:
            self._value = run_main(this, self._main, *self._args)
        except BaseException as error:  # noqa: BLE001 - it is raised again by ``run``
            self._error = error
        self._over.set()

    def _lost(self, place: int, reason: str) -> None:
        if place != 0 and self._resilient:
            return
        self._failure = self._failure or f"place {place}: {reason}"
        self._over.set()

    def _await_end(self, driver: Driver) -> None:
        __tracebackhide__ = True
        if not self._over.wait(self._deadline_s):
            where = stacks({driver, *self._places.drivers.values()})
            pending = [f"\nwithout an outcome: {order}" for order in self._scheduler.orders if order.outcome is None]
            raise JobHangsError(f"the program did not end within {self._deadline_s:g} s{''.join(pending)}\n{where}")
        if self._failure:
            raise JobFailedError(f"this would end a real job: {self._failure}")

    def _part(self, this: Program) -> None:
        """End the places; what hangs is left to itself, for threads cannot be killed."""
        broken = sys.exc_info()[1] is not None or self._error is not None
        parting = threading.Thread(target=self._end, args=(this, broken), name="apgas-parting", daemon=True)
        parting.start()
        parting.join(4 * END_S)

    def _end(self, this: Program, broken: bool) -> None:
        driver = this.driver
        others = end_places(this, "the program failed" if broken else "")
        all_gone(driver, others, END_S)
        self._scheduler.close()
        if broken:
            for left in [driver, *self._places.drivers.values()]:
                left.give_up(ApgasError("the job is over"))
        process.close(driver)
        self._places.close(END_S)


# The scheduler of a simulated job: gives the orders that a test wants, and hears of their outcomes -------------------


@dataclass(eq=False)
class Order:
    """An order that a test gives.

    Attributes:
        number: Of the order; the record of its end has the same.
        kind: ``grow`` or ``shrink``.
        count: Of nodes.
        nodes: Where to grow, or whom to release preferably.
        at_progress: It is given when the program has reported this progress; None: as soon as it may be.
        core_ids: Workers: the cores of each node that the program may use; empty: nothing is said of them.
        deferred: Whether the program waited in ``pre*`` for so long that the scheduler was notified.
        outcome: How it ended; None: not yet.
    """

    number: int
    kind: RecordKind
    count: int
    nodes: tuple[str, ...]
    at_progress: float | None
    core_ids: str
    _scheduler: TestScheduler = field(repr=False)
    deferred: bool = False
    outcome: wire.Outcome | None = None

    def wait(self, timeout_s: float = 10.0) -> wire.Outcome:
        """Wait until it has ended.

        Args:
            timeout_s: Seconds to wait.

        Returns:
            How it ended: ``outcome`` (``done``, ``refused``, ``aborted``), ``reason``, ``nodes``, ``phases``.

        Raises:
            AssertionError: It did not end in time.
        """
        return self._scheduler.wait_for(self, timeout_s)

    def withdraw(self) -> None:
        """Take it back: this ends it while it waits, for its moment, in line, or in ``pre*``; later it is too late.

        One that the program has not heard of ends as ``refused``; the job's ``resizes`` do not have it.
        """
        self._scheduler.withdraw(self)

    def as_message(self) -> wire.Order:
        """The order as schedulers send it."""
        if self.kind == "workers":
            return wire.Workers(order=self.number, count=self.count, core_ids=self.core_ids)
        message = wire.Grow if self.kind == "grow" else wire.Shrink
        return message(order=self.number, count=self.count, nodes=self.nodes)


class TestScheduler:
    """A communicator that holds orders back until the program is ready for them.

    Attributes:
        orders: All that were given, or are to be given.
        spare_nodes: How many nodes there are to grant when the program asks for some.
        messages: All that the job said.
    """

    __test__ = False

    def __init__(self, fresh: Callable[[int], tuple[str, ...]]) -> None:
        self.orders: list[Order] = []
        self.messages: list[wire.Message] = []
        self.spare_nodes = 0
        self._fresh = fresh
        self._changed = threading.Condition()
        self._held: list[Order] = []
        self._ready = False
        self._progress = -math.inf
        self._to_job: queue.SimpleQueue[wire.ToJob | None] = queue.SimpleQueue()

    def give(
        self,
        kind: RecordKind,
        count: int,
        nodes: tuple[str, ...] = (),
        at_progress: float | None = None,
        core_ids: str = "",
    ) -> Order:
        """Give an order as soon as the program has a handler, and has reported that progress."""
        if count < 1:
            what = "is for at least 1 worker" if kind == "workers" else "changes the number of nodes by at least 1"
            raise UsageError(f"an order {what}, not {count if kind == 'workers' else f'by {count}'}")
        if kind == "grow" and not nodes:
            nodes = self._fresh(count)
        with self._changed:
            order = Order(len(self.orders) + 1, kind, count, nodes, at_progress, core_ids, self)
            self.orders.append(order)
            self._held.append(order)
            self._release()
        return order

    def withdraw(self, order: Order) -> None:
        """Take an order back."""
        with self._changed:
            if order in self._held:
                self._held.remove(order)
                order.outcome = wire.Outcome(order.number, order.kind, "refused", reason="withdrawn")
                self._changed.notify_all()
            else:
                self._to_job.put(wire.Withdraw(order=order.number))

    def wait_for(self, order: Order, timeout_s: float) -> wire.Outcome:
        """Wait until an order has ended.

        Raises:
            AssertionError: It did not end in time.
        """
        with self._changed:
            self._changed.wait_for(lambda: order.outcome is not None, timeout_s)
            if order.outcome is None:
                given = "was not given: the program is not ready for it" if order in self._held else "did not end"
                raise AssertionError(f"{order} {given} within {timeout_s:g} s")
            return order.outcome

    # the job's side (Communicator) -----------------------------------------------------------------------------------

    def start(self, listener: OrderListener) -> None:
        """Give orders to ``listener``: on a thread of our own, for the job may speak while it holds its locks."""
        threading.Thread(target=self._deliver, args=(listener,), name="test-scheduler", daemon=True).start()

    def send(self, message: wire.Message) -> None:
        """Hear what the job says."""
        with self._changed:
            self.messages.append(message)
            self._take(message)
            self._release()
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread."""
        self._to_job.put(None)

    def _deliver(self, listener: OrderListener) -> None:
        while (message := self._to_job.get()) is not None:
            match message:
                case wire.Grow() | wire.Shrink() | wire.Workers():
                    listener.order(message)
                case wire.Withdraw():
                    listener.withdraw(message)
                case wire.Answer():
                    listener.answer(message)
                    if message.granted:
                        self.give("grow" if message.granted > 0 else "shrink", abs(message.granted))
                case wire.Welcome() | wire.Refused():
                    raise AssertionError(f"a test sends no {message}")
                case _:
                    assert_never(message)

    def _take(self, message: wire.Message) -> None:
        match message:
            case wire.Ready():
                self._ready = True
            case wire.Disable():
                self._ready = False
            case wire.Progress(done=done):
                self._progress = done
            case wire.Deferred(order=number):
                self.orders[number - 1].deferred = True
            case wire.Outcome(order=number):
                self.orders[number - 1].outcome = message
            case wire.Lost():
                pass  # it is among the messages
            case wire.Evolving():
                # what it offers is taken, what it asks for is granted as long as there is some to spare
                granted = min(message.delta, self.spare_nodes)
                self.spare_nodes -= granted
                self._to_job.put(wire.Answer(request=message.request, granted=granted))
            case _:
                raise AssertionError(f"a job does not send {message}")

    def _release(self) -> None:
        """Give the held orders whose moment has come, with ``_changed`` held."""
        for order in self._held.copy():
            if self._ready and (order.at_progress is None or self._progress >= order.at_progress):
                self._held.remove(order)
                self._to_job.put(order.as_message())


# Threads of simulated places: a thread inherits the place of the one that starts it, and hanging ones can be shown ---

_PLUMBING: Final = (
    f"{Path(__file__).parents[1]}{os.sep}",
    *(str(module.__file__) for module in (threading, contextlib)),
    f"{Path(str(concurrent.futures.__file__)).parent}{os.sep}",
)
"""What lies between the program and the place where a thread waits."""
_DEEPEST: Final = 8
"""How many frames of a thread are shown, the innermost."""

_lock = threading.Lock()
_jobs = 0
_plain_start: Callable[[threading.Thread], None] = threading.Thread.start
_owners: dict[int, Driver] = {}
"""The places of running threads, by the threads' ids."""


@contextlib.contextmanager
def inherited() -> Iterator[None]:
    """Within the block, a thread that is started by a thread of a place works for that place, too."""
    global _jobs, _plain_start  # noqa: PLW0603 - Thread.start is one for the process
    with _lock:
        if _jobs == 0:
            _plain_start = threading.Thread.start
            threading.Thread.start = _start  # type: ignore[method-assign, assignment]  # patched on purpose
        _jobs += 1
    try:
        yield
    finally:
        with _lock:
            _jobs -= 1
            if _jobs == 0:
                threading.Thread.start = _plain_start  # type: ignore[method-assign, assignment]  # patched on purpose


def _start(thread: threading.Thread) -> None:
    driver = current_driver()
    if driver is not None:
        run = thread.run

        def run_there() -> None:
            _owners[threading.get_ident()] = driver
            try:
                with working_for(driver):
                    run()
            finally:
                del _owners[threading.get_ident()]

        thread.run = run_there  # type: ignore[method-assign]  # patched on purpose
    _plain_start(thread)


def stacks(of: set[Driver]) -> str:
    """What the threads of some places are doing now, without those that wait for something to do."""
    frames = sys._current_frames()  # noqa: SLF001 - there is no other way to look at running threads
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found = []
    for ident, driver in sorted(_owners.copy().items(), key=lambda item: (item[1].core.here, item[0])):
        if driver in of and ident in frames:
            text = _stack(frames[ident])
            if text:
                found.append(f"place {driver.core.here}, thread {names.get(ident, ident)}:\n{text}")
    return "\n".join(found) or "no thread of a place runs anything of the program"


def _stack(innermost: FrameType) -> str:
    """The innermost frames of the program; empty if it has no part in what the thread does."""
    theirs = [entry for entry in traceback.extract_stack(innermost) if not entry.filename.startswith(_PLUMBING)]
    if theirs:
        return "".join(traceback.format_list(theirs[-_DEEPEST:])).rstrip()
    # compiled code has no frames
    name = context.activity_in(innermost)
    return "" if name == context.NOTHING else f"  in {name}"


# Places that are threads of one process instead of processes: built from the same parts as real ones -----------------

_NO_PID: Final = 1 << 22
"""Linux numbers no process so high: a signal to a simulated place's process cannot hit a real one."""


class _Transport(TcpTransport):
    def hold(self, place: int) -> None:
        """All places live in this process, which ends with none of them."""


class InProcessPlaces:
    """The places of one job, each with threads of its own; each runs ``setup`` before it is one, if there is one.

    Attributes:
        drivers: Those that live, by id.
        failures: Why newcomers cannot be started on a node, as a test wants it.
    """

    def __init__(
        self, places_per_node: int, *, resilient: bool = False, setup: Callable[[], object] | None = None
    ) -> None:
        self.drivers: dict[int, Driver] = {}
        self.failures: dict[str, str] = {}
        self._places_per_node = places_per_node
        self._setup = setup
        self._machine = checked(ResilientPlaceCore if resilient else PlaceCore)
        environment.raise_open_files_limit()  # this process has both ends of all connections
        self._token = new_token()
        self._node_numbers = itertools.count()
        self._mains: dict[int, threading.Thread] = {}
        self._lock = threading.Lock()

    def node_names(self, count: int) -> tuple[str, ...]:
        """Names of ``count`` nodes that the job has not had yet."""
        return tuple(f"node{number}" for number in itertools.islice(self._node_numbers, count))

    def start(self, nodes: tuple[str, ...]) -> Driver:
        """Start the first places, one per name in ``nodes``; returns place 0."""
        if self._setup is not None:
            for _ in nodes:
                self._setup()
        transports = [_Transport(self._token) for _ in nodes]
        members = tuple(map(_info, range(len(nodes)), nodes, transports))
        drivers = [self._build(place, members, 0, own) for place, own in enumerate(transports)]
        return drivers[0]

    def spawn(self, nodes: tuple[str, ...], assign_ids: AssignIds) -> Spawned:
        """Start newcomers; see ``apgas.runtime.spawning.Spawner``.

        Raises:
            ApgasError: A test wants it so, or ``setup`` failed.
        """
        broken = [self.failures[node] for node in nodes if node in self.failures]
        if broken:
            raise ApgasError(broken[0])
        if not any(nodes):
            fresh = self.node_names(len(nodes) // self._places_per_node)
            nodes = tuple(name for name in fresh for _ in range(self._places_per_node))
        up_s = time.monotonic()
        if self._setup is not None:
            for node in nodes:
                try:
                    serialization.loads(serialization.dumps(self._setup))()
                except BaseException as error:
                    raise ApgasError(f"{node}: setup raised {type(error).__name__}: {error}") from error
        transports = [_Transport(self._token) for _ in nodes]
        try:
            members, epoch = assign_ids([_info(0, *each) for each in zip(nodes, transports, strict=True)])
        except BaseException:
            for transport in transports:
                transport.close()
            raise
        added = members[-len(nodes) :]
        for info, transport in zip(added, transports, strict=True):
            self._build(info.place, members, epoch, transport)
        return added, up_s

    def kill(self, place: int, timeout_s: float) -> None:
        """Let a place die, with all that it knows; its threads cannot be killed, but reach no place any more.

        Raises:
            UsageError: There is no such place.
        """
        with self._lock:
            driver = self.drivers.pop(place, None) if place != 0 else None
            thread = self._mains.get(place)
        if driver is None or thread is None:
            raise UsageError(
                f"place {place} cannot be killed: " + ("a job ends with it" if place == 0 else "it is gone")
            )
        with driver.lock:
            driver.core.over = True
        driver.over.set()
        if not driver.transport.loop.in_thread():
            thread.join(timeout_s)
        driver.give_up(ApgasError(f"place {place} was killed"))
        # it may have died before it had connected: then its launcher would miss it
        with contextlib.suppress(UnknownPeerError, TransportClosedError):  # it is missed, or the job is over
            self.drivers[0].transport.connect(place)

    def close(self, timeout_s: float) -> None:
        """Wait until the places' own threads have ended, which they do when their place is over, but not for long."""
        for thread in self._mains.values():
            thread.join(timeout_s)

    def _build(self, place: int, members: tuple[PlaceInfo, ...], epoch: int, transport: TcpTransport) -> Driver:
        driver = Driver(self._machine(place, members, epoch), transport)
        with self._lock:
            self.drivers[place] = driver
        with working_for(driver):
            driver.start()
            if place != 0:
                thread = threading.Thread(target=self._serve, args=(driver,), name=f"apgas-place-{place}", daemon=True)
                self._mains[place] = thread
                thread.start()
        return driver

    def _serve(self, driver: Driver) -> None:
        driver.over.wait()
        with self._lock:
            self.drivers.pop(driver.core.here, None)
        process.close(driver)


def _info(place: int, node: str, transport: TcpTransport) -> PlaceInfo:
    host, port = transport.address
    return PlaceInfo(place, host, port, node, _NO_PID + port)
