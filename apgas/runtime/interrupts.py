"""What Ctrl-C and TERM do on place 0, while a program runs."""

from __future__ import annotations

import _thread
import math
import signal
import threading
import time
from collections.abc import Callable
from typing import Final

from apgas.runtime import process
from apgas.runtime.driver import Driver
from apgas.runtime.watchdog import Alarm

ECHO_S: Final = 1.0
"""Within so many seconds after a signal another one is taken for the same."""

MOMENT_S: Final = 0.0002
"""After so much time a signal is given again that came in the middle of something."""

SIGNALS: Final = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
"""What ends a job from outside; its exit code is 128 plus the signal's number, as in shells."""


class Interrupts:
    """Makes a KeyboardInterrupt in the main thread of a signal.

    Args:
        driver: Place 0.
        unheard: Ends the job, on another thread, if the main thread is within MPI and does not come back.

    Attributes:
        signalled: The last signal.
    """

    def __init__(self, driver: Driver, unheard: Callable[[signal.Signals], None]) -> None:
        self.signalled: signal.Signals | None = None
        self._driver = driver
        self._signalled_s = -math.inf
        self._put_off = False
        self._end = unheard
        self._let_go = process.handle_signals(self._interrupt)
        self._alarm = Alarm(self._unheard) if process.mpi_plane() is not None else None

    def hear_no_more(self) -> None:
        """Leave signals to those who took them before."""
        self._let_go()
        if self._alarm is not None:
            self._alarm.silence()

    def ending(self, by: signal.Signals) -> None:
        """The job is being ended for a signal; code that keeps the interpreter's lock must not keep it from that."""
        if self._alarm is not None:
            self._alarm.ending(by)

    def _unheard(self, by: signal.Signals) -> None:
        """(thread of the alarm) End the job, unless the program has come to take the signal by itself."""
        if signal.getsignal(by) == self._interrupt:
            self._end(by)

    def _interrupt(self, number: int, _: object) -> None:
        """Raise in the main thread; remember why, for the exception may come out as another one (from a lock, say).

        One Ctrl-C may arrive twice, because mpiexec passes it on: the second must not interrupt what the first began.
        """
        if self._alarm is not None:
            self._alarm.heard()
        if time.monotonic() - self._signalled_s < ECHO_S or self._put_off:
            return
        locked: bool = self._driver.lock._is_owned()  # type: ignore[attr-defined]  # noqa: SLF001 - nothing public tells
        # half a frame may be on its way, or half a change be made: who relies on the other half would be lost
        if locked and self._put_it_off(number):
            return
        self._signalled_s = time.monotonic()
        self.signalled = signal.Signals(number)
        if self._driver.transport.may_lead():
            # it reads an answer itself, or is about to; what it does meanwhile must not be torn apart
            self._driver.interrupted = True
            return
        raise KeyboardInterrupt

    def _put_it_off(self, number: int) -> bool:
        """Have the signal given again in a moment; False if there is no thread that could do that."""
        self._put_off = True
        try:
            # threading has locks of its own, which the main thread may hold just now
            _thread.start_new_thread(self._give_again, (number,))
        except RuntimeError:
            self._put_off = False
            return False
        return True

    def _give_again(self, number: int) -> None:
        time.sleep(MOMENT_S)
        self._put_off = False
        ident = threading.main_thread().ident
        assert ident is not None
        signal.pthread_kill(ident, number)
