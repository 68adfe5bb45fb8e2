"""Resilient jobs, ``apgas.run(main, resilient=True)`` or ``APGAS_RESILIENT=1``: places may die, the others go on.

MPICH's mpiexec ends a job of which a process was killed. So every process that it starts is a guard, which hangs up,
has nothing to do but to wait for the place, and ends well when that is killed: the place is a fork of it in the first
world (``_guard``), and the child of a shell if it is spawned (``shielded``).

With ``-disable-auto-cleanup`` mpiexec notifies the others by SIGUSR1 that one has left, which would kill them, so all
ignore it. It does so, too, when the last one has left, while its own helpers on the nodes end, writes into a broken
pipe and returns 141. So the last one is the guard of place 0, which stays a little longer.

``apgas.launch`` lets the others go on by itself, and there are no guards.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from apgas.errors import UsageError
from apgas.malleability import ENV_SCHEDULER
from apgas.runtime import environment, watchdog

ENV_RESILIENT: Final = "APGAS_RESILIENT"
ENV_BOOKS: Final = "APGAS_BOOKS"
"""Names a folder for what the program goes on with when ``apgas.launch`` starts it again."""
FLAG: Final = "-disable-auto-cleanup"

LINGER_S: Final = 0.3
"""How long the guard of place 0 stays; mpiexec needs a few milliseconds of a quiet machine."""
LONGEST_LINGER_S: Final = 3.0
"""How much longer it stays at most on a machine that is not quiet."""

_ANCESTORS: Final = 6
# `:` rather than `""`, which the place would inherit: a shell that TERM kills makes mpiexec kill the whole job before
# place 0 has said why it ends. In a step of Slurm a TERM may concern this node alone, which is taken away: there the
# shell dies of it, so that mpiexec's proxy can report that before it is killed itself; else mpiexec's assertion
# `!closed` fails, and the job is gone with the node (7 of 12 times).
_SHIELD: Final = 'trap "" USR1; [ -n "$SLURM_STEP_ID" ] || trap : INT TERM; "$0" "$@"; exit 0'


_log = logging.getLogger("apgas")
_anyway = False


def survive_anyway(*, survive: bool) -> None:
    """Have the job of this process survive, or not, whatever the variable says."""
    global _anyway  # noqa: PLW0603 - one program a process
    _anyway = survive


def wanted(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the job is to survive the loss of places.

    Raises:
        UsageError: The variable is neither 0 nor 1.
    """
    if _anyway:
        return True
    value = environ.get(ENV_RESILIENT, "") or "0"
    if value not in ("0", "1"):
        raise UsageError(
            f"{ENV_RESILIENT}={value}: set it to 1 for a job that survives the loss of places, or leave it out"
        )
    return value == "1"


def prepare_first_world() -> None:
    """Make this process one that survives others, before it loads MPI.

    Raises:
        UsageError: The job was started in a way in which it could not survive.
    """
    if not wanted():
        return
    launch = environment.launched_by(os.environ)
    if environment.transport() == "mpi":
        raise UsageError(
            "a resilient job talks over tcp: MPI's communicators do not survive a dead place\n"
            f"leave {environment.ENV_TRANSPORT} out"
        )
    if launch.kind == "launch":
        watchdog.tell_launcher("cmd=survive\n")
        return
    if launch.kind != "hydra":
        where = "may grow onto other hosts" if launch.kind == "none" else f"is started by {launch.kind}"
        raise UsageError(f"a resilient job that {where} needs apgas.launch, or MPICH's mpiexec\n{_recipe()}")
    near = islice(environment.ancestors(), _ANCESTORS)
    # none, if mpiexec runs on another machine
    words = next((words for _, words in near if os.path.basename(words[0]).startswith(("mpiexec", "mpirun"))), [])
    if words and FLAG not in words and f"-{FLAG}" not in words:
        raise UsageError(f"mpiexec would end this resilient job with the first dead place\n{_recipe()}")
    if threading.active_count() > 1:
        others = ", ".join(sorted(thread.name for thread in threading.enumerate()))
        raise UsageError(f"start no threads before apgas.run in a resilient job, which forks there: {others} run")
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    _guard(os.environ.get("PMI_RANK") == "0")


def books_folder() -> str:
    """Where to keep what this program needs to go on when it is started again; empty if it is not."""
    launched = wanted() and environment.launched_by(os.environ).kind == "launch"
    folder = os.environ.get(ENV_BOOKS, "") if launched else ""
    if folder and ENV_SCHEDULER in os.environ:
        # the scheduler has chosen it, and its hosts need not share a file system
        from pathlib import Path  # programs that are never started again need not load it

        if not Path(folder).parent.is_dir():
            _log.warning("this host sees no %s: the loss of place 0 ends the job", Path(folder).parent)
            return ""
    return folder


def kept(*progress: int) -> None:
    """Have the launcher know that the program can be started again, and how far it is: the first number counts most."""
    watchdog.tell_launcher(f"cmd=kept progress={'.'.join(map(str, progress))}\n")


def shielded(program: str, args: Sequence[str]) -> tuple[str, list[str]]:
    """Return what to spawn in the place of ``program``, so that neither its death nor that of others does harm."""
    if not wanted() or environment.launched_by(os.environ).kind == "launch":
        return program, list(args)
    return "/bin/sh", ["-c", _SHIELD, program, *args]


def _guard(lingers: bool) -> None:
    """Go on as a child of this process, which ends when we do, or shortly after; with code 0 if we are killed."""
    guard = os.getpid()
    place = os.fork()
    if place == 0:
        from apgas.runtime.forkserver import end_with

        end_with(guard)
        return

    def pass_on(number: int, _: object) -> None:
        with suppress(ProcessLookupError):  # it has ended
            os.kill(place, number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    status = os.waitstatus_to_exitcode(os.waitpid(place, 0)[1])
    if lingers:
        time.sleep(LINGER_S + min(LONGEST_LINGER_S, 0.1 * os.getloadavg()[0] / (os.cpu_count() or 1)))
    os._exit(max(status, 0))


def _recipe() -> str:
    program = os.path.basename(sys.argv[0]) or "prog.py"
    return (
        f"start it like this: python -m apgas.survive -n 4 python {program}\n"
        f"or without mpiexec: python -m apgas.launch -n 4 {program}"
    )
