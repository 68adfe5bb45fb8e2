"""Threads for activities: as many as can run, kept for reuse; a thread that waits does not count."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

MAX_RUNNING: Final = 64


class Executor:
    """Runs every submitted call on a thread of its own; at most ``limit`` run at a time, fewer if there are no threads.

    A call that waits for others inside ``waiting()`` gives its turn away, so that waiting activities can never keep
    those from running that they wait for.

    Args:
        name: Of the threads.
        on_error: Told what a call raised; a call should not.
        limit: Most calls at a time.
        begin: Called by each thread at its start.
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

    def submit(self, call: Callable[[], None]) -> None:
        """Run ``call``; what it raises goes to ``on_error``.

        Raises:
            RuntimeError: There is no thread for it, and none can be started; it will not run.
        """
        with self._ready:
            self._queue.append(call)
            try:
                self._wake()
            except RuntimeError:
                self._queue.pop()
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
            except BaseException as error:  # noqa: BLE001 - the thread goes on; whoever made this executor decides
                self._on_error(error)
            del call
