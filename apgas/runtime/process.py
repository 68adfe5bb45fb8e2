"""A place as a process: how it joins a job, serves, takes signals, and ends in good order or in bad.

MPI starts and reaps the processes and carries their identity; everything afterwards travels over the transport. Each
place finalizes and exits alone, whichever world it came from: see ``environment.KNOWN`` for what lets it do so.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import pickle
import signal
import stat
import sys
import termios
import threading
import time
from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import msgspec

from apgas.core.messages import PlaceInfo
from apgas.core.place import PlaceCore
from apgas.errors import UsageError
from apgas.runtime import environment, joining, launched, logs, main_module, resilience, watchdog
from apgas.runtime.context import ThreadState
from apgas.runtime.driver import Driver
from apgas.runtime.logs import TaggedOutput
from apgas.runtime.validation import checked
from apgas.transport.auth import new_token
from apgas.transport.base import Address, Transport
from apgas.transport.tcp import TcpTransport
from apgas.transport.unix_socket import Listening

if TYPE_CHECKING:
    from apgas.transport.mpi import MpiTransport

# Joining: a first world, or a job that runs already ------------------------------------------------------------------

dependents = environment.Dependents()
"""Processes of this machine that end with this one."""


class Start(msgspec.Struct, frozen=True):
    """A place that is about to begin: its id, all members in the order of their ids, the epoch, and the job's secret.

    With where it listens, and the bridge of a newcomer.
    """

    place: int
    members: tuple[PlaceInfo, ...]
    epoch: int
    token: bytes
    listening: Listening
    bridge: Any = None


class JoinAnswer(msgspec.Struct, frozen=True):
    """What place 0 sends to newcomers over MPI; ``places`` are the ids of one spawned world by rank."""

    places: tuple[int, ...]
    members: tuple[PlaceInfo, ...]
    epoch: int
    logs: logs.Settings | None
    tagged: bool


def check_that_mpi_lives() -> None:
    """See that MPI has not ended with an earlier program.

    Raises:
        UsageError: It has.
    """
    loaded = sys.modules.get("mpi4py.MPI")
    if launched.begun is not None or (loaded is not None and loaded.Is_finalized()):
        raise UsageError(
            "a program that mpiexec has started, or on the mpi transport, can call apgas.run once: MPI has ended with "
            "it; started by plain python, on the tcp transport, it can be called again and again"
        )


def start_world() -> Start:
    """Join the first world, by MPI or through ``apgas.launch``.

    Raises:
        UsageError: The process was started by a foreign mpiexec, the places cannot reach each other, one has ended, or
            the transport that was chosen cannot be used.
    """
    resilience.prepare_first_world()
    if launched.usable():
        environment.raise_open_files_limit()
        world, rank = None, int(os.environ["PMI_RANK"])
    else:
        if environment.transport() == "mpi" and "mpi4py.MPI" in sys.modules:
            raise UsageError(
                "mpi4py.MPI was imported before apgas.run, which has to set MPI up for the mpi transport: "
                "import it in the functions that use it"
            )
        world = environment.load().COMM_WORLD
        rank = world.rank
    if rank:
        _leave_signals_to_place_0()
    # from here on the launcher passes Ctrl-C on, as to all that have spoken to it
    exchange = launched.line().exchange if world is None else world.allgather
    location = joining.Location(joining.machine(), environment.node_name())
    try:
        tokens, locations = zip(*exchange((b"" if rank else new_token(), location)), strict=True)
        listening, report = joining.listen(joining.node_elsewhere(location, locations))
        everyone = exchange(report)
    except EOFError:
        raise UsageError("a place has ended before all had begun") from None
    if world is not None:
        # Between hosts MPI connects when it first sends, and goes on with that only within calls: who had left MPI here
        # would keep others waiting for its last message, for ten seconds. The first barrier has all connect that
        # exchange something in the second one, which therefore gets through.
        world.Barrier()
        world.Barrier()
        # since all have initialised; until it is done a kill -9 leaves files behind. One place of each node does it,
        # not place 0 if there is another, for the program waits for that one
        if location not in locations[rank + 1 :]:
            environment.unlink_leftovers()
            environment.sweep()
    _end_with_mpiexec()
    members = all_listening(everyone)
    assert listening is not None
    _check_plane()
    return Start(rank, members, 0, tokens[0], listening)


def start_alone() -> Start:
    """Be the first place of a program that starts the others by itself, without MPI.

    Raises:
        UsageError: This process cannot listen.
    """
    global _alone  # noqa: PLW0603 - one program a process
    _alone = True
    environment.raise_open_files_limit()
    listening, report = joining.listen("")
    members = all_listening([report])
    assert listening is not None
    return Start(0, members, 0, new_token(), listening)


def _check_plane() -> None:
    """See that the mpi plane, if that was chosen, works with this MPI.

    Raises:
        UsageError: It does not.
    """
    if environment.transport() != "mpi":
        return
    mpi = environment.load()
    version = mpi.Get_library_version()
    kind = environment.named_in(version)
    if kind is None or "mpi" not in kind.planes or mpi.Query_thread() < mpi.THREAD_MULTIPLE:
        name = version.split("\n", 1)[0].split(",", 1)[0].strip()
        raise UsageError(
            f"the mpi transport needs MPICH with MPI_THREAD_MULTIPLE, and this is {name}: "
            f"leave {environment.ENV_TRANSPORT} out, or set it to tcp"
        )


def _end_with_mpiexec() -> None:
    """See to it that this process does not stay behind, should the job be killed."""
    if environment.launched_by(os.environ).kind in ("launch", "hydra", "openmpi"):
        # mpiexec would wait for ever for places whose process manager was killed
        environment.end_with_parent()


def all_listening(everyone: Iterable[joining.PlaceReport | str]) -> tuple[PlaceInfo, ...]:
    """Number all from 0.

    Raises:
        UsageError: One of them cannot listen.
    """
    members: list[PlaceInfo] = []
    for report in everyone:
        if isinstance(report, str):
            raise UsageError(report)
        members.append(PlaceInfo(len(members), *report))
    return tuple(members)


def join_job(newcomer: joining.Newcomer) -> Start | None:
    """(newcomer) Learn who we are from place 0's answer; None: not wanted any more."""
    _leave_signals_to_place_0()
    _end_with_mpiexec()
    if not newcomer.answer or newcomer.listening is None:
        return None
    answer: JoinAnswer = pickle.loads(newcomer.answer)
    _check_plane()
    if newcomer.program_state:
        main_module.take_over(newcomer.program_state)
    if answer.logs is not None:
        logs.apply(answer.logs)
    os.environ[logs.ENV_TAG] = str(int(answer.tagged))
    place = answer.places[newcomer.rank]
    return Start(place, answer.members, answer.epoch, newcomer.token, newcomer.listening, newcomer.bridge)


# Serving -------------------------------------------------------------------------------------------------------------

SWITCH_S: Final = 0.0005
"""How long a thread of pure Python may keep the interpreter while the io thread has something to do."""

_switch_before_s = 0.0
_transport: TcpTransport | None = None
mpi_plane: MpiTransport | None = None
"""The transport of this process if it is of the mpi plane."""
_alone = False
"""Whether the program does without MPI; the user's part of it may load that all the same."""


def build(start: Start) -> Driver:
    """Make this process a place and connect it."""
    global _transport, _switch_before_s  # noqa: PLW0603 - one place a process
    _transport = TcpTransport(start.token, start.listening)
    _switch_before_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    machine: type[PlaceCore] = PlaceCore
    if resilience.wanted():
        from apgas.core.resilient import ResilientPlaceCore

        machine = ResilientPlaceCore
    core = checked(machine)(start.place, start.members, start.epoch)
    driver = Driver(core, _plane(start, _transport))
    if (plane := mpi_plane) is not None and start.place == 0:
        driver.on_members = lambda epoch, added: plane.enter(epoch, sorted(core.membership.members), added)
    ThreadState.driver = driver  # of all threads that have no place of their own
    logs.tag_output(start.place)
    logs.install()
    who = f"place {start.place} ({environment.node_name()}, pid {os.getpid()})"
    if environment.launched_by(os.environ).kind == "launch":
        watchdog.tell_launcher(f"cmd=place id={start.place} pid={os.getpid()}\n")
    elif not resilience.wanted():
        watchdog.start_second(who)
    atexit.register(environment.end_remains, who, os.getpid(), watchdog.is_beside)
    driver.start()
    return driver


def forget() -> None:
    """Let this process be no place any more: the program is over, and another one may be run."""
    global _transport, mpi_plane, _alone  # noqa: PLW0603 - one place a process
    ThreadState.driver = None
    resilience.survive_anyway(survive=False)
    _transport = mpi_plane = None
    _alone = False
    sys.setswitchinterval(_switch_before_s)


def _plane(start: Start, line: TcpTransport) -> Transport:
    """The transport that the job was started with; all places of a first world call this together."""
    global mpi_plane  # noqa: PLW0603 - one place a process
    if environment.transport() != "mpi":
        return line
    from apgas.transport.mpi import MpiTransport

    mpi_plane = MpiTransport(line, environment.load(), start.bridge)
    if start.bridge is None:
        mpi_plane.begin(start.epoch, [info.place for info in start.members])
    return mpi_plane


def listen_towards(host: str) -> Address:
    """Let places on ``host`` reach this one, which listens on loopback so far; returns the further address.

    Raises:
        UsageError: This machine has no address that ``host`` could reach.
    """
    assert _transport is not None
    return _transport.listen_also(joining.listen_where(host))


def serve(place: Driver) -> int:
    """Work for the others until this place is released or the program ends; returns the exit code."""
    place.on_end = lambda reason: end_hard_soon() if reason else None
    place.over.wait()
    close(place)
    # some launchers forget that place 0 was killed if all others end well
    return int(place.core.abandoned)


# Signals -------------------------------------------------------------------------------------------------------------

_Handler: TypeAlias = Callable[[int, FrameType | None], None]

_taken: Final[list[_Handler]] = []
"""What takes Ctrl-C and TERM in this process."""


def _restore_in_child() -> None:
    """(forked child) Leave signals to the system, which are the place's to take."""
    for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if signal.getsignal(number) in (*_taken, _end_with_code):
            signal.signal(number, default)


os.register_at_fork(after_in_child=_restore_in_child)


def handle_signals(handler: _Handler) -> Callable[[], None]:
    """Let ``handler`` take Ctrl-C and TERM in this process, but not in processes that are forked from it.

    What is returned restores the handlers before, unless others have been installed by then.
    """

    def restore_handlers() -> None:
        for number, former in before.items():
            if signal.getsignal(number) == handler:
                signal.signal(number, _default(number) if former in (None, signal.SIG_DFL) else former)
        if handler in _taken:
            _taken.remove(handler)

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    _taken.append(handler)
    return restore_handlers


def _leave_signals_to_place_0() -> None:
    """Ignore Ctrl-C and TERM, which reach every process: place 0 alone decides, maybe before this place has begun."""
    handle_signals(lambda *_: None)  # programs that activities start would inherit SIG_IGN, and could not be ended


def _default(number: signal.Signals) -> Callable[[int, FrameType | None], None] | signal.Handlers:
    """What a signal without a handler does.

    MPICH's mpiexec passes TERM on, and returns the bare 15 for a process that dies of it.
    """
    by_mpiexec = number == signal.SIGTERM and environment.launched_by(os.environ).kind == "hydra"
    return _end_with_code if by_mpiexec else signal.SIG_DFL


def _end_with_code(number: int, _: FrameType | None) -> NoReturn:
    """End this process at once, with the exit code that shells and we give to a signal."""
    environment.kill_remains(watchdog.is_beside)
    os._exit(128 + number)


# The end -------------------------------------------------------------------------------------------------------------

READ_S: Final = 0.1
"""How long the end of a job may wait for its last output to be read."""

ABORT_S: Final = 1.0
"""How long MPI may take to end the job."""

FAILURE_GRACE_S: Final = 1.0
"""How long a job that has failed may try to end its processes in good order."""


def close(place: Driver, flush_s: float = 1.0) -> None:
    """End threads and connections in good order; what is on its way to others has ``flush_s`` to leave."""
    for executor in place.executors:
        executor.close()
    place.counting.close()
    place.transport.close(flush_s)
    if mpi_plane is not None and not mpi_plane.communicators.settled(0.0):
        # a thread is still within MPI, which cannot be finalized
        sys.stderr.write(
            f"apgas: place {place.core.here} cannot leave MPI: others do not build a communicator with it\n"
        )
        leave_failed()


def end_hard_soon() -> None:
    """End this process even if its main thread does not get to it, for the job has failed."""
    # on the mpi plane this place may wait for a communicator that a busy one does not build; place 0 speaks meanwhile
    grace_s = FAILURE_GRACE_S if mpi_plane is None else 2 * FAILURE_GRACE_S
    timer = threading.Timer(grace_s, leave_failed)
    timer.daemon = True
    timer.start()


def leave_failed() -> None:
    """End this process at once, without MPI's consent: mpiexec then ends what is left of the job."""
    flush()
    environment.kill_remains(watchdog.is_beside)
    watchdog.dismiss_second()
    os._exit(1)


def finalize() -> None:
    """Leave MPI, if it was ever entered; the process exits soon after."""
    mpi = sys.modules.get("mpi4py.MPI")
    try:
        if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
            mpi.Finalize()
        if launched.begun is not None:
            # the end is meant; another thread may be reading, so no answer is waited for
            watchdog.tell_launcher("cmd=finalize\n")
    finally:
        watchdog.dismiss_second()


def finalize_at_exit() -> None:
    """Leave MPI when this process ends: until then it may run further programs."""
    atexit.unregister(_finalize_unless_forked)
    atexit.register(_finalize_unless_forked, os.getpid())


def _finalize_unless_forked(pid: int) -> None:
    if os.getpid() == pid:
        with suppress(Exception):  # the process ends, whatever MPI has to say
            finalize()


def leave(code: int = 0) -> NoReturn:
    """Leave MPI and end this process, which has nothing left to do, without taking the interpreter apart.

    That would take 0.2 s of a core with Numba loaded, while the scheduler waits for the node. C's exit is needed:
    MPICH takes leave of its process manager in a function of C's ``atexit``, and hydra kills the job of a process that
    ends without (``os._exit`` or ``exec`` after ``MPI_Finalize``). What Python would do first (threads, exit functions)
    is done here.
    """
    if code and environment.launched_by(os.environ).kind == "openmpi":
        # place 0 is lost, and its mpiexec returns the code of the process that ends first: that of place 0 says more
        time.sleep(environment.CODE_S)
    import ctypes

    finalize()
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()  # noqa: SLF001 - nothing public runs them
    flush()
    if sys.modules.get("mpi4py.MPI") is None:
        # of a fork, libraries registered functions of C's `atexit` in another process: 4 of 10,000 places ended in a
        # double free, with their computation complete
        ctypes.PyDLL(None).fflush(None)
        os._exit(code)
    ctypes.PyDLL(None).exit(code)  # keeps the interpreter's lock: no other thread runs while libraries are taken apart
    os._exit(code)


def abort(code: int) -> NoReturn:
    """End every process of the job at once; mpiexec returns ``code``. Say why before."""
    # MPI may be busy for long, with a spawn on a host that does not answer; without us, mpiexec ends the others, too
    by_force = threading.Timer(ABORT_S, os._exit, (code,))
    by_force.daemon = True
    with suppress(RuntimeError):  # from Python 3.12 on none can be started when the interpreter ends
        by_force.start()
    flush()
    for pipe in (1, 2):
        _wait_until_read(pipe)
    # MPI would add a line about its own abort, which is of no use to the user
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    dependents.kill()
    environment.kill_remains(watchdog.is_beside)
    watchdog.dismiss_second()
    mpi = sys.modules.get("mpi4py.MPI")
    if launched.begun is not None:
        watchdog.tell_launcher(f"cmd=abort exitcode={code}\n")
    elif mpi is not None and not _alone:
        mpi.COMM_WORLD.Abort(code)
    os._exit(code)


def flush() -> None:
    """Write out what was printed; its reader may be gone."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # a closed pipe, or a stand-in of the program's, which may raise anything
            if isinstance(stream, TaggedOutput):
                stream.finish()
            stream.flush()


def _wait_until_read(pipe: int) -> None:
    """Wait until mpiexec's proxy has read what is in ``pipe``: what it has not read is lost when it ends the job."""
    unread = array("i", [0])
    until = time.monotonic() + READ_S
    with suppress(OSError):  # closed: nothing can be lost
        while stat.S_ISFIFO(os.fstat(pipe).st_mode) and time.monotonic() < until:
            fcntl.ioctl(pipe, termios.FIONREAD, unread)
            if not unread[0]:
                return
            time.sleep(0.0001)
