"""One place as a process: builds the driver, serves, and ends in good order or in bad."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from apgas.core.place import PlaceCore
from apgas.runtime import arrival, environment, lifetime, logs, resilience, watchdog
from apgas.runtime.context import before_waits
from apgas.runtime.driver import Driver, set_process_driver
from apgas.runtime.lifetime import Identity, Start
from apgas.runtime.validation import checked
from apgas.transport.base import Address, Transport
from apgas.transport.tcp import TcpTransport

if TYPE_CHECKING:
    from apgas.transport.mpi import MpiTransport

FAILURE_GRACE_S: Final = 1.0
"""How long a job that has failed may try to end its processes in good order."""


SWITCH_S: Final = 0.0005
"""How long a thread of pure Python may keep the interpreter while the io thread has something to do."""

_Handler: TypeAlias = Callable[[int, FrameType | None], None]

_taken: Final[list[_Handler]] = []
"""What takes Ctrl-C and TERM in this process."""

_switch_before_s = 0.0
_transport: TcpTransport | None = None
_mpi_plane: MpiTransport | None = None


def build(start: Start) -> Driver:
    """Make this process a place and connect it."""
    global _transport, _switch_before_s  # noqa: PLW0603 - one place a process
    identity = start.identity
    _transport = TcpTransport(start.token, start.listening)
    _switch_before_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    core = checked(_machine())(identity.place, identity.members, identity.epoch)
    driver = Driver(core, _plane(identity, _transport))
    if _mpi_plane is not None and identity.place == 0:
        driver.on_members = partial(_tell_plane, driver, _mpi_plane)
    set_process_driver(driver)
    logs.tag_output(identity.place)
    logs.install()
    before_waits(_transport.flush)
    if not resilience.wanted():
        watchdog.stand_by(f"place {identity.place} ({environment.node_name()}, pid {os.getpid()})")
    if identity.place:
        # Ctrl-C and TERM reach every process of the job; place 0 alone decides what they mean. Programs that activities
        # start would inherit SIG_IGN, and could not be terminated.
        handle_signals(lambda *_: None)
    driver.start()
    return driver


def forget() -> None:
    """Let this process be no place any more: the program is over, and another one may be run."""
    global _transport, _mpi_plane  # noqa: PLW0603 - one place a process
    set_process_driver(None)
    before_waits(None)
    _transport = _mpi_plane = None
    sys.setswitchinterval(_switch_before_s)


def _machine() -> type[PlaceCore]:
    if not resilience.wanted():
        return PlaceCore
    from apgas.core.resilient import ResilientPlaceCore

    return ResilientPlaceCore


def _tell_plane(driver: Driver, plane: MpiTransport, epoch: int, added: list[int]) -> None:
    """(place 0) A new epoch has begun."""
    plane.enter(epoch, sorted(driver.core.membership.members), added)


def _plane(identity: Identity, line: TcpTransport) -> Transport:
    """The transport that the job was started with; all places of a first world call this together."""
    global _mpi_plane  # noqa: PLW0603 - one place a process
    if identity.beginning is None:
        return line
    from apgas.transport.mpi import MpiTransport

    _mpi_plane = MpiTransport(line, identity.beginning)
    if identity.beginning.bridge is None:
        _mpi_plane.begin(identity.epoch, [info.place for info in identity.members])
    return _mpi_plane


def mpi_plane() -> MpiTransport | None:
    """The transport of this process if it is of the mpi plane."""
    return _mpi_plane


def listen_towards(host: str) -> Address:
    """Let places on ``host`` reach this one, which listens on loopback so far; returns the further address.

    Raises:
        UsageError: This machine has no address that ``host`` could reach.
    """
    assert _transport is not None
    return _transport.listen_also(arrival.listen_where(host))


def serve(place: Driver) -> int:
    """Work for the others until this place is released or the program ends; returns the exit code."""
    place.on_end = lambda reason: end_hard_soon() if reason else None
    place.over.wait()
    close(place)
    # some launchers forget that place 0 was killed if all others end well
    return int(place.core.abandoned)


def _hear_again() -> None:
    """(forked child) Leave signals to the system, which are the place's to take."""
    for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if signal.getsignal(number) in (*_taken, _end_with_code):
            signal.signal(number, default)


os.register_at_fork(after_in_child=_hear_again)


def handle_signals(handler: _Handler) -> Callable[[], None]:
    """Let ``handler`` take Ctrl-C and TERM in this process, but not in processes that are forked from it.

    Returns:
        What lets those take them who did before, unless somebody else does by then.
    """

    def hear_no_more() -> None:
        for number, former in before.items():
            if signal.getsignal(number) == handler:
                signal.signal(number, _default(number) if former in (None, signal.SIG_DFL) else former)
        if handler in _taken:
            _taken.remove(handler)

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    _taken.append(handler)
    return hear_no_more


def _default(number: signal.Signals) -> Callable[[int, FrameType | None], None] | signal.Handlers:
    """What a signal does that nobody takes.

    MPICH's mpiexec passes TERM on, and returns the bare 15 for a process that dies of it.
    """
    by_mpiexec = number == signal.SIGTERM and environment.launched_by(os.environ).kind == "hydra"
    return _end_with_code if by_mpiexec else signal.SIG_DFL


def _end_with_code(number: int, _: FrameType | None) -> NoReturn:
    """End this process at once, with the exit code that shells and we give to a signal."""
    os._exit(128 + number)


def close(place: Driver) -> None:
    """End threads and connections in good order."""
    place.executor.close()
    place.chores.close()
    place.counting.close()
    place.transport.close()
    if _mpi_plane is not None and not _mpi_plane.communicators.settled(0.0):
        # a thread is still within MPI, which cannot be finalized
        sys.stderr.write(
            f"apgas: place {place.core.here} cannot leave MPI: others do not build a communicator with it\n"
        )
        leave_failed()


def end_hard_soon() -> None:
    """End this process even if its main thread does not get to it, for the job has failed."""
    # on the mpi plane this place may wait for a communicator that a busy one does not build; place 0 speaks meanwhile
    grace_s = FAILURE_GRACE_S if _mpi_plane is None else 2 * FAILURE_GRACE_S
    timer = threading.Timer(grace_s, leave_failed)
    timer.daemon = True
    timer.start()


def leave_failed(code: int = 1) -> None:
    """End this process at once, without MPI's consent: mpiexec then ends what is left of the job."""
    lifetime.flush()
    watchdog.part()
    os._exit(code)
