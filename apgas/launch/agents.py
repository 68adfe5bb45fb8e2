"""Agents: how a launcher starts and ends the processes of a job on other hosts. Both ends are here.

An agent is started by ssh, srun, or what stands in for them, and speaks with its launcher over its own standard input
and output. A TCP connection would need a port that listens on one side, a secret that gets to the other one by another
way than the command line, where all users of the host could read it, and a look at who connects. The streams need none
of that: ssh and srun have proven already who is at their ends, ssh encrypts them, and they close with the processes
that hold them.

The launcher gives orders: what the processes get in their environment, and then the effects of the job, as they are.
The agent reports. Each says something from time to time. When one does not hear of the other, or the streams close, an
agent ends, and everything that it has started is killed; for a launcher that host is lost.

Orders are pickled, because who may send them may start any program there. Reports are not, and are checked: garbage is
the loss of that host, not of the launcher.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import selectors
import shlex
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from apgas.core.launching import Send, Signal, Start
from apgas.errors import UsageError
from apgas.launch import ENV_REACHED
from apgas.launch.processes import PASSED_ON, READ_BYTES, Ended, NotStarted, Processes, Received, Started, hear_signals
from apgas.runtime import environment

LOST_AFTER_S: Final = 20.0
"""How long a host may be silent, by default."""
_BEATS: Final = 4
"""How often each end says something in that time."""
_BEGINNING: Final = b"\0apgas agent 1\n"
"""What an agent says first; what a shell has said before is not ours."""
_LENGTH: Final = 4
_LONGEST_REPORT: Final = 4 * READ_BYTES
_LEAVING_S: Final = 5.0
"""How long the program that reached an agent may take to end after it."""
_LAST_WORDS: Final = 4096
_READS: Final = 16
"""A pipe that was not enlarged holds no more than that."""
_UNWRITTEN: Final = 1 << 20
"""How many bytes of output an agent sends before the first of them have been written."""


class Begin(msgspec.Struct, frozen=True):
    """The first order: what the processes get."""

    environ: dict[str, str]
    folder: str
    lost_after_s: float


class Written(msgspec.Struct, frozen=True):
    """That number of bytes of output has been written."""

    count: int


class Alive(msgspec.Struct, frozen=True, tag=True):
    """The other end is there."""


class Bye(msgspec.Struct, frozen=True):
    """The job is over."""


class Output(msgspec.Struct, frozen=True, tag=True):
    """Processes have written to standard output (1) or error output (2)."""

    stream: int
    data: bytes


FromAgent: TypeAlias = Started | NotStarted | Received | Ended | Output | Alive


# The streams ---------------------------------------------------------------------------------------------------------


class _Channel:
    """Frames over a pair of streams, which it closes, and which never wait: what the other end does not take is kept.

    ``beginning`` comes before the first frame, after whatever else. ``hear`` gets each frame; ``ended`` is called when
    no more will come. One that is longer than ``longest`` is none of ours, and the last one.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        reading: int,
        writing: int,
        hear: Callable[[bytes], None],
        ended: Callable[[], None],
        beginning: bytes = b"",
        longest: int = sys.maxsize,
    ) -> None:
        self._selector = selector
        self._reading = reading
        self._writing = writing
        self._hear = hear
        self._ended = ended
        self._beginning = beginning
        self._longest = longest
        self._unread = b""
        self._unsent = b""
        self._open = True
        self.heard_s = self._said_s = time.monotonic()
        for end in (reading, writing):
            os.set_blocking(end, False)
        selector.register(reading, selectors.EVENT_READ, self._read)

    def send(self, frame: bytes) -> None:
        self.send_raw(len(frame).to_bytes(_LENGTH) + frame)

    def send_raw(self, data: bytes) -> None:
        self._said_s = time.monotonic()
        waiting = bool(self._unsent)
        self._unsent += data
        if self._open and not waiting:
            self._write()
            if self._unsent:
                self._selector.register(self._writing, selectors.EVENT_WRITE, self._go_on)

    def beat(self, now_s: float, every_s: float, frame: bytes) -> float:
        """Say something if nothing has been said for a while; returns when to look again."""
        if now_s - self._said_s >= every_s:
            self.send(frame)
        return self._said_s + every_s

    def flush(self, until_s: float) -> None:
        """Wait until all has been sent, but not for ever."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._writing, selectors.EVENT_WRITE)
            while self._unsent and selector.select(max(0.0, until_s - time.monotonic())):
                self._write()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._unread = b""
            for end in (self._reading, self._writing):
                with contextlib.suppress(KeyError):  # nothing was waited for there
                    self._selector.unregister(end)
                os.close(end)

    def _go_on(self) -> None:
        if not self._open:
            return  # another one was called first, in the same round
        self._write()
        if not self._unsent:
            self._selector.unregister(self._writing)

    def _write(self) -> None:
        try:
            self._unsent = self._unsent[os.write(self._writing, self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent = b""  # it is not read; the end of what we read says so

    def _read(self) -> None:
        if not self._open:
            return
        try:
            data = os.read(self._reading, READ_BYTES)
        except OSError:
            data = b""
        if not data:
            self._ended()
            return
        self.heard_s = time.monotonic()
        self._unread += data
        if self._beginning:
            _, found, rest = self._unread.partition(self._beginning)
            if not found:
                self._unread = self._unread[-READ_BYTES:]
                return
            self._unread, self._beginning = rest, b""
        while len(self._unread) >= _LENGTH:
            end = _LENGTH + int.from_bytes(self._unread[:_LENGTH])
            if end > self._longest:
                self._ended()
            if len(self._unread) < end:
                return
            frame, self._unread = self._unread[_LENGTH:end], self._unread[end:]
            self._hear(frame)


class Outlet:
    """Writes what processes on other hosts have written to a stream of ours, and never waits for who reads there.

    So it leaves the writing to a process: whether a stream takes anything cannot be known beforehand, as others write
    to it, too, and to make it non-blocking would do so for them.
    """

    def __init__(self, processes: Processes, selector: selectors.BaseSelector, stream: int) -> None:
        self._selector = selector
        self._cat = processes.run_tied(["cat"], stdin=subprocess.PIPE, stdout=stream)
        assert self._cat.stdin is not None
        self._pipe = self._cat.stdin
        os.set_blocking(self._pipe.fileno(), False)
        self._waiting: deque[tuple[bytes, Callable[[int], None]]] = deque()

    def write(self, data: bytes, written: Callable[[int], None]) -> None:
        """Write ``data`` as soon as the stream takes it; ``written`` is called with its size then."""
        if not self._waiting:
            self._selector.register(self._pipe, selectors.EVENT_WRITE, self._go_on)
        self._waiting.append((data, written))

    def close(self) -> bool:
        """Write nothing more than what waits; returns whether that has been written."""
        if not self._waiting:
            self._pipe.close()
        return self._cat.poll() is not None

    def _go_on(self) -> None:
        data, written = self._waiting.popleft()
        try:
            count = os.write(self._pipe.fileno(), data)
        except OSError:
            count = len(data)  # it is not read
        if count < len(data):
            self._waiting.appendleft((data[count:], written))
        if not self._waiting:
            self._selector.unregister(self._pipe)
        written(count)


# The launcher's end --------------------------------------------------------------------------------------------------

_STEP: Final = (
    "srun --nodes=1 --ntasks=1 --overlap --mem=0 --mpi=none --cpu-bind=none --quiet --unbuffered --nodelist={host}"
)


class Reach:
    """How a program is started on another host.

    ``how`` is ``ssh``, ``srun`` (within an allocation of Slurm), a program that is called like ssh, or the words before
    the program, ``{host}`` among them.

    Raises:
        UsageError: It is none of these.
    """

    def __init__(self, how: str) -> None:
        try:
            self._words = shlex.split(_STEP if how == "srun" else how)
        except ValueError as error:
            raise UsageError(f"the launcher {how!r} cannot be read: {error}") from None
        if not self._words:
            raise UsageError("the launcher is empty")

    def command(self, host: str, words: Sequence[str]) -> list[str]:
        """Return what starts ``words`` on ``host``."""
        if any("{host}" in word for word in self._words):
            return [*(word.replace("{host}", host) for word in self._words), *words]
        # a question for a password would wait for ever
        options = ["-o", "BatchMode=yes"] if Path(self._words[0]).name == "ssh" else []
        return [*self._words, *options, host, shlex.join(words)]


class Agent:
    """An agent, as its launcher sees it; the program that reaches it is one of ``processes``.

    ``report`` hears what becomes of the job's processes there. ``lost`` is called once, with the reason, when there is
    no agent any more. ``outlet`` returns where the processes' output is written, by the number of the stream.
    """

    def __init__(
        self,
        node: str,
        reach: Reach,
        processes: Processes,
        selector: selectors.BaseSelector,
        report: Callable[[Started | NotStarted | Received | Ended], None],
        lost: Callable[[str], None],
        outlet: Callable[[int], Outlet],
        lost_after_s: float,
    ) -> None:
        self.ready = False
        """Whether it has ever said something."""
        self._selector = selector
        self._report = report
        self._lost = lost
        self._outlet = outlet
        self._lost_after_s = lost_after_s
        self._last_words = b""
        self._dismissed = False
        self._leave_s: float | None = None
        """When the program that reached it is killed, once nothing is heard any more."""
        package = str(Path(__file__).parents[2])
        words = ["env", f"PYTHONPATH={package}", sys.executable, "-P", "-m", "apgas.launch", "--agent"]
        self._client = processes.run_tied(
            reach.command(node, words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        streams = self._client.stdin, self._client.stdout, self._client.stderr
        writing, reading, self._errors = (os.dup(stream.fileno()) for stream in streams if stream is not None)
        for stream in streams:
            if stream is not None:
                stream.close()
        os.set_blocking(self._errors, False)
        selector.register(self._errors, selectors.EVENT_READ, self._read_errors)
        self._channel = _Channel(selector, reading, writing, self._hear, self._ended, _BEGINNING, _LONGEST_REPORT)
        self.carry_out(Begin(dict(os.environ), str(Path.cwd()), lost_after_s))

    def carry_out(self, order: Begin | Written | Alive | Bye | Start | Send | Signal) -> None:
        """Have it do what the job wants, or the launcher."""
        if self._leave_s is None:
            self._channel.send(pickle.dumps(order))

    def dismiss(self) -> None:
        """Have it send what it still has, and end."""
        self._dismissed = True
        self.carry_out(Bye())

    def tick(self, now_s: float) -> float:
        """Do what is due; returns when something is due again."""
        if self._leave_s is not None:
            if now_s >= self._leave_s:
                self._kill_client()
            return max(self._leave_s, now_s + 1.0)
        silent_s = now_s - self._channel.heard_s
        if silent_s >= self._lost_after_s:
            self.give_up(f"nothing was heard of it for {silent_s:.0f} s")
            return now_s
        next_s = self._channel.beat(now_s, self._lost_after_s / _BEATS, _ALIVE)
        return min(next_s, self._channel.heard_s + self._lost_after_s)

    def give_up(self, reason: str) -> None:
        """Have nothing more to do with it."""
        if self._leave_s is not None:
            return
        self._leave_s = time.monotonic() + _LEAVING_S
        self._read_errors()
        self._channel.close()
        self._close_errors()
        if self._dismissed:
            return
        self._kill_client()
        said = self._last_words.decode(errors="replace").strip().splitlines()
        self._lost(said[-1] if said and not self.ready else reason)

    @property
    def gone(self) -> bool:
        """Whether nothing is left of it here."""
        return self._leave_s is not None and self._client.poll() is not None

    def _kill_client(self) -> None:
        if self._client.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._client.pid, signal.SIGKILL)

    def _ended(self) -> None:
        self.give_up("its agent, or the way to it, has ended")

    def _hear(self, frame: bytes) -> None:
        self.ready = True
        try:
            report = _REPORTS.decode(frame)
        except (msgspec.DecodeError, ValueError) as error:
            self.give_up(f"its agent sent what is no report: {error}")
            return
        match report:
            case Output(stream, data):
                self._outlet(2 if stream == 2 else 1).write(data, lambda count: self.carry_out(Written(count)))
            case Alive():
                pass
            case _:
                self._report(report)

    def _read_errors(self) -> None:
        """Keep the last words of an agent that has not come up; what others say is for the user."""
        while self._errors >= 0:
            try:
                data = os.read(self._errors, READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                self._close_errors()
            elif self.ready:
                self._outlet(2).write(data, lambda _: None)
            else:
                self._last_words = (self._last_words + data)[-_LAST_WORDS:]

    def _close_errors(self) -> None:
        if self._errors >= 0:
            self._selector.unregister(self._errors)
            os.close(self._errors)
            self._errors = -1


# The agent's end -----------------------------------------------------------------------------------------------------


def serve() -> int:
    """Be an agent, until the job is over; returns the exit code."""
    writing = os.dup(1)
    os.dup2(2, 1)  # nothing else may write between the frames
    try:
        return _Server(writing).run()
    except PermissionError:
        sys.stderr.write("apgas: an agent is started by a launcher, which it speaks with over its streams\n")
        return 2


class _Server:
    def __init__(self, writing: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._channel = _Channel(self._selector, 0, writing, self._hear, self._end)
        self._processes: Processes | None = None
        self._lost_after_s = LOST_AFTER_S
        self._outputs: dict[int, int] = {}
        """Where the output of the processes can be read, and what it is to be called."""
        self._listening = False
        self._unwritten = 0
        self._over = False

    def run(self) -> int:
        # Who ends a step of Slurm sends TERM to all of it: the processes may have something to say still.
        heard = hear_signals(*PASSED_ON)
        self._selector.register(heard, selectors.EVENT_READ, lambda: os.read(heard, READ_BYTES))
        while not self._over:
            now_s = time.monotonic()
            if now_s - self._channel.heard_s >= self._lost_after_s:
                break
            next_s = now_s + 1.0
            if self._processes is not None:
                next_s = self._channel.beat(now_s, self._lost_after_s / _BEATS, _ALIVE_REPORT)
            for key, _ in self._selector.select(max(0.0, next_s - now_s)):
                key.data()
            if self._processes is not None:
                self._processes.reap()
        # what it has started and is still there is killed with it
        if self._processes is not None:
            self._processes.close()
        return 0

    def _end(self) -> None:
        self._over = True

    def _hear(self, frame: bytes) -> None:
        match pickle.loads(frame):
            case Begin() as begin:
                self._begin(begin)
            case Written(count):
                self._unwritten -= count
                self._listen()
            case Bye():
                self._drain()
                self._channel.flush(time.monotonic() + self._lost_after_s)
                self._over = True
            case Start() | Send() | Signal() as effect:
                assert self._processes is not None
                self._processes.carry_out(effect)
            case _:
                pass

    def _begin(self, begin: Begin) -> None:
        reached = {name: os.environ[name] for name in (ENV_REACHED,) if name in os.environ}
        os.environ.clear()
        os.environ.update(begin.environ | reached)
        try:
            os.chdir(begin.folder)
        except OSError as error:
            sys.exit(f"no folder {begin.folder} there: {error.strerror}")
        environment.raise_open_files_limit()
        writing: list[int] = []
        for stream in (1, 2):
            reading, end = os.pipe()
            os.set_blocking(reading, False)
            self._outputs[reading] = stream
            writing.append(end)
        self._listen()
        self._processes = Processes(self._selector, self._report, (subprocess.DEVNULL, writing[0], writing[1]))
        self._lost_after_s = begin.lost_after_s
        self._channel.send_raw(_BEGINNING)
        self._channel.send(_ALIVE_REPORT)

    def _report(self, report: Started | NotStarted | Received | Ended) -> None:
        if isinstance(report, Ended):
            self._drain()
        self._channel.send(msgspec.msgpack.encode(report))

    def _listen(self) -> None:
        """Take what the processes write only as long as the launcher gets rid of it."""
        wanted = self._unwritten < _UNWRITTEN
        if wanted == self._listening:
            return
        self._listening = wanted
        for reading in self._outputs:
            if wanted:
                self._selector.register(reading, selectors.EVENT_READ, partial(self._pass_on, reading))
            else:
                self._selector.unregister(reading)

    def _drain(self) -> None:
        """Pass on what has been written; others may go on to write."""
        for reading in self._outputs:
            for _ in range(_READS):
                if not self._pass_on(reading):
                    break

    def _pass_on(self, reading: int) -> bool:
        """Pass on what the processes have written; whether there was something."""
        try:
            data = os.read(reading, READ_BYTES)
        except BlockingIOError:
            return False
        self._unwritten += len(data)
        self._channel.send(msgspec.msgpack.encode(Output(self._outputs[reading], data)))
        self._listen()
        return True


_REPORTS: Final = msgspec.msgpack.Decoder(FromAgent)
_ALIVE: Final = pickle.dumps(Alive())
_ALIVE_REPORT: Final = msgspec.msgpack.encode(Alive())
