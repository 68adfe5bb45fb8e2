"""A fork server: a Python process that has loaded what newcomers load, and becomes them by forking.

Who asks it, ``ForkServer``, is the launcher, its agent on another host, or place 0 of a program that no launcher has
started. The server forks twice and ends the process in between, whereupon the kernel makes the newcomer a child of who
has asked (a *subreaper*). So it is waited for as any other child, and the server may die without harm to it: the next
newcomers begin as programs of their own then.

To load NumPy takes more than a place's other beginnings. So the server loads what place 0 has loaded of the packages
in ``LOADABLE``. A fork has only the thread that forked, and what other threads held stays locked in it: of those
packages it is known that they begin no threads, or mend them after a fork (OpenBLAS).

Of other modules its user has to know that: those in ``APGAS_PRELOAD`` are loaded, too.

The first places of a host are forks as well if they are more than its cores, or if there are such modules. Place 0 is
none: it may read what its user types.
"""

from __future__ import annotations

import os
import pickle
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from apgas.runtime import at_once, environment

if TYPE_CHECKING:
    from types import CodeType

LOADABLE: Final = ("glb", "benchmarks", "msgspec", "cloudpickle", "numpy", "scipy", "numba", "llvmlite")
"""Packages of which a server loads what place 0 has loaded. mpi4py is none of them: to load it is to initialize MPI."""
ENV_PRELOAD: Final = "APGAS_PRELOAD"
"""Modules that a server loads besides, separated by commas."""
NEEDED: Final = ("apgas.runtime.joining", "apgas.runtime.process")
"""What each newcomer loads of ``apgas``; most of the rest is for place 0."""
STREAM: Final = 3
"""The descriptor of a newcomer's stream."""
ANSWER_S = 3.0
"""How long a server may take to answer. A launcher that waits longer for it might be taken for lost by its agents."""
PRELOAD_S = 10.0
"""How long first places wait for it to load what its user has named; an agent is lost after twice as long."""

_PROGRAM: Final = (
    "import sys; sys.path.insert(0, {path!r}); from apgas.runtime.forkserver import serve; exec(serve({fd}))"
)
_MOST_BYTES: Final = 1 << 20
_SUBREAPER, _WAS_SUBREAPER, _PDEATHSIG = 36, 37, 1  # of prctl(2)
_SIGKILL: Final = 9


class Loads(NamedTuple):
    """What newcomers of a program load.

    Attributes:
        environ: What the program has changed in its environment, which modules may read as they are loaded; None: it
            has removed the variable.
        path: Where modules are looked for.
        modules: Their names, those that others need first.
    """

    environ: Mapping[str, str | None]
    path: Sequence[str]
    modules: Sequence[str]

    @classmethod
    def here(cls, environ: Mapping[str, str | None]) -> Loads:
        """What this process has loaded, and newcomers will."""
        named = preloaded()
        known = {*LOADABLE, *(name.partition(".")[0] for name in named)}
        found = [name for name in list(sys.modules) if name.partition(".")[0] in known and "__main__" not in name]
        return cls(environ, list(map(str, sys.path)), [*NEEDED, *found, *named])

    @classmethod
    def before(cls, words: Sequence[str], modules: Sequence[str]) -> Loads | None:
        """Modules that programs find loaded which begin as ``words`` say; None: a fork cannot do what they say.

        It can if this Python is to execute a file, or a module, without options of its own, that finds this library.
        """
        from importlib.machinery import PathFinder
        from pathlib import Path
        from shutil import which

        python, here = which(words[0]), Path(sys.executable)
        if python is None or not (here.samefile(python) and here.parent.samefile(Path(python).parent)):
            return None
        if execution(words) is None:
            return None
        # flags of this process are not for the program
        path = sys.path if sys.flags.safe_path else sys.path[1:]
        if sys.flags.ignore_environment and (named := os.environ.get("PYTHONPATH")):
            path = [*map(os.path.abspath, named.split(os.pathsep)), *path]
        if not os.environ.get("PYTHONSAFEPATH"):
            own = "" if words[1] == "-c" else str(Path.cwd() if words[1] == "-m" else Path(words[1]).resolve().parent)
            path = [own, *path]
        found = PathFinder.find_spec("apgas", path)
        if found is None or found.origin is None or not Path(__file__).parents[1].samefile(Path(found.origin).parent):
            return None  # it would find another one than the server does
        return cls({}, path, [*NEEDED, *modules])

    def text(self) -> str:
        """As a line, for ``parse``."""
        import json

        return json.dumps(self)

    @classmethod
    def parse(cls, text: str) -> Loads:
        """What ``text`` has returned."""
        import json

        return cls(*json.loads(text))


def preloaded() -> list[str]:
    """The modules that the user has named."""
    return [name.strip() for name in os.environ.get(ENV_PRELOAD, "").split(",") if name.strip()]


def execution(words: Sequence[str]) -> str | None:
    """Return what ``python -c`` executes in place of a Python with this command line; None: there is no such thing."""
    match words:
        case [_, "-c", code]:
            return code
        case [_, "-m", module, *arguments]:
            run = f"run_module({module!r}, run_name='__main__', alter_sys=True)"
            return f"import runpy, sys; sys.argv = {['-m', *arguments]!r}; runpy.{run}"
        case [_, file, *arguments] if not file.startswith("-"):
            run = "exec(compile(open(__file__, 'rb').read(), __file__, 'exec'))"
            return f"import os, sys; sys.argv = {[file, *arguments]!r}; __file__ = os.path.abspath({file!r}); {run}"
        case _:
            return None


class Fork(NamedTuple):
    """A newcomer that is wanted.

    Attributes:
        code: What it executes, as by ``python -c``.
        environ: All of its environment.
        folder: Where it begins.
        cores: Those that it may use.
        parent: Whose child it becomes.
        tied: Whether it is killed as soon as its parent ends.
    """

    code: str
    environ: Mapping[str, str]
    folder: str
    cores: frozenset[int]
    parent: int
    tied: bool


class ForkServer:
    """A fork server, as who asks it sees it. Its process is there if it pays. One thread at a time can fork.

    Args:
        start: Starts a process that has the given descriptor, in a session of its own.
        ended: Is called with the id of such a process that has ended.
        tied: Whether newcomers are killed as soon as this process ends.
    """

    def __init__(
        self,
        start: Callable[[Sequence[str], int], subprocess.Popen[bytes]],
        ended: Callable[[int], None],
        *,
        tied: bool = False,
    ) -> None:
        self._start = start
        self._ended = ended
        self._tied = tied
        self.used = False
        """Whether places have started on this host before."""
        self._forking = threading.Lock()
        self._kind: tuple[str, Mapping[str, str | None], Sequence[str]] | None = None
        """The interpreter, environment and path of the process."""
        self._loaded: set[str] = set()
        self._loading = 0
        """How often it has been asked to load something and has not answered."""
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    @contextmanager
    def forking(self, python: str, loads: Loads, count: int, wait_s: float = 0.0) -> Iterator[bool]:
        """Within the block ``fork`` can be called ``count`` times, if it pays, or is worth a wait.

        Newcomers of a host, if they are no more than its cores, load what they need at the same time: they do not wait
        for a server to do so first, but later ones have one. There is none where no others have started before, as
        where each place has a host of its own.
        """
        with self._forking:
            used, self.used = self.used, True
            wait_s = max(wait_s, ANSWER_S if count > len(os.sched_getaffinity(0)) else 0)
            there = self._prepared(python, loads) if wait_s else self._fits(python, loads)
            possible = there and self._has_loaded(wait_s)
            yield possible
            if used or possible:
                self._prepared(python, loads)

    def fork(self, code: str, environ: Mapping[str, str], folder: str, streams: tuple[int, int, int]) -> int:
        """Return the process id of a new child of this process; see ``Fork``.

        ``streams``: descriptors of its output, its errors, and what it finds at ``STREAM``.

        Raises:
            OSError: The server cannot do that, or has ended.
        """
        cores = frozenset(os.sched_getaffinity(0))
        # a fork of which we do not hear goes no further: another process will begin in its place, with its stream
        waiting, going = os.pipe()
        try:
            with _adopting():
                self._ask(Fork(code, dict(environ), folder, cores, os.getpid(), self._tied), (*streams, waiting))
                answer = self._hear()
            with suppress(BrokenPipeError):  # it has been killed, which is noticed as at any other time
                os.write(going, b"!")
        except BaseException:  # it has ended, or hangs; or after Ctrl-C its answer would be that to the next question
            self.close()
            raise
        finally:
            os.close(waiting)
            os.close(going)
        if answer < 0:
            raise OSError(-answer, os.strerror(-answer))
        return answer

    @property
    def pid(self) -> int:
        """Of its process; 0: there is none."""
        process = self._process
        return 0 if process is None else process.pid

    def close(self, *, forked: bool = False) -> None:
        """End its process; those that it has forked go on. In a ``forked`` child it stays that of the parent."""
        # another thread may end it just now, as the last child has ended
        ours, self._socket = self._socket, None
        process, self._process = self._process, None
        if ours is not None:
            ours.close()
        if process is not None and not forked:
            process.kill()
            process.wait()
            self._ended(process.pid)

    def close_if_idle(self) -> None:
        """End its process, unless another thread is about to fork."""
        if self._forking.acquire(blocking=False):
            self.close()
            self._forking.release()

    def _prepared(self, python: str, loads: Loads) -> bool:
        """Whether there is a server that loads this, as it has just been asked to, before it forks."""
        try:
            if not self._fits(python, loads):
                self._open(python, loads)
            self._load(loads)
        except OSError:
            self.close()
            return False
        return True

    def _has_loaded(self, wait_s: float) -> bool:
        """Whether it has loaded all that it was asked to; files may come slowly."""
        while self._loading:
            assert self._socket is not None
            try:
                if not select.select([self._socket], [], [], wait_s)[0]:
                    return False
                self._hear()
            except OSError:
                self.close()
                return False
            self._loading -= 1
        return True

    def _fits(self, python: str, loads: Loads) -> bool:
        return self._socket is not None and self._kind == (python, loads.environ, list(loads.path))

    def _open(self, python: str, loads: Loads) -> None:
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(ANSWER_S)
        self._socket, self._kind, self._loaded = ours, (python, loads.environ, list(loads.path)), set()
        self._loading = 0
        with theirs:
            path = __file__.rpartition("/apgas/runtime/")[0]
            program = _PROGRAM.format(path=path, fd=theirs.fileno())
            self._process = self._start([python, "-c", program], theirs.fileno())

    def _load(self, loads: Loads) -> None:
        modules = [name for name in loads.modules if name not in self._loaded]
        if modules:
            self._loading += 1  # before Ctrl-C may come: an answer that is not waited for would be taken for a process
            self._ask(loads._replace(modules=modules))
            self._loaded.update(modules)

    def _ask(self, what: Loads | Fork, streams: Sequence[int] = ()) -> None:
        if self._socket is None:
            raise OSError("there is no fork server")
        socket.send_fds(self._socket, [pickle.dumps(what)], streams)

    def _hear(self) -> int:
        assert self._socket is not None
        heard = self._socket.recv(_MOST_BYTES)
        if not heard:
            raise OSError("the fork server has ended")
        return int(heard)


class Forked:
    """A child that a fork server has made: what ``subprocess.Popen`` is for those that it has started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Its exit code, or negative signal; None: it runs."""
        return self._look(os.WNOHANG)

    def wait(self) -> int:
        """Wait for its exit code, or negative signal."""
        with suppress(ChildProcessError):  # as below
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        code = self._look(0)
        assert code is not None
        return code

    def _look(self, how: int) -> int | None:
        with self._lock:
            if self.returncode is None:
                try:
                    pid, status = os.waitpid(self.pid, how)
                except ChildProcessError:  # the program has waited for it, as for any child
                    self.returncode = 0
                else:
                    self.returncode = os.waitstatus_to_exitcode(status) if pid else None
            return self.returncode


def _prctl(what: int, value: Any) -> None:
    import ctypes

    if ctypes.CDLL(None).prctl(what, value, 0, 0, 0):
        raise OSError("prctl failed")


def end_with(parent: int) -> None:
    """Have the kernel kill this process when ``parent`` ends, whose child it is."""
    _prctl(_PDEATHSIG, _SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it has ended already


@contextmanager
def _adopting() -> Iterator[None]:
    """Become the parent of processes below this one that lose theirs."""
    import ctypes

    was = ctypes.c_int()
    _prctl(_WAS_SUBREAPER, ctypes.byref(was))
    _prctl(_SUBREAPER, 1)
    try:
        yield
    finally:
        _prctl(_SUBREAPER, was.value)


# The server's end ----------------------------------------------------------------------------------------------------


def serve(fd: int) -> CodeType:
    """Fork until the client has ended; returns in each newcomer, with what it executes."""
    with socket.socket(fileno=fd) as ours:
        try:
            wanted, descriptors = _serve(ours)
        except ConnectionError:  # who has asked has ended, or does not wait any longer
            sys.exit()
    *streams, waiting = descriptors
    if not os.read(waiting, 1):
        os._exit(1)
    os.close(waiting)
    _become(wanted, streams)
    return compile(wanted.code, "<string>", "exec")


def _serve(ours: socket.socket) -> tuple[Fork, list[int]]:
    """Do what is asked; returns in each newcomer, with what is wanted of it and its descriptors."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(ours, _MOST_BYTES, 4)
        if not request:
            raise ConnectionError
        wanted: Loads | Fork = pickle.loads(request)
        if isinstance(wanted, Loads):
            _load(wanted)
            ours.send(b"0")
            continue
        answer = _fork_in(wanted.folder)
        if not answer:
            return wanted, descriptors
        ours.send(b"%d" % answer)
        for descriptor in descriptors:
            os.close(descriptor)


def _load(loads: Loads) -> None:
    import gc
    from importlib import import_module

    environment.take_over(loads.environ)
    sys.path[:] = loads.path
    sys.modules["mpi4py.MPI"] = None  # type: ignore[assignment]  # what wants it now cannot be loaded here
    with at_once():
        for name in loads.modules:
            with suppress(Exception):  # newcomers that need it will say what is wrong
                import_module(name)
    del sys.modules["mpi4py.MPI"]
    gc.freeze()  # a fork's collector would copy the memory of what it looks at


def _fork_in(folder: str) -> int:
    """Fork twice; returns the newcomer's process id, the negative number of an error, or 0 in the newcomer."""
    import warnings

    reading, writing = os.pipe()
    try:
        os.chdir(folder)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which are OpenBLAS's
            if between := os.fork():
                os.waitpid(between, 0)
                os.set_blocking(reading, False)
                return int(os.read(reading, 64))
            between = os.getpid()
            try:
                answer = os.fork()
            except OSError as error:
                answer = -(error.errno or 1)
            if answer:
                os.write(writing, b"%d" % answer)
                os._exit(0)
            while os.getppid() == between:
                os.sched_yield()
            return 0
    except OSError as error:
        return -(error.errno or 1)
    finally:
        os.close(reading)
        os.close(writing)


def _become(wanted: Fork, streams: Sequence[int]) -> None:
    """(newcomer) Have what a process has that ``subprocess`` starts."""
    os.setsid()
    if wanted.tied:
        end_with(wanted.parent)
    for stream, number in zip(streams, (1, 2, STREAM), strict=True):
        os.dup2(stream, number)
    for stream in streams:
        if stream > STREAM:
            os.close(stream)
    os.environ.clear()
    os.environ.update(wanted.environ)
    if os.sched_getaffinity(0) != wanted.cores:
        os.sched_setaffinity(0, wanted.cores)
    if sys.stdout is not None:
        # what Python has chosen for the server's output need not be right for ours
        sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())  # type: ignore[union-attr]  # it is a TextIOWrapper
    if (numpy_random := sys.modules.get("numpy.random")) is not None:
        numpy_random.seed()  # else all have the same
