"""Notices when the io thread is kept by one piece of work."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Final

TICK_S: Final = 0.002
"""Work that is seen at two ticks in a row is long."""
CALM_TICKS: Final = 10
"""After so many ticks without work the watch goes to sleep."""


class Watch:
    """Looks at the io thread every few milliseconds while it does work now and then; sleeps otherwise, at no cost.

    Args:
        working: Returns the number of the present work (0: none), and how many there have been.
        on_long: Called with that number when the work takes long. It may be over by then. If it cannot start a thread
            (``RuntimeError``) it is called again.
        name: Of the thread.
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

        This thread says that it works before it looks whether the watch is awake, and the watch says that it sleeps
        before it looks whether there is work: one of the two sees the other.
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
