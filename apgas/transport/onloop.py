"""The part of a transport's contract that is about the io thread, for transports that have an event loop."""

from __future__ import annotations

from collections.abc import Callable

from apgas.errors import UsageError
from apgas.transport.loop import EventLoop
from apgas.transport.timers import Timer


class OnLoop:
    """Hands on to an event loop what ``apgas.transport.base.Transport`` says of the io thread.

    Args:
        loop: The io thread.
    """

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop

    @property
    def wakeups(self) -> int:
        """How often the io thread has woken up so far."""
        return self._loop.wakeups

    def flush(self) -> None:
        """Write the frames that were sent ``soon``; see ``Transport``."""
        self._loop.flush_now()

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run ``callback`` on the io thread; see ``Transport``."""
        self._loop.call_soon(callback)

    def run_last(self, work: Callable[[], None]) -> None:
        """Run ``work`` at the end of the io thread's round; see ``Transport``."""
        self._loop.run_last(work)

    @property
    def busy(self) -> bool:
        """Whether there is more ``run_last`` work."""
        return self._loop.busy

    def hand_over(self) -> None:
        """Let another thread be the io thread; see ``Transport``."""
        self._loop.hand_over()

    def on_broken(self, callback: Callable[[BaseException], None]) -> None:
        """Run ``callback`` if the io thread ends by an error; see ``Transport``."""
        self._loop.on_broken = callback

    def lead(self, done: Callable[[], bool], seconds: float) -> None:
        """Be the io thread for a while; see ``Transport``."""
        self._loop.lead(done, seconds)

    def may_lead(self) -> bool:
        """Tell whether the caller is within ``lead``; see ``Transport``."""
        return self._loop.may_lead()

    def nudge(self) -> None:
        """Let a thread that leads look at its ``done``; see ``Transport``."""
        self._loop.nudge()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Run ``callback`` on the io thread in ``delay_s`` seconds; see ``Transport``."""
        return self._loop.call_later(delay_s, callback)

    def _check_may_close(self) -> None:
        if self._loop.in_thread():
            raise UsageError("the io thread cannot close its own transport")

    def in_io_thread(self) -> bool:
        """Tell whether the caller runs on the io thread."""
        return self._loop.in_thread()
