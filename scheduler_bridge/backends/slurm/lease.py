"""The lease of a companion job: it lends its node as long as the borrower holds a connection. Both ends.

Run as a script (``python -I lease.py PORT LOST_S HOST...``), this file is all that a companion job does: it connects to
the borrower, and ends when the connection does, and the job with it. It need not be cancelled, and Slurm is not asked.

==============================================  ======================================================================
what happens                                    why the companion job ends
==============================================  ======================================================================
the borrower gives the node back                it says so, and the script ends with exit code 0
the borrower is killed                          the kernel closes the connection: at once, exit code 1
the host of the borrower is lost, or cut off    the kernel's probes have no answer: after ``lost_s``, exit code 1
the borrower ends before the script begins      no process listens, or not for this job: at once, exit code 1
the borrower is stopped, or swaps               not at all: the kernel of its host answers the probes
slurmctld is away                               not at all; what ends meanwhile is reported by slurmd when it is back
Slurm is about to end it, by TERM               where nodes are harvested: when the borrower says so, which is warned.
                                                Elsewhere: at once
==============================================  ======================================================================

That is why the probes are the kernel's (TCP keepalive), and not messages of ours. Standard library only: as a script it
is started with the plain interpreter.

Of a preemption Slurm warns the steps of a job, and not its script: so where nodes are harvested the script starts a
step, a *witness*, that says when it gets TERM. ``scancel`` and the end of the time give both of them TERM. The node is
lent when its witness hears, and another one is started for one that fails, as where slurmctld does not answer ``srun``.
"""

import hmac
import os
import secrets
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

LOST_S = 20
"""After this time without an answer a host counts as lost, by default."""
LEAST_S = 4
"""The kernel counts whole seconds, and probes several times."""
CONNECT_S = 5.0
TOKEN = "MALLEABLE_LEASE"
_STEP = "MALLEABLE_WITNESS"
_PROBES = 3
_OVER = b"E"
_WARNED = b"W"
_HEARS = b"H"
_FAILED = b"F"
_HEARS_S = 20.0
"""A node whose witness takes longer to start is lent without one."""
_ANOTHER_S = 2.0
WITNESS = "malleable-witness"
"""The name of the step of a witness, and what makes this file one."""
_HELLO_MOST = 200
_STRANGERS = 64


def _watch_over(connection: socket.socket, lost_s: int) -> None:
    """Let the kernel end a connection to a host that is lost."""
    every_s = lost_s // (_PROBES + 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, every_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, every_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, lost_s * 1000)


def lend(port: int, lost_s: int, hosts: Sequence[str], token: str, job: str, witness: Sequence[str] = ()) -> int:
    """Hold on until the borrower is done; return the exit code of the companion job.

    Args:
        port: Where the borrower listens.
        lost_s: After this time without an answer its host counts as lost.
        hosts: Names and addresses of its host, of which one is known to this one.
        token: What the borrower knows its companions by.
        job: The number of the companion job.
        witness: The command that starts a witness; empty: TERM is not heard.
    """
    heard = _listen(witness) if witness else None
    for host in hosts:
        try:
            with socket.create_connection((host, port), CONNECT_S) as borrower:
                _watch_over(borrower, lost_s)
                borrower.settimeout(None)
                borrower.sendall(f"{token} {job}\n".encode())
                if heard is not None:
                    _pass_warning_on(heard, borrower)
                return 0 if borrower.recv(1) == _OVER else 1
        except OSError:  # another name may lead there; none does if the borrower is gone
            continue
    return 1


def _listen(witness: Sequence[str]) -> int:
    """Start a witness; return when it hears, or has failed once.

    Returns:
        A pipe. It says how witnesses fare, and anything else when one of them, or this process, has got TERM.
    """
    heard, said = os.pipe()
    os.set_blocking(said, False)
    signal.set_wakeup_fd(said, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda *_: None)

    def keep() -> None:
        # a witness ends with the job, whose script this is; one that has said what it heard is done
        failed = True
        while failed:
            with suppress(OSError):
                failed = subprocess.call(witness, stdin=subprocess.DEVNULL, stdout=said, start_new_session=True) != 0
            if failed:
                os.write(said, _FAILED)
                time.sleep(_ANOTHER_S)

    threading.Thread(target=keep, name="witness", daemon=True).start()
    select.select([heard], [], [], _HEARS_S)
    return heard


def _pass_warning_on(heard: int, borrower: socket.socket) -> None:
    """Return when the borrower has said something, or is gone; if Slurm warns before that, let the borrower know."""
    while borrower.fileno() not in (ready := select.select([heard, borrower.fileno()], [], [])[0]):
        if ready and os.read(heard, 1) not in (_HEARS, _FAILED):
            borrower.sendall(_WARNED)
            return


def bear_witness() -> None:
    """Say on standard output that this process hears, and when it gets TERM; end then."""

    def say(*_: object) -> None:
        with suppress(OSError):  # the script has ended before
            os.write(1, _WARNED)
        os._exit(0)

    signal.signal(signal.SIGTERM, say)
    os.write(1, _HEARS)
    while True:
        signal.pause()


class Leases:
    """The borrower's end: the companion jobs that hold a connection. Its methods may be called from any thread.

    Args:
        lost: Called, in a thread, with the number of a companion job that has ended by itself.
        warned: Called, in a thread, with that of one that Slurm is about to end.
        witness: What starts a step in which a witness runs; empty: there is none, and TERM ends the script at once.
        lost_s: After this time without an answer a host counts as lost.
    """

    def __init__(
        self,
        lost: Callable[[int], None],
        warned: Callable[[int], None] = lambda _: None,
        witness: Sequence[str] = (),
        lost_s: int = LOST_S,
    ) -> None:
        self._lost = lost
        self._warned = warned
        self._witness = witness
        self._lost_s = lost_s
        self._token = secrets.token_hex(16)
        self._listener = socket.create_server(("", 0))
        self._port: int = self._listener.getsockname()[1]
        self._change = threading.Condition()
        self._asking = 0
        self._wanted: set[int] = set()
        self._held: dict[int, socket.socket] = {}
        self._closed = False
        self._strangers = threading.BoundedSemaphore(_STRANGERS)
        threading.Thread(target=self._accept, name="leases", daemon=True).start()

    def script(self, hosts: Sequence[str]) -> str:
        """Return the script of a companion job; ``hosts``: how it finds this host."""
        this = (sys.executable, "-I", str(Path(__file__).resolve()))  # at the same path on all nodes
        words = (*this, str(self._port), str(self._lost_s), *hosts)
        lines = ["#!/bin/sh", f"export {TOKEN}={self._token}", f"exec {shlex.join(words)}"]
        if self._witness:
            lines.insert(2, f"export {_STEP}={shlex.quote(shlex.join((*self._witness, *this, WITNESS)))}")
        return "".join(f"{line}\n" for line in lines)

    def ask(self, submit: Callable[[], int]) -> int:
        """Have a companion job submitted, and let it in; return its number. Others end when they start."""
        with self._change:
            self._asking += 1  # it may be here before we know its number
        try:
            job = submit()
            with self._change:
                self._wanted.add(job)
            return job
        finally:
            with self._change:
                self._asking -= 1
                self._change.notify_all()

    def wait(self, job: int, wait_s: float) -> bool:
        """Wait until a companion job holds its node for us; returns soon, too, after ``wake`` and ``close``."""
        until = time.monotonic() + wait_s
        with self._change:
            while job not in self._held and not self._closed and (left := until - time.monotonic()) > 0:
                self._change.wait(left)
            return job in self._held

    def end(self, job: int) -> bool:
        """Have a companion job end; returns whether it can hear that."""
        with self._change:
            self._wanted.discard(job)
            connection = self._held.pop(job, None)
        if connection is None:
            return False
        with suppress(OSError):  # it has ended by itself just now
            connection.sendall(_OVER)
            connection.shutdown(socket.SHUT_RDWR)
        return True

    def wake(self) -> None:
        """Wait for no companion job any more, and let none in."""
        with self._change:
            self._closed = True
            self._change.notify_all()

    def close(self) -> None:
        """Have all companion jobs end."""
        self.wake()
        for job in tuple(self._held):
            self.end(job)
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._closed:
                    return
                time.sleep(0.1)  # no descriptor is left; others may end
                continue
            if self._strangers.acquire(blocking=False):
                threading.Thread(target=self._serve, args=(connection,), name="lease", daemon=True).start()
            else:
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                job = self._introduced(connection)
            finally:
                self._strangers.release()
            if job is None:
                return
            with suppress(OSError):  # such is the end of a lost one
                while (word := connection.recv(1)) and word == _WARNED:
                    self._warned(job)
        with self._change:
            lost = self._held.get(job) is connection
            if lost:
                del self._held[job]
        if lost:
            self._lost(job)

    def _introduced(self, connection: socket.socket) -> int | None:
        """Return the job at the other end, which is one of ours and waited for; None: it is a stranger."""
        try:
            connection.settimeout(CONNECT_S)
            _watch_over(connection, self._lost_s)
            hello = b""
            while not hello.endswith(b"\n") and len(hello) < _HELLO_MOST:
                if not (more := connection.recv(_HELLO_MOST)):
                    return None
                hello += more
            connection.settimeout(None)
        except OSError:
            return None
        token, _, number = hello.strip().partition(b" ")
        if not hmac.compare_digest(token, self._token.encode()) or not number.isdigit():
            return None
        job = int(number)
        with self._change:
            while self._asking and job not in self._wanted and not self._closed:
                self._change.wait()
            if self._closed or job not in self._wanted:
                return None
            self._wanted.remove(job)
            self._held[job] = connection
            self._change.notify_all()
        return job


if __name__ == "__main__":
    if sys.argv[1] == WITNESS:
        bear_witness()
    port, silence_s, *names = sys.argv[1:]
    step = shlex.split(os.environ.pop(_STEP, ""))
    sys.exit(lend(int(port), int(silence_s), names, os.environ.pop(TOKEN), os.environ["SLURM_JOB_ID"], step))
