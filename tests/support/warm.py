"""An interpreter that has the scheduler's modules already and becomes a scheduler on request: spares their loading.

What is started so is a process like any other, one at a time. Run as a program this is the interpreter itself; its
argument is the descriptor of the socket over which it gets its requests.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

PATIENCE_S: Final = 600.0
_REQUEST_BYTES: Final = 256 * 1024
_ROOT: Final = str(Path(__file__).resolve().parents[2])


class WarmScheduler:
    """A scheduler that was started by a warm interpreter."""

    def __init__(self, control: socket.socket, output: int, pid: int) -> None:
        self._control = control
        self._output = os.fdopen(output, encoding="utf-8")
        self._pid = pid
        self.returncode: int | None = None

    def readline(self) -> str:
        """Return the next line of its standard output."""
        return self._output.readline()

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait for its end; return its status as ``subprocess`` does, negative for a signal."""
        if self.returncode is None:
            self._control.settimeout(timeout_s)
            self.returncode = int(self._control.recv(64))
            self._output.close()
        return self.returncode

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self._send(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and was not waited for yet
                os.kill(self._pid, number)


class WarmInterpreter:
    """Starts schedulers, one after the other; a context manager."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(PATIENCE_S)
        command = [sys.executable, __file__, str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), cwd=_ROOT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._control.close()
        try:
            self._process.wait(PATIENCE_S)  # its schedulers have ended
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise

    def start(self, words: Sequence[str], environment: Mapping[str, str]) -> WarmScheduler:
        """Run ``malleable`` with these words in a session of its own."""
        ours, theirs = os.pipe()
        try:
            request = json.dumps({"words": words, "environment": dict(environment)}).encode()
            socket.send_fds(self._control, [request], [theirs])
        finally:
            os.close(theirs)
        return WarmScheduler(self._control, ours, int(self._control.recv(64)))


def _serve(control: socket.socket) -> None:
    while True:
        text, descriptors, _, _ = socket.recv_fds(control, _REQUEST_BYTES, 1)
        if not text:
            return
        asked = json.loads(text)
        pid = os.fork()
        if pid == 0:
            control.close()
            _become(asked["words"], asked["environment"], descriptors[0])
        os.close(descriptors[0])
        control.send(str(pid).encode())
        control.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


def _become(words: list[str], environment: dict[str, str], output: int) -> None:
    """Be the scheduler, and nothing else, as a new interpreter would."""
    from scheduler_bridge.cli.app import run
    from support.dying import die_as_asked

    code = 70
    try:
        os.setsid()
        os.dup2(output, sys.stdout.fileno())
        os.environ.clear()
        os.environ.update(environment)
        die_as_asked()
        code = run(words)
        sys.stdout.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.path[:1] = [_ROOT, str(Path(__file__).resolve().parents[1])]
    import scheduler_bridge.cli.app
    import scheduler_bridge.cli.serve
    import scheduler_bridge.daemon.daemon  # noqa: F401 - all that a scheduler needs

    _serve(socket.socket(fileno=int(sys.argv[1])))
