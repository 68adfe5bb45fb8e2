"""The io thread of a place: one epoll loop with thread-safe callbacks and timers, run by leader and followers.

The loop sleeps without a timeout when no timer is pending, so an idle process costs nothing. Callbacks from other
threads wake it through an eventfd, written only while the loop sleeps: both sides first publish (the callback, or the
intent to sleep) and look second, so no wake-up is missed and a busy loop costs no system call.

This is the leader/followers pattern (Schmidt et al., Pattern-Oriented Software Architecture 2): at any time one thread,
the leader, waits for events and handles them. The pattern avoids changes of threads, which cost more than a message: a
round trip takes 75 us if its caller reads the answer itself and the receiver's leader runs the activity, and 170 us if
both change threads (two cores; 54 us is what the sockets alone take). Leadership passes on in two ways.

*Hand-off.* The leader runs work given to ``run_last`` itself, because waking another thread costs more than short work
does. Before such work waits (``hand_off``), or when it turns out to be long (``Watchdog``), a new thread becomes the
leader, and the old one ends with its work. A hand-off happens only during ``run_last`` work, at the end of a round,
where no handler is half done.

*Guests.* A thread of the program that waits for answers in quick succession becomes the leader meanwhile (``lead``) and
reads them itself, which saves waking it. The loop's own thread follows, and leads again when no guest has led for
``_RESUME_S``. It is not woken when a guest ends, because the next answer will most often be awaited at once.

``_leadership`` is the lock of the thread that runs rounds, ``_guest`` that of the guest; ``_leader`` is the loop's own
thread whose turn it is. The constants below were tuned on two cores; whether they are the best for many is not known.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import os
import select
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

_logger = logging.getLogger(__name__)
_ROUND_S: Final = 0.001
"""For this long a round does ``run_last`` work before it looks at the sockets again."""
_PATIENCE_S: Final = 0.001
"""For this long a thread tries to become the leader."""
_RESUME_S: Final = 0.0005
"""The loop's own thread leads again when no guest has led for this long."""
_LONGEST_RESUME_S: Final = 0.002
"""Likewise, when guests have led several times in succession."""
_SUCCESSION_S: Final = 0.001
"""Waits that begin within this time of each other follow in quick succession."""
_STREAK: Final = 4
"""Waits in quick succession after which a thread leads: fewer do not pay for the change."""
READ: Final = select.EPOLLIN
WRITE: Final = select.EPOLLOUT


class _Leader:
    """One of the loop's own threads, as the leader. ``work`` numbers the ``run_last`` work that it does; 0: none."""

    __slots__ = ("work",)

    def __init__(self) -> None:
        self.work = 0


def _ignore(_: BaseException) -> None:
    """The default of ``on_broken``."""


class EventLoop:
    """Watches file descriptors and runs callbacks and timers, all on one thread.

    A handler of a file descriptor must tolerate an event that is not there (a number can be reused within one batch of
    events). An exception of a handler or callback, SystemExit included, is logged, and the loop goes on.

    Attributes:
        abandoned: Whether this is a forked child, where it does nothing.
        on_broken: Called on its last thread if an error of the loop itself has ended it: nothing is delivered then, but
            frames can still be sent, as far as the connections take them at once.
    """

    def __init__(self, name: str) -> None:
        self.abandoned = False
        self.on_broken: Callable[[BaseException], None] = _ignore
        self._epoll = select.epoll()
        self._poller = Poller(self._epoll.poll)
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._wake_fd, READ)
        self._handlers: dict[int, Callable[[int], None]] = {self._wake_fd: self._woken}
        self._sockets: dict[int, socket.socket] = {}
        self._ready: deque[Callable[[], None]] = deque()
        self._timers = Timers()
        self._sleeping = False
        self._running = True
        self._closed = False
        self._wake_lock = threading.Lock()
        self._name = name
        self._last: deque[Callable[[], None]] = deque()
        self._flushes: deque[Callable[[], None]] = deque()
        self._leader = _Leader()
        self._leader_lock = threading.Lock()
        self._ident = 0
        self._leadership = threading.Lock()
        self._guest = threading.Lock()
        self._candidates: set[int] = set()
        self._guest_leads = 0
        self._streak = 0
        self._waited_s = 0.0
        self._asleep = False
        self._resume = threading.Semaphore(0)
        self._works = 0
        self._threads = 0
        self._started = False
        self._ended = threading.Event()
        self._watchdog = Watchdog(self.working, self.hand_off_from, f"{name}-watchdog")
        loops.add(self)

    def start(self) -> None:
        """Start the thread."""
        self._started = True
        self._leadership.acquire()
        self._start_thread(self._leader)

    def nudge(self) -> None:
        """Let a guest that leads look whether what it waits for has come about elsewhere. Any thread."""
        if self._sleeping and self._guest.locked():
            self._wake()

    def in_thread(self) -> bool:
        """Return whether the caller runs on the loop's thread."""
        return threading.get_ident() == self._ident

    def may_lead(self) -> bool:
        """Return whether the caller, a handler of signals, has interrupted ``lead``: it must not raise there."""
        return threading.get_ident() in self._candidates

    def lead(self, done: Callable[[], bool], seconds: float) -> None:
        """Be the io thread until ``done()``, for at most ``seconds``, or not at all if that would take time itself.

        Callbacks run on this thread meanwhile. Who makes ``done`` true on another thread calls ``nudge``. It returns
        early if there is ``run_last`` work, which could keep the caller from what it waits for.
        """
        now_s = time.monotonic()
        self._streak = self._streak + 1 if now_s - self._waited_s < _SUCCESSION_S else 0
        self._waited_s = now_s
        if self._streak < _STREAK:
            return  # a lone wait does not pay for the change: the loop's own thread would have to be woken to follow
        ident = threading.get_ident()
        try:
            self._candidates.add(ident)
            self._lead(done, now_s + seconds)
        finally:
            self._candidates.discard(ident)
        self._waited_s = time.monotonic()

    def _lead(self, done: Callable[[], bool], until_s: float) -> None:
        if not self._started or self._leader.work or self.in_thread() or not self._guest.acquire(blocking=False):
            return
        self._guest_leads += 1
        try:
            if not self._leadership.acquire(blocking=False):
                # The present leader sees that ``_guest`` is taken when it begins a round, and follows. It is woken for
                # that, unless it is at work: then it may take long, and the caller rather waits as a follower does.
                if self._sleeping:
                    self._wake()
                if not self._leadership.acquire(timeout=_PATIENCE_S):
                    return
            try:
                self._ident = threading.get_ident()
                while self._running and not self._last and not done():
                    left_s = until_s - time.monotonic()
                    if left_s <= 0:
                        break
                    self._round(left_s, done)
            finally:
                self._ident = 0
                self._leadership.release()
        finally:
            self._guest.release()
            # The follower wakes by itself after ``_RESUME_S``: to wake it here would cost each round trip a system call
            # and a change of threads. It is woken only if something waits that no guest will do.
            if self._asleep or self._last or self._ready:
                self._resume.release()

    def run_last(self, work: Callable[[], None]) -> None:
        """(io thread) Run ``work`` at the end of this round, in the order of the calls.

        It may wait, after ``hand_off``. If it takes long, another thread becomes the io thread.
        """
        self._last.append(work)

    @property
    def busy(self) -> bool:
        """Whether there is more ``run_last`` work."""
        return bool(self._last)

    def flush_soon(self, flush: Callable[[], None]) -> None:
        """Run ``flush``, which must not wait, at the end of this round, or on a thread that calls ``flush_now``."""
        self._flushes.append(flush)
        if self._sleeping:
            self._wake()

    def flush_next(self, flush: Callable[[], None]) -> None:
        """Run ``flush`` in the next round, whenever that is. Any thread, at any point: it takes no lock."""
        self._flushes.append(flush)

    def flush_now(self) -> None:
        """Do what ``flush_soon`` has left to do; to be called before waiting for what that brings about. Any thread."""
        while self._flushes:
            try:
                flush = self._flushes.popleft()
            except IndexError:
                return
            self._call(flush)

    def hand_off(self) -> None:
        """Let another thread be the io thread if the caller is, in work that is going to wait.

        Raises:
            RuntimeError: No thread can be started; the caller still is the io thread.
        """
        if self.in_thread():
            self.hand_off_from(self._leader.work)

    def hand_off_from(self, work: int) -> None:
        """Let another thread be the io thread if the present one still does ``work`` (see ``working``). Any thread.

        Raises:
            RuntimeError: No thread can be started; nothing has changed.
        """
        with self._leader_lock:
            if not work or self._leader.work != work or not self._running:
                return
            # The new thread must exist before the old one gives up: where the system has none to give, the old one
            # stays the leader, and the caller gets the error before it waits.
            leader = _Leader()
            self._start_thread(leader)  # which waits for the lock
            self._leader = leader
            self._ident = 0

    def working(self) -> tuple[int, int]:
        """Return the number of the ``run_last`` work that is being done (0: none), and how many there have been."""
        return self._leader.work, self._works

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run ``callback`` on the loop's thread; first in, first out. Without effect after ``stop``."""
        self._ready.append(callback)
        if self._sleeping:
            self._wake()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Run ``callback`` on the loop's thread in ``delay_s`` seconds; equal times in the order of the calls.

        Any thread.
        """
        timer = Timer(time.monotonic() + delay_s, callback)
        ticket = self._timers.ticket()
        if self.in_thread() and not self._leader.work:  # else another thread may become the io thread meanwhile
            self._timers.add(timer, ticket)
        else:
            self.call_soon(lambda: self._timers.add(timer, ticket))
        return timer

    def watch(self, sock: socket.socket, events: int, handler: Callable[[int], None]) -> None:
        """Call ``handler(events)`` whenever ``sock`` is ready for ``events``, or in error."""
        fd = sock.fileno()
        self._handlers[fd] = handler
        self._sockets[fd] = sock
        self._epoll.register(fd, events)

    def rewatch(self, sock: socket.socket, events: int) -> None:
        """Change what ``sock`` is watched for. Any thread, as long as ``sock`` is watched."""
        self._epoll.modify(sock.fileno(), events)

    def unwatch(self, sock: socket.socket) -> None:
        """Stop to watch ``sock``; to be called before it is closed. Without effect if it is not watched."""
        fd = sock.fileno()
        if self._sockets.pop(fd, None) is not None:
            del self._handlers[fd]
            self._epoll.unregister(fd)

    def stop(self, last: Callable[[], None] = lambda: None) -> None:
        """End the thread after the callbacks that are due, do ``last`` in its place, and free its resources.

        Idempotent, and also where an error has ended the thread.
        """
        if self._started:
            self.call_soon(self._end)
            self._ended.wait()
        last()
        self._watchdog.stop()
        self.on_broken = _ignore  # the watchdog may keep the loop alive for some ticks, but must not keep a place
        with self._wake_lock:
            if not self._closed:
                self._closed = True
                self._epoll.close()
                os.close(self._wake_fd)
                loops.discard(self)

    def abandon(self) -> None:
        """Close our copies of everything in a forked child: the peers are to notice the end of the parent alone.

        It takes no lock, for another thread may have held it, and leaves alone what the epoll shares with the parent.
        """
        self.abandoned = True
        self._closed = True
        self._sleeping = False
        for sock in self._sockets.values():
            sock.close()
        self._sockets.clear()
        self._epoll.close()
        os.close(self._wake_fd)

    def _end(self) -> None:
        self._running = False

    def _wake(self) -> None:
        with self._wake_lock:
            if not self._closed:
                os.eventfd_write(self._wake_fd, 1)

    def _woken(self, _events: int) -> None:
        with contextlib.suppress(BlockingIOError):  # woken several times, read once
            os.eventfd_read(self._wake_fd)

    def _start_thread(self, leader: _Leader) -> None:
        self._threads += 1
        name = self._name if self._threads == 1 else f"{self._name}-{self._threads}"
        threading.Thread(target=self._run, args=(leader,), name=name, daemon=True).start()

    def _run(self, leader: _Leader) -> None:
        with self._leader_lock:
            self._ident = threading.get_ident()
        try:
            self._run_rounds(leader)
        except BaseException as error:
            self._running = False
            _logger.exception("the io thread ends")
            self._call(partial(self.on_broken, error))
        if self._leader is leader:
            self._ended.set()

    def _run_rounds(self, leader: _Leader) -> None:
        """Run rounds as the leader, until another of the loop's threads is; follow while a guest leads."""
        while self._running and self._leader is leader:
            if self._guest.locked():
                self._follow()
                continue
            self._round(None)
            if self._last and self._running:
                self._run_last(leader)

    def _follow(self) -> None:
        """Let guests lead, until none has for ``_RESUME_S``."""
        self._leadership.release()
        guest_leads = -1
        resume_s = _RESUME_S
        while self._running and not self._last:
            before, guest_leads = guest_leads, self._guest_leads
            if guest_leads != before:
                self._resume.acquire(timeout=resume_s)
                resume_s = min(2 * resume_s, _LONGEST_RESUME_S)
                continue
            if not self._guest.locked():
                break
            # one guest has led all the time and may go on for long: sleep until it ends, which sees ``_asleep``
            self._asleep = True
            if self._guest.locked():
                self._resume.acquire()
            self._asleep = False
        self._leadership.acquire()
        self._ident = threading.get_ident()

    def _round(self, limit_s: float | None, done: Callable[[], bool] | None = None) -> None:
        """Wait for something to happen, for at most ``limit_s`` and not once it is ``done``, and take care of it."""
        if self._flushes:
            self.flush_now()
        # First publish that this thread sleeps, then look for work; a thread that brings work appends it first, then
        # looks whether to wake: one of the two sees the other. Both rely on the interpreter's lock for that order.
        self._sleeping = True
        busy = self._ready or self._last or self._flushes or (done() if done is not None else self._guest.locked())
        timeout_s = 0.0 if busy else self._timers.seconds_left()
        if limit_s is not None:
            timeout_s = limit_s if timeout_s is None else min(timeout_s, limit_s)
        events = self._poller.poll(timeout_s)
        self._sleeping = False
        for fd, what in events:
            handler = self._handlers.get(fd)
            if handler is not None:
                try:
                    handler(what)
                except BaseException:
                    _logger.exception("handler of file descriptor %d failed", fd)
        if self._timers:
            for callback in self._timers.take_due():
                self._call(callback)
        for _ in range(len(self._ready)):
            self._call(self._ready.popleft())

    def _run_last(self, leader: _Leader) -> None:
        """Do ``run_last`` work until there is none, it is time for another round, or another thread is the leader."""
        until_s = time.monotonic() + _ROUND_S
        while self._last and self._leader is leader:
            work = self._last.popleft()
            self._works += 1
            leader.work = self._works
            self._watchdog.keep_awake()
            self._call(work)
            with self._leader_lock:
                leader.work = 0
            if time.monotonic() > until_s:
                return

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except BaseException:
            _logger.exception("callback %r failed", callback)


# Timers --------------------------------------------------------------------------------------------------------------

_COMPACT: Final = 64
_LONGEST_S: Final = 86400.0
"""The longest sleep: epoll takes no more than some weeks."""


class Timer:
    """A callback due at ``due_s`` on the monotonic clock."""

    __slots__ = ("callback", "due_s")

    def __init__(self, due_s: float, callback: Callable[[], None]) -> None:
        self.due_s = due_s
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Do not run the callback any more."""
        self.callback = None

    def run(self) -> None:
        """Run the callback, once."""
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


class Timers:
    """Timers by the time they are due, and by the order they were made in. All but ``ticket`` on one thread."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._sequence = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    def ticket(self) -> int:
        """Return a number that orders timers of the same time. Any thread."""
        return next(self._sequence)

    def add(self, timer: Timer, ticket: int) -> None:
        """Add a timer; cancelled ones go now and then."""
        if len(self._heap) >= _COMPACT and len(self._heap).bit_count() == 1:
            self._heap = [kept for kept in self._heap if kept[2].callback is not None]
            heapq.heapify(self._heap)
        heapq.heappush(self._heap, (timer.due_s, ticket, timer))

    def seconds_left(self) -> float | None:
        """Return the seconds until the next one is due, or until it is time to ask again; None: there is none."""
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
        if not self._heap:
            return None
        return min(max(0.0, self._heap[0][0] - time.monotonic()), _LONGEST_S)

    def take_due(self) -> list[Callable[[], None]]:
        """Return the callbacks that are due, once. One may cancel another: ask for each when its turn has come."""
        now_s = time.monotonic()
        due: list[Callable[[], None]] = []
        while self._heap and self._heap[0][0] <= now_s:
            due.append(heapq.heappop(self._heap)[2].run)
        return due


# The watchdog of long work -------------------------------------------------------------------------------------------

TICK_S: Final = 0.002
"""Work that is seen at two ticks in a row is long."""
CALM_TICKS: Final = 10
"""Ticks without work after which the watchdog goes to sleep."""


class Watchdog:
    """Notices that one piece of work keeps the io thread.

    It looks at the io thread every few milliseconds while that does work now and then; it sleeps otherwise, at no cost.
    ``working`` returns the number of the present work (0: none), and how many there have been. ``on_long`` is called
    with that number when the work takes long; it may be over by then. If it cannot start a thread (``RuntimeError``)
    it is called again.
    """

    def __init__(self, working: Callable[[], tuple[int, int]], on_long: Callable[[int], None], name: str) -> None:
        self._working = working
        self._on_long = on_long
        self._name = name
        self._awake = False
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._wake = threading.Semaphore(0)

    def keep_awake(self) -> None:
        """Watch the work that begins now. Io thread.

        This thread publishes its work before it looks whether the watchdog is awake, and the watchdog publishes that it
        sleeps before it looks for work: one of the two sees the other.
        """
        if self._awake:
            return
        self._awake = True
        if self._thread is not None:
            self._wake.release()
            return
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system gives no thread now: the next work asks again
            self._awake = False
        else:
            self._thread = thread

    def stop(self) -> None:
        """End the thread; not waited for, because it holds nothing."""
        self._stopped = True
        self._wake.release()

    def _run(self) -> None:
        while not self._stopped:
            self._tick()
            self._awake = False
            if self._working()[0]:
                self._awake = True
            else:
                self._wake.acquire()

    def _tick(self) -> None:
        calm = 0
        before = self._working()
        while calm < CALM_TICKS and not self._stopped:
            time.sleep(TICK_S)
            now = self._working()
            if now[0] and now[0] == before[0]:
                with contextlib.suppress(RuntimeError):  # the system gives no thread: asked again at the next tick
                    self._on_long(now[0])
            calm = 0 if now != before or now[0] else calm + 1
            before = now


# The poller ----------------------------------------------------------------------------------------------------------
#
# To wake a thread that sleeps on another core takes longer than a short message and its answer: the sender's system
# call wakes the core, and the core the thread. So a thread whose last events have come in quick succession busy-polls
# for as long as the next one should take. It yields its core between two polls; where another thread wants that core,
# or the interpreter, a poll takes long, and the thread goes to sleep as usual. Busy polling lasts ``AWAKE_S`` at most
# and has to be earned by quick events in a row: by twice as many after each time that it was in vain, by half as many
# after each time that it was not.

Events: TypeAlias = list[tuple[int, int]]
"""File descriptors, and what they are ready for."""

QUICK_S: Final = 200e-6
"""An event that comes within this time was quick; that of a round trip in which all sleep is."""
AWAKE_S: Final = 100e-6
"""The longest busy polling."""
LEAST_PRICE: Final = 2
"""Quick events in a row after which a thread polls busily, at first and where that pays."""
MOST_PRICE: Final = 256
"""Likewise, where it was in vain again and again."""
STALL_S: Final = 30e-6
"""A look that takes longer says that the core, or the interpreter, is wanted elsewhere."""


class Poller:
    """Asks for events. One thread at a time.

    ``look`` waits for events for at most a number of seconds, None without a limit: ``epoll.poll``. ``give_way`` gives
    the core away to threads that are ready to run, if there are any.

    Attributes:
        price: How many quick events in a row have to come before it stays awake.
    """

    def __init__(
        self,
        look: Callable[[float | None], Events],
        clock: Callable[[], float] = time.monotonic,
        give_way: Callable[[], None] = os.sched_yield,
    ) -> None:
        self.price = LEAST_PRICE
        self._streak = 0
        self._look = look
        self._clock = clock
        self._give_way = give_way

    def poll(self, timeout_s: float | None) -> Events:
        """Wait for events for at most ``timeout_s``, None without a limit; returns none if that is over."""
        if timeout_s is not None and timeout_s <= AWAKE_S:
            return self._look(timeout_s)
        began_s = self._clock()
        if self._streak >= self.price:
            events = self._stay_awake(began_s)
            if events:
                self.price = max(self.price // 2, LEAST_PRICE)
                return events
            self.price = min(2 * self.price, MOST_PRICE)
            self._streak = 0
            return self._look(None if timeout_s is None else max(0.0, timeout_s - (self._clock() - began_s)))
        events = self._look(timeout_s)
        self._streak = self._streak + 1 if self._clock() - began_s < QUICK_S else 0
        return events

    def _stay_awake(self, began_s: float) -> Events:
        before_s = began_s
        while True:
            events = self._look(0.0)
            if events:
                return events
            self._give_way()
            now_s = self._clock()
            if now_s - began_s > AWAKE_S or now_s - before_s > STALL_S:
                return []
            before_s = now_s


# Forked children -----------------------------------------------------------------------------------------------------


loops: Final[weakref.WeakSet[EventLoop]] = weakref.WeakSet()
"""Those of this process; a forked child must not go on with them."""


def _abandon_all() -> None:
    for loop in loops:
        loop.abandon()
    loops.clear()


os.register_at_fork(after_in_child=_abandon_all)
