"""The io thread: one epoll loop with thread-safe callbacks and timers.

It sleeps without a timeout when no timer is pending, so an idle process costs nothing. Callbacks from other threads
wake it through an eventfd, written only while the loop sleeps: both sides first publish (the callback, or the intent to
sleep) and look second, so no wake-up is missed and a busy loop costs no system call.

Which thread is the io thread changes. Work given to ``run_last`` is done by the io thread itself, because handing it to
another one costs more than short work does. Before such work waits (``hand_over``), and when it turns out to be long
(``watch.Watch`` notices), another thread becomes the io thread, and the one that works ends when its work does. The
turn changes only while ``run_last`` work is being done: at the end of a round, where nothing is half done.

A thread that waits for answers in quick succession may be the io thread meanwhile (``lead``), and read them itself. The
thread it replaces comes back when nobody has led for a moment; it is not woken for that, because the next answer will
most often be awaited at once. ``_baton`` is held by whoever runs rounds.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from apgas.transport import forks
from apgas.transport.poller import Poller
from apgas.transport.timers import Timer, Timers
from apgas.transport.watch import Watch

_logger = logging.getLogger(__name__)
_ROUND_S: Final = 0.001
"""How long a round does ``run_last`` work before it looks at the sockets again."""
_PATIENCE_S: Final = 0.001
"""How long a thread tries to become the io thread."""
_MOMENT_S: Final = 0.0005
"""The io thread comes back when nobody has led for so long."""
_LONG_MOMENT_S: Final = 0.002
"""Likewise, when threads have led again and again."""
_SUCCESSION_S: Final = 0.001
"""Waits that begin within so much time of each other follow in quick succession."""
_STREAK: Final = 4
"""So many of them make it worth while to lead."""
READ: Final = select.EPOLLIN
WRITE: Final = select.EPOLLOUT


class _Turn:
    """One thread's time as the io thread. ``work`` numbers the ``run_last`` work that it is doing; 0: none."""

    __slots__ = ("work",)

    def __init__(self) -> None:
        self.work = 0


def _ignore(_: BaseException) -> None:
    """For a loop whose end is nobody's business."""


class EventLoop:
    """Watches file descriptors and runs callbacks and timers, all on one thread.

    A handler of a file descriptor must tolerate an event that is not there (a number can be reused within one batch of
    events). An exception of a handler or callback, SystemExit included, is logged, and the loop goes on.

    Attributes:
        wakeups: How often it has woken up so far.
        abandoned: Whether this is a forked child, where it does nothing.
        on_broken: Called on its last thread if an error of the loop itself has ended it.
    """

    def __init__(self, name: str) -> None:
        self.wakeups = 0
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
        self._turn = _Turn()
        self._turn_lock = threading.Lock()
        self._ident = 0
        self._baton = threading.Lock()
        self._leading = threading.Lock()
        self._candidates: set[int] = set()
        self._led = 0
        self._streak = 0
        self._waited_s = 0.0
        self._asleep = False
        self._come_back = threading.Semaphore(0)
        self._works = 0
        self._threads = 0
        self._started = False
        self._ended = threading.Event()
        self._watch = Watch(self.working, self.hand_over_from, f"{name}-watch")
        forks.loops.add(self)

    def start(self) -> None:
        """Start the thread."""
        self._started = True
        self._baton.acquire()
        self._start_thread(self._turn)

    def nudge(self) -> None:
        """Let a thread that leads look whether what it waits for has come about elsewhere. Any thread."""
        if self._sleeping and self._leading.locked():
            self._wake()

    def in_thread(self) -> bool:
        """Tell whether the caller runs on the loop's thread."""
        return threading.get_ident() == self._ident

    def may_lead(self) -> bool:
        """Tell whether the caller is within ``lead``: what a signal has to say must not tear that apart."""
        return threading.get_ident() in self._candidates

    def lead(self, done: Callable[[], bool], seconds: float) -> None:
        """Be the io thread until ``done()``, for at most ``seconds``, or not at all if that would take time itself.

        It returns early if there is ``run_last`` work, which could keep the caller from what it waits for.
        """
        now_s = time.monotonic()
        self._streak = self._streak + 1 if now_s - self._waited_s < _SUCCESSION_S else 0
        self._waited_s = now_s
        if self._streak < _STREAK:
            return
        ident = threading.get_ident()
        try:
            self._candidates.add(ident)
            self._lead(done, now_s + seconds)
        finally:
            self._candidates.discard(ident)
        self._waited_s = time.monotonic()

    def _lead(self, done: Callable[[], bool], until_s: float) -> None:
        if not self._started or self._turn.work or self.in_thread() or not self._leading.acquire(blocking=False):
            return
        self._led += 1
        try:
            if not self._baton.acquire(blocking=False):
                if self._sleeping:
                    self._wake()
                if not self._baton.acquire(timeout=_PATIENCE_S):
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
                self._baton.release()
        finally:
            self._leading.release()
            if self._asleep or self._last or self._ready:
                self._come_back.release()

    def run_last(self, work: Callable[[], None]) -> None:
        """(io thread) Run ``work`` at the end of this round; it may wait, after ``hand_over``, and take its time."""
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
        """Do what ``flush_soon`` has left to do. Any thread."""
        while self._flushes:
            try:
                flush = self._flushes.popleft()
            except IndexError:
                return
            self._call(flush)

    def hand_over(self) -> None:
        """Let another thread be the io thread if the caller is, in ``run_last`` work that is going to wait.

        Raises:
            RuntimeError: No thread can be started; the caller still is the io thread.
        """
        if self.in_thread():
            self.hand_over_from(self._turn.work)

    def hand_over_from(self, work: int) -> None:
        """Let another thread be the io thread if the present one still does ``work`` (see ``working``). Any thread.

        Raises:
            RuntimeError: No thread can be started; nothing has changed.
        """
        with self._turn_lock:
            if not work or self._turn.work != work or not self._running:
                return
            turn = _Turn()
            self._start_thread(turn)  # which waits for the lock
            self._turn = turn
            self._ident = 0

    def working(self) -> tuple[int, int]:
        """Return the number of the ``run_last`` work that is being done (0: none), and how many there have been."""
        return self._turn.work, self._works

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run ``callback`` on the loop's thread; first in, first out. Without effect after ``stop``."""
        self._ready.append(callback)
        if self._sleeping:
            self._wake()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Run ``callback`` on the loop's thread in ``delay_s`` seconds. Any thread."""
        timer = Timer(time.monotonic() + delay_s, callback)
        ticket = self._timers.ticket()
        if self.in_thread() and not self._turn.work:  # else another thread may become the io thread meanwhile
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

    def stop(self) -> None:
        """End the thread after the callbacks that are due, wait for it, and free its resources. Idempotent."""
        if self._started:
            self.call_soon(self._end)
            self._ended.wait()
        self._watch.stop()
        self.on_broken = _ignore  # the watch may keep us for a moment, but is not to keep a place
        with self._wake_lock:
            if not self._closed:
                self._closed = True
                self._epoll.close()
                os.close(self._wake_fd)
                forks.loops.discard(self)

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

    def _start_thread(self, turn: _Turn) -> None:
        self._threads += 1
        name = self._name if self._threads == 1 else f"{self._name}-{self._threads}"
        threading.Thread(target=self._run, args=(turn,), name=name, daemon=True).start()

    def _run(self, turn: _Turn) -> None:
        with self._turn_lock:
            self._ident = threading.get_ident()
        try:
            self._run_rounds(turn)
        except BaseException as error:
            self._running = False
            _logger.exception("the io thread ends")
            self._call(partial(self.on_broken, error))
        if self._turn is turn:
            self._ended.set()

    def _run_rounds(self, turn: _Turn) -> None:
        """Run rounds, with the baton, as long as this thread has the turn."""
        while self._running and self._turn is turn:
            if self._leading.locked():
                self._stand_back()
                continue
            self._round(None)
            if self._last and self._running:
                self._run_last(turn)

    def _stand_back(self) -> None:
        """Let other threads lead, until none does for a moment."""
        self._baton.release()
        led = -1
        moment_s = _MOMENT_S
        while self._running and not self._last:
            before, led = led, self._led
            if led != before:
                self._come_back.acquire(timeout=moment_s)
                moment_s = min(2 * moment_s, _LONG_MOMENT_S)
                continue
            if not self._leading.locked():
                break
            # the same thread has led for a moment and may do so for long; it wakes us when it sees that we sleep
            self._asleep = True
            if self._leading.locked():
                self._come_back.acquire()
            self._asleep = False
        self._baton.acquire()
        self._ident = threading.get_ident()

    def _round(self, limit_s: float | None, done: Callable[[], bool] | None = None) -> None:
        """Wait for something to happen, for at most ``limit_s`` and not once it is ``done``, and take care of it."""
        if self._flushes:
            self.flush_now()
        self._sleeping = True
        busy = self._ready or self._last or self._flushes or (done() if done is not None else self._leading.locked())
        timeout_s = 0.0 if busy else self._timers.seconds_left()
        if limit_s is not None:
            timeout_s = limit_s if timeout_s is None else min(timeout_s, limit_s)
        events = self._poller.poll(timeout_s)
        self._sleeping = False
        self.wakeups += 1
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

    def _run_last(self, turn: _Turn) -> None:
        """Do ``run_last`` work until there is none, it is time for another round, or another thread has the turn."""
        until_s = time.monotonic() + _ROUND_S
        while self._last and self._turn is turn:
            work = self._last.popleft()
            self._works += 1
            turn.work = self._works
            self._watch.keep_awake()
            self._call(work)
            with self._turn_lock:
                turn.work = 0
            if time.monotonic() > until_s:
                return

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except BaseException:
            _logger.exception("callback %r failed", callback)
