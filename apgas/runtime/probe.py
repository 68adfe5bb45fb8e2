"""Looks at hosts before MPI is asked to spawn there: a host that cannot be reached would end the whole job.

The look goes the way that MPI will go: through the launcher of mpiexec (ssh, or what stands in for it), which runs our
Python there. mpiexec tells its launcher only to its proxies, so the command line of ours is read.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from apgas.errors import ApgasError
from apgas.runtime import environment

DEADLINE_S: Final = 10.0
"""How long a host may take to answer."""

_READ_S: Final = 0.2
_REMOTE_SHELLS: Final = ("ssh", "rsh")
_PROXY: Final = "hydra_pmi_proxy"
_LOOK: Final = """
import os, sys
sys.path.insert(0, {source!r})
os.chdir({folder!r})
import apgas.runtime.newcomer, mpi4py
proxy = {proxy!r}
if proxy and not os.access(proxy, os.X_OK): raise SystemExit("MPI is not installed there: no " + proxy)
"""


class Launcher(msgspec.Struct, frozen=True):
    """How mpiexec starts processes on other hosts.

    Attributes:
        kind: Its name for it: ``fork`` (this machine only), ``ssh``, ``slurm``, …
        program: What is called instead of the usual program; empty: the usual one.
        extra: Further arguments for the program.
        proxy: The program of MPI that it starts there; empty: not known.
    """

    kind: str
    program: str = ""
    extra: tuple[str, ...] = ()
    proxy: str = ""

    @property
    def stays_here(self) -> bool:
        """Whether all names of hosts mean this machine."""
        return self.kind == "fork"

    def command(self, host: str, words: Sequence[str]) -> list[str] | None:
        """Return what runs ``words`` on ``host``; None: this launcher cannot be asked to."""
        if self.kind not in _REMOTE_SHELLS:
            return None
        program = self.program or self.kind
        # a question for a password would wait for ever
        options = ["-o", "BatchMode=yes"] if Path(program).name == "ssh" else []
        return [program, *self.extra, *options, host, shlex.join(words)]


def launcher() -> Launcher:
    """Return how the mpiexec of this job starts processes on other hosts."""
    return launcher_of(_proxy_arguments(os.getpid()), os.environ)


def launcher_of(proxy: Sequence[str] | None, environ: Mapping[str, str]) -> Launcher:
    """Read the launcher from the command line of our MPI proxy, or else from the environment.

    Args:
        proxy: The command line; None: there is none, because the program was started without mpiexec.
        environ: The environment, which an mpiexec of our own would read.
    """
    extra = tuple(shlex.split(environ.get("HYDRA_LAUNCHER_EXTRA_ARGS", "")))
    if proxy is None:
        return Launcher(environ.get("HYDRA_LAUNCHER", "ssh"), environ.get("HYDRA_LAUNCHER_EXEC", ""), extra)
    named = dict(pairwise(proxy))
    return Launcher(named.get("--launcher", "ssh"), named.get("--launcher-exec", ""), extra, proxy[0])


def _proxy_arguments(pid: int) -> list[str] | None:
    """The command line of the MPI proxy among our ancestors."""
    with suppress(OSError, ValueError, IndexError):  # gone meanwhile, or its command line is not what we know
        while pid > 1:
            status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            pid = int(status.rpartition(")")[2].split()[1])
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
            if Path(words[0]).name == _PROXY:
                return words[:-1]
    return None


def is_here(name: str) -> bool:
    """Tell whether ``name`` means this machine, as far as its own tables know."""
    if not name or name in (environment.node_name(), os.uname().nodename, "localhost"):
        return True
    # unknown, or not ours
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, suppress(OSError, UnicodeError):
        sock.bind((socket.gethostbyname(name), 0))  # only an address of ours can be bound to
        return True
    return False


def look_here() -> None:
    """See whether a place could start on this machine: MPI would wait for ever for one whose program is gone.

    Raises:
        ApgasError: Something is missing; says what.
    """
    for path in (sys.executable, str(Path(__file__).with_name("newcomer.py"))):
        if not os.access(path, os.R_OK):
            raise ApgasError(f"no place can start on this host: {path or 'the interpreter'} is not there any more")


def look(by: Launcher, hosts: Iterable[str], deadline_s: float = DEADLINE_S) -> None:
    """Run our Python on each of ``hosts``, all at once, and see whether a place could start there.

    Raises:
        ApgasError: A host cannot be reached, does not answer in time, or lacks something; says which and what.
    """
    package = str(Path(__file__).parents[2])
    program = _LOOK.format(source=package, folder=str(Path.cwd()), proxy=by.proxy)
    looks: dict[str, subprocess.Popen[str]] = {}
    try:
        for host in dict.fromkeys(hosts):
            command = by.command(host, [sys.executable, "-c", program])
            if command is not None:
                looks[host] = _start(command)
        until = time.monotonic() + deadline_s
        complaints = [_complaint(host, probe, until) for host, probe in looks.items()]
    finally:
        for probe in looks.values():
            _end(probe)
    wrong = [complaint for complaint in complaints if complaint]
    if wrong:
        raise ApgasError("; ".join(wrong))


def _start(command: list[str]) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise ApgasError(f"the launcher {command[0]} cannot be run: {error.strerror}") from error


def _complaint(host: str, probe: subprocess.Popen[str], until: float) -> str:
    """Wait for a probe; empty: all is well there."""
    try:
        # one that has answered, while another one was waited for, still has to be read
        _, words = probe.communicate(timeout=max(_READ_S, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return f"host {host} did not answer in time"
    if probe.returncode == 0:
        return ""
    lines = words.strip().splitlines()
    return f"no place can start on host {host}: {lines[-1] if lines else f'exit code {probe.returncode}'}"


def _end(probe: subprocess.Popen[str]) -> None:
    if probe.poll() is None:
        with suppress(ProcessLookupError):  # ended just now
            os.killpg(probe.pid, signal.SIGKILL)
        probe.wait()
    if probe.stderr is not None:
        probe.stderr.close()
