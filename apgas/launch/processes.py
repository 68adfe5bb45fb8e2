"""The processes of a job on one host: starts them, carries what they say, and cleans up after them."""

from __future__ import annotations

import ctypes  # noqa: F401 - what a new process loads before it is a program has to be there already
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from apgas.core.launching import FIRST, Process, Send, Signal, Start
from apgas.runtime import environment, keeper
from apgas.runtime.forkserver import (
    ANSWER_S,
    PRELOAD_S,
    STREAM,
    Forked,
    ForkServer,
    Loads,
    end_with,
    execution,
    preloaded,
)

READ_BYTES: Final = 1 << 16
PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BEGINNING_S: Final = 3.0
"""How long a process may take until it handles Ctrl-C as it wants to: places leave it to place 0."""


class Started(msgspec.Struct, frozen=True, tag=True):
    """The processes of a world that belong on a node of ours run."""

    node: str
    world: int


class NotStarted(msgspec.Struct, frozen=True, tag=True):
    """They could not be started, and none of them runs."""

    node: str
    world: int
    reason: str


class Received(msgspec.Struct, frozen=True, tag=True):
    """A process has sent something."""

    number: int
    data: bytes


class Ended(msgspec.Struct, frozen=True, tag=True):
    """A process has ended with exit code ``status``, or by signal ``-status``."""

    number: int
    status: int


Report: TypeAlias = Started | NotStarted | Received | Ended


class _Child(msgspec.Struct, eq=False):
    """A process that runs, and our end of the stream to it."""

    number: int
    popen: subprocess.Popen[bytes] | Forked
    stream: socket.socket
    newcomer: bool
    """It is to be a place of a program that runs."""
    begun_s: float
    spoken: bool = False
    at_end: bool = False

    @property
    def begins(self) -> bool:
        """Whether Ctrl-C would end it with a traceback, also where the first process goes on after that."""
        fresh = (self.newcomer or not self.spoken) and time.monotonic() - self.begun_s < BEGINNING_S
        return fresh and self.number != FIRST


class Processes:
    """Starts processes and waits for their ends. For the main thread of a program that has no others.

    The program waits with ``selector``, and calls the data of a key when it is ready. ``streams`` are where processes
    read (the first of the job only) and write; None: where this program does.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        report: Callable[[Report], None],
        streams: tuple[int | None, int | None, int | None] = (None, None, None),
    ) -> None:
        self._selector = selector
        self._report = report
        self._streams = streams
        _, self._keeper = keeper.start()
        self._children: dict[int, _Child] = {}
        self._forks = ForkServer(self._start_server, lambda pid: keeper.tell(self._keeper, -pid), tied=True)

    def carry_out(self, effect: Start | Send | Signal) -> None:
        """Do what the job wants."""
        match effect:
            case Start():
                self._start(effect)
            case Send(_, number, data):
                if (child := self._children.get(number)) is not None:
                    # a process that leaves its answers unread until there is no room for more reads none
                    with suppress(BlockingIOError, ConnectionError):
                        child.stream.send(data)
            case Signal(_, number, what):
                child = self._children.get(number)
                if child is not None and not (what == signal.SIGINT and child.begins):
                    _signal(child.popen.pid, what)

    def run_tied(self, words: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
        """Start a program that ends when this one does, in a session of its own."""
        popen = subprocess.Popen(
            words,
            preexec_fn=partial(end_with, os.getpid()),  # noqa: PLW1509 - no threads are here
            start_new_session=True,
            **how,
        )
        keeper.tell(self._keeper, popen.pid)
        return popen

    def reap(self) -> None:
        """Look which processes have ended; to be called after SIGCHLD."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            child = next((child for child in self._children.values() if child.popen.pid == found.si_pid), None)
            if child is None:
                # of the program that became this one, or tied to it
                os.waitpid(found.si_pid, 0)
                keeper.tell(self._keeper, -found.si_pid)
                continue
            while not child.at_end and self._read(child):
                pass  # its last requests: an abort, a farewell
            status = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
            # as long as it has not been waited for, its number is that of no other process or group
            self._report(Ended(child.number, status))
            child.popen.wait()
            self._forget(child)

    def _read(self, child: _Child) -> bool:
        """Take what a process has sent; whether there was something."""
        data = b""
        with suppress(ConnectionError):
            try:
                data = child.stream.recv(READ_BYTES)
            except BlockingIOError:
                return False
        if data:
            child.spoken = True
            self._report(Received(child.number, data))
        else:
            child.at_end = True
            self._selector.unregister(child.stream)
        return bool(data)

    def _forget(self, child: _Child) -> None:
        del self._children[child.number]
        if not child.at_end:
            self._selector.unregister(child.stream)
        child.stream.close()
        environment.unlink_segments(child.popen.pid)
        keeper.tell(self._keeper, -child.popen.pid)

    def remove_at_end(self, folder: str) -> None:
        """Have a folder removed if this program is killed."""
        keeper.tell(self._keeper, folder)

    def close(self) -> None:
        """Start none any more."""
        self._forks.close()

    def _start(self, start: Start) -> None:
        for segments in environment.segments_of_world(start.store):
            keeper.tell(self._keeper, segments)
        try:
            first, count = start.processes[0], len(start.processes)
            loads, wait_s = (Loads.parse(first.loads), 0.0) if first.loads else self._before(start.processes)
            if not first.loads:
                _skip_unequal_numbers(2 * count)  # they may use MPI, and a fork uses up two
            if loads is None:
                for process in start.processes:
                    self._start_one(process)
                self._forks.used = True
            else:
                python = first.words[0] if first.loads else sys.executable
                with self._forks.forking(python, loads, count, wait_s) as possible:
                    for process in start.processes:
                        self._start_one(process, fork=possible and process.number != FIRST)
        except OSError as error:
            numbers = {process.number for process in start.processes}
            for child in [child for child in self._children.values() if child.number in numbers]:
                _signal(child.popen.pid, signal.SIGKILL)
                child.popen.wait()
                self._forget(child)
            what = os.fsencode(error.filename or start.processes[0].words[0]).decode(errors="replace")
            self._report(NotStarted(start.node, start.world, f"{what} cannot be started: {error.strerror}"))
        else:
            self._report(Started(start.node, start.world))

    def _before(self, processes: Sequence[Process]) -> tuple[Loads | None, float]:
        """What first places load once for all, if that pays, and how long they wait; None: each begins by itself.

        Names of nodes may all be of this host: then each node's processes are started by themselves.
        """
        names = preloaded()
        if processes[0].spawned:  # by MPI, maybe several programs, in folders of their own
            return None, 0.0
        if len(self._children) + len(processes) > (1 if names else len(os.sched_getaffinity(0))):
            return Loads.before(processes[0].words, names), PRELOAD_S if names else ANSWER_S
        return None, 0.0

    def _start_one(self, process: Process, *, fork: bool = False) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            popen = (self._forked(process, theirs) if fork else None) or self._executed(process, theirs)
        keeper.tell(self._keeper, popen.pid)
        child = self._children[process.number] = _Child(
            process.number, popen, ours, newcomer=bool(process.loads), begun_s=time.monotonic()
        )
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._read(child))

    def _forked(self, process: Process, theirs: socket.socket) -> Forked | None:
        """Fork it; None: that is not possible, and may be to execute it."""
        code = execution(process.words)
        assert code is not None
        environ = _environment(process, theirs) | {"PMI_FD": str(STREAM)}
        _, output, errors = self._streams
        streams = (1 if output is None else output, 2 if errors is None else errors, theirs.fileno())
        with suppress(OSError):
            return Forked(self._forks.fork(code, environ, process.folder or str(Path.cwd()), streams))
        return None

    def _executed(self, process: Process, theirs: socket.socket) -> subprocess.Popen[bytes]:
        first = process.number == FIRST
        reading, output, errors = self._streams
        return subprocess.Popen(
            process.words,
            stdin=reading if first else subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            cwd=process.folder or None,
            env=_environment(process, theirs),
            pass_fds=[theirs.fileno()],
            # One that reads from a terminal has to stay in the foreground. The others have sessions of their own:
            # among those Linux divides cores that are short, and a job that is all in one takes long to spawn.
            start_new_session=not (first and reading is None and os.isatty(0)),
            preexec_fn=partial(end_with, os.getpid()),  # noqa: PLW1509 - no threads are here
        )

    def _start_server(self, words: Sequence[str], descriptor: int) -> subprocess.Popen[bytes]:
        _, output, errors = self._streams
        how = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": errors, "pass_fds": [descriptor]}
        return self.run_tied(words, **how)


_LAST_NUMBER: Final = Path("/proc/sys/kernel/ns_last_pid")
_OTHERS: Final = 64
"""How many processes others may start meanwhile."""


def _skip_unequal_numbers(count: int) -> None:
    """See to it that the next ``count`` processes have numbers of equal length, as far as others let us.

    MPICH 5.0 takes it for granted that the addresses of a world are equally long. Within a machine, over libfabric's
    shared memory, they contain the process's number: a world with 9,999 and 10,000 in it ends in MPI_Init ("Message
    truncated" in ``MPIDI_OFI_comm_addr_exchange``). So numbers before a longer one, and before they begin anew, are
    used up by processes that end at once, 0.1 ms each.
    """
    try:
        last = int(_LAST_NUMBER.read_text(encoding="ascii"))
    except (OSError, ValueError):  # another system
        return
    length = len(str(last + 1))
    left = count + _OTHERS
    while left and len(str(last + left)) != length:
        left -= 1
        number = os.fork()
        if not number:
            os._exit(0)
        os.waitpid(number, 0)
        if len(str(number)) != length:
            return
        last = number


# What the program needs besides itself --------------------------------------------------------------------------------


def _signal(pid: int, what: signal.Signals) -> None:
    """Send a signal to a process of ours, with its group if it has one of its own."""
    with suppress(ProcessLookupError, PermissionError):  # all have ended, or act for another user
        try:
            os.killpg(pid, what)
        except ProcessLookupError:
            os.kill(pid, what)


def hear_signals(*numbers: signal.Signals) -> int:
    """Take these signals, and the ends of processes; returns where their numbers can be read."""
    heard, wakeup = os.pipe()
    for end in (heard, wakeup):
        os.set_blocking(end, False)
    for number in (*numbers, signal.SIGCHLD):
        # what nohup, or a shell that runs us in the background, has switched off stays so
        if number == signal.SIGCHLD or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    return heard


def _environment(process: Process, stream: socket.socket) -> dict[str, str]:
    """What a process finds in its environment, with ``stream`` as its end of the stream."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(environment.OF_A_LAUNCHER)}
    ours = {
        "PMI_FD": str(stream.fileno()),
        "PMI_RANK": str(process.rank),
        "PMI_SIZE": str(process.size),
        "PMI_HOSTNAME": process.node,
        environment.ENV_LAUNCH: environment.stream_name(stream.fileno()),
    }
    if process.spawned:
        ours["PMI_SPAWNED"] = "1"
    return inherited | ours
