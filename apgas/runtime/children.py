"""(place 0) Places as children of a program that no process manager has started: on this machine, without MPI.

MPI would start mpiexec for the first spawn, which listens on every address, obeys who connects, and ends the job with
any process that dies. A child hears its part over a socket pair instead, and MPI is not even loaded.

A child ends when its connection to place 0 does. One that does not let go of its interpreter notices nothing of that.
So a *keeper* knows the numbers of the children. When place 0 has ended, in whatever way, it kills those that are left,
and what they have started.

This module loads little: children that are started before place 0 has loaded the runtime load it at the same time.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import BufferedRWPair
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from apgas.errors import ApgasError
from apgas.runtime import environment, keeper
from apgas.runtime.forkserver import STREAM, Forked, ForkServer, Loads

if TYPE_CHECKING:
    from apgas.runtime.joining import PlaceReport

REPORT_S: Final = 300.0
"""How long a child may take to report."""

_Process: TypeAlias = subprocess.Popen[bytes] | Forked
Child: TypeAlias = tuple[_Process, BufferedRWPair]
"""With our end of the stream to it."""

_PROGRAM: Final = "import sys; sys.path.insert(0, {path!r}); from apgas.runtime.joining import main; main({descriptor})"

_ready: list[Child] = []
"""Those that have been started before they are wanted."""
_arriving: set[_Process] = set()
"""Those of which no other place knows."""


def prestart(count: int) -> None:
    """Start children that will be wanted on this node.

    Raises:
        OSError: None can be started.
    """
    _ready.extend(_start("", count - len(_ready), {}))


def discard() -> None:
    """Let those go that have not been wanted."""
    unwanted = _ready.copy()
    _ready.clear()
    dismiss(unwanted)


def start(node: str, count: int, changed: Mapping[str, str | None]) -> Iterator[Child]:
    """Start ``count`` children on a node; empty: that of this process. ``changed``: by the program, of its environment.

    Raises:
        OSError: One cannot be started.
    """
    while count and _ready and node in ("", environment.node_name()):
        count -= 1
        yield _ready.pop(0)
    yield from _start(node, count, changed)


def _start(node: str, count: int, changed: Mapping[str, str | None]) -> Iterator[Child]:
    if count <= 0:
        return
    environ = {**os.environ, "PMI_HOSTNAME": node} if node else dict(os.environ)
    with _forks.forking(sys.executable, Loads.here(changed), count) as possible:
        for _ in range(count):
            ours, theirs = socket.socketpair()
            with ours, theirs:
                ours.settimeout(REPORT_S)
                child = (_forked(environ, theirs) if possible else None) or _executed(environ, theirs)
                _arriving.add(child)
                _keep(child.pid)
                yield child, ours.makefile("rwb")


def _forked(environ: Mapping[str, str], theirs: socket.socket) -> Forked | None:
    with suppress(OSError):  # then it may be possible to execute it
        return Forked(_forks.fork(_program(STREAM), environ, str(Path.cwd()), (1, 2, theirs.fileno())))
    return None


def _executed(environ: Mapping[str, str], theirs: socket.socket) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _program(theirs.fileno())],
        env=environ,
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        start_new_session=True,  # Ctrl-C means this process
    )


def _program(descriptor: int) -> str:
    return _PROGRAM.format(path=__file__.rpartition("/apgas/runtime/")[0], descriptor=descriptor)


def _start_server(words: Sequence[str], descriptor: int) -> subprocess.Popen[bytes]:
    server = subprocess.Popen(words, stdin=subprocess.DEVNULL, pass_fds=[descriptor], start_new_session=True)
    _keep(server.pid)
    return server


def report(child: _Process, stream: BufferedRWPair) -> PlaceReport | str:
    """Wait for what a child reports.

    Raises:
        ApgasError: It has ended without a report.
    """
    try:
        found: PlaceReport | str = pickle.load(stream)
    except (EOFError, ConnectionError):
        raise ApgasError(f"a place ended as it started, with exit code {child.wait()}") from None
    return found


def accept(children: Iterable[Child]) -> None:
    """Let children be that know all."""
    for child, stream in children:
        _arriving.discard(child)
        with suppress(OSError):  # it has ended
            stream.close()
        threading.Thread(target=_attend, args=(child,), name=f"apgas-child-{child.pid}", daemon=True).start()


def dismiss(children: Iterable[Child]) -> None:
    """End children that are not wanted."""
    for child, stream in children:
        _kill(child)
        accept([(child, stream)])


def _kill(child: _Process) -> None:
    if child.poll() is None:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:  # a fork that has not come to make a group of its own
            os.kill(child.pid, signal.SIGKILL)


def _attend(child: _Process) -> None:
    """Wait for the end of a child; what a lost one has started must not outlive it."""
    with suppress(OSError):  # the program has waited for it, as for any child; or none of its group is left
        # as long as it has not been waited for, its number is that of no other process or group
        ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        if ended is not None and ended.si_status:
            os.killpg(child.pid, signal.SIGKILL)
    _let_go(child.pid)
    child.wait()


# The keeper ----------------------------------------------------------------------------------------------------------

_keeper = -1
_keeper_pid = 0
_kept: set[int] = set()
_starting = threading.Lock()


def _keep(pid: int) -> None:
    """Let the keeper know of a child that begins; the keeper is started first if there is none."""
    global _keeper, _keeper_pid
    with _starting:
        if not _keeper_pid:
            os.register_at_fork(after_in_child=_forget)
            atexit.register(_part)
        if _keeper < 0:
            _keeper_pid, _keeper = keeper.start()
        _kept.add(pid)
        keeper.tell(_keeper, pid)


def _let_go(pid: int) -> None:
    """Let the keeper know of a child that has ended; without children there is none, and no fork server."""
    global _keeper
    with _starting:
        _kept.discard(pid)
        keeper.tell(_keeper, -pid)
        useless = _kept == {_forks.pid}
        if not _kept and _keeper >= 0:
            os.close(_keeper)
            _keeper, ending = -1, _keeper_pid
        else:
            ending = 0
    if useless:
        _forks.close_if_idle()
    if ending:
        with suppress(ChildProcessError):  # the program has waited for it
            os.waitpid(ending, 0)


_forks: Final = ForkServer(_start_server, _let_go)


def _part() -> None:
    """This process ends by itself, and so do the children, but those that it has not heard of."""
    if _keeper >= 0:  # else this is a forked child
        _forks.close()
        for child in [*_arriving, *(child for child, _ in _ready)]:
            _kill(child)
        keeper.tell(_keeper, "bye")


def _forget() -> None:
    """(forked child) Let the keeper, and the fork server, see the end of the place alone."""
    global _keeper  # noqa: PLW0603 - as above
    if _keeper >= 0:
        with suppress(OSError):  # closed by what the child is for
            os.close(_keeper)
        _keeper = -1
    _forks.close(forked=True)
