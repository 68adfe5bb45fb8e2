"""Errors that programs see."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_OF_EXTRAS: Final = ("typer", "click", "rich", "matplotlib", "mypy_extensions", "numpy", "platformdirs")


class ApgasError(Exception):
    """Base of every error that the runtime raises for a reason of its own."""


class UsageError(ApgasError):
    """The API was called where it cannot work; the text says what to do instead."""


class PlaceGoneError(ApgasError):
    """A message was addressed to a place that is leaving, has left, or never was.

    Args:
        place: Id of the place.
        epoch: The version of the membership in which it was so.
        why: What became of it.
    """

    def __init__(self, place: int, epoch: int, why: str = "has left") -> None:
        super().__init__(f"place {place} {why} (epoch {epoch})")
        self.place = place
        self.epoch = epoch
        self.why = why

    def __reduce__(self) -> tuple[type[PlaceGoneError], tuple[object, ...], dict[str, object]]:
        return (type(self), (self.place, self.epoch, self.why), self.__dict__)


class SlowPeerError(ApgasError):
    """A place has taken nothing of what is queued for it for a minute; the call that raises this has sent nothing."""


class CancelledError(ApgasError):
    """Something was not started, or not all was, because its finish was cancelled."""


class DeadlineError(ApgasError, TimeoutError):
    """A wait came to the end of its time: that of ``deadline``, or of ``finish(timeout=...)``."""


class DeadPlaceError(PlaceGoneError):
    """A place of a resilient job died, and with it what ran there; or something was addressed to it later.

    Args:
        place: Id of the place.
        epoch: The version of the membership that began without it.
        node: The name of the node that it ran on.
        activities: How many activities that other places had sent there, or that it had sent, are lost. Those that it
            started itself died with them and are not counted.
    """

    def __init__(self, place: int, epoch: int, node: str = "", activities: int = 0) -> None:
        where = f" on {node}" if node else ""
        lost = f"; {activities} {'activity is' if activities == 1 else 'activities are'} lost" if activities else ""
        super().__init__(place, epoch, f"has died{where}")
        self.args = (f"place {place}{where} has died (epoch {epoch}){lost}",)
        self.node = node
        self.activities = activities

    def __reduce__(self) -> tuple[type[PlaceGoneError], tuple[object, ...], dict[str, object]]:
        return (type(self), (self.place, self.epoch, self.node, self.activities), self.__dict__)


class ProtocolError(ApgasError):
    """A peer sent something that the protocol does not allow."""


class AuthenticationError(ProtocolError):
    """A peer could not prove that it belongs to this job."""


class InvariantError(ApgasError):
    """The runtime found its own state inconsistent: a defect, reported with the state that shows it."""


@contextmanager
def extras_named() -> Iterator[None]:
    """Say what to install if the block imports a package that only an extra of the project brings.

    Raises:
        SystemExit: Such a package is missing; the text says which, and how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_EXTRAS:
            raise
        import shlex

        sys.exit(
            f"the package {error.name} is missing: this is an installation without the extras 'bridge' and 'kernels'\n"
            f'install them: {shlex.quote(sys.executable)} -m pip install "malleable-apgas[all]"'
        )


_INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM)
_AGAIN_S: Final = 0.01


@contextmanager
def interruptible(error: Callable[[signal.Signals], BaseException]) -> Iterator[None]:
    """Let SIGINT and SIGTERM raise an ``error`` in the block, the first one only: what it then ends is not disturbed.

    Python drops what is raised while it calls a destructor, in one of 60 runs of an event loop with many connections.
    Such an error is raised again shortly after.
    """
    raised: list[BaseException] = []

    def interrupt(number: int, _: FrameType | None) -> NoReturn:
        for each in _INTERRUPTS:
            signal.signal(each, signal.SIG_IGN)
        if not raised:
            raised.append(error(signal.Signals(number)))
        raise raised[0]

    def on_dropped(dropped: UnraisableHookArgs) -> None:
        if dropped.exc_value not in raised:
            hook(dropped)
            return
        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)

    hook, sys.unraisablehook = sys.unraisablehook, on_dropped
    heard = [number for number in _INTERRUPTS if signal.getsignal(number) is not signal.SIG_IGN]  # as under nohup
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = hook
        if signal.getsignal(signal.SIGALRM) is interrupt and any(signal.setitimer(signal.ITIMER_REAL, 0)):  # just now
            raise raised[0]
