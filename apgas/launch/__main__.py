"""The launcher's command line, and its loop.

It takes the place of MPICH's mpiexec, which listens on every network address and obeys any process that connects. This
launcher listens nowhere: it talks with its processes over socket pairs, and with other hosts over the streams of ssh,
or what stands in for it (``agents``). What the processes ask for, and what their ends mean, is in ``core.launching``.
"""

from __future__ import annotations

import argparse
import os
import secrets
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Final

import msgspec

from apgas.core.launching import AGAIN_CODE, Effect, LaunchedJob, Restarts, Say, Start
from apgas.errors import UsageError
from apgas.launch import agents
from apgas.launch.agents import LOST_AFTER_S, Agent, Outlet, Reach
from apgas.launch.processes import (
    PASSED_ON,
    READ_BYTES,
    Ended,
    NotStarted,
    Processes,
    Received,
    Report,
    Started,
    hear_signals,
)
from apgas.malleability import ENV_SCHEDULER
from apgas.runtime import environment, resilience
from apgas.runtime.forkserver import ENV_PRELOAD

RESTARTS: Final = 3


class Launcher:
    """Starts the processes of one job, serves them, and waits for their ends. For the main thread.

    ``is_here`` says whether the name of a node means this machine; without ``reach`` the job is for this one alone.
    ``books`` is a folder for what the program goes on with when it is started again, to be removed at the end; or none.
    """

    def __init__(
        self,
        job: LaunchedJob,
        is_here: Callable[[str], bool],
        reach: Reach | None,
        lost_after_s: float = LOST_AFTER_S,
        books: str = "",
    ) -> None:
        self._job = job
        self._is_here = is_here
        self._reach = reach
        self._lost_after_s = lost_after_s
        self._selector = selectors.DefaultSelector()
        self._processes = Processes(self._selector, self._hear)
        self._agents: dict[str, Agent] = {}
        """Those of the hosts on which processes run, or start."""
        self._present: list[Agent] = []
        """All of which something is left."""
        self._outlets: dict[int, Outlet] = {}
        self._in_a_hurry = False
        self._books = books
        if books:
            self._processes.remove_at_end(books)

    def run(self, words: tuple[str, ...], nodes: Sequence[str]) -> int:
        """Run the job, a process for each of ``nodes``; returns its exit code."""
        heard = hear_signals(*PASSED_ON)
        self._selector.register(heard, selectors.EVENT_READ, lambda: self._take_signals(heard))
        self._carry_out(self._job.begin(words, nodes))
        while self._job.running or self._stays():
            for key, _ in self._selector.select(self._wait_s()):
                key.data()
            self._processes.reap()
            self._carry_out(self._job.tick(time.monotonic()))
            self._settle()
            self._present = [agent for agent in self._present if not agent.gone]
        self._processes.close()
        if self._books:
            shutil.rmtree(self._books, ignore_errors=True)
        for number in PASSED_ON:
            signal.signal(number, signal.SIG_IGN)  # one that comes now must not change the code
        return self._job.code if self._job.code is not None else 1

    def _wait_s(self) -> float | None:
        now_s = time.monotonic()
        due = [agent.tick(now_s) for agent in self._present]
        if self._job.running and self._job.deadline_s is not None:
            due.append(self._job.deadline_s)
        return max(0.0, min(due) - now_s) if due else None

    def _stays(self) -> bool:
        """Whether something is to be done after the job."""
        if self._in_a_hurry:
            return False
        if self._present:
            return True
        unwritten = [outlet for outlet in self._outlets.values() if not outlet.close()]
        return bool(unwritten)

    # What happens ----------------------------------------------------------------------------------------------------

    def _take_signals(self, heard: int) -> None:
        for number in os.read(heard, READ_BYTES):
            if number != signal.SIGCHLD:
                self._in_a_hurry = not self._job.running
                self._carry_out(self._job.signalled(signal.Signals(number), time.monotonic()))

    def _hear(self, report: Report) -> None:
        now_s = time.monotonic()
        match report:
            case Received(number, data):
                self._carry_out(self._job.received(number, data, now_s))
            case Ended(number, status):
                self._carry_out(self._job.ended(number, status, now_s))
            case Started(node, world):
                self._carry_out(self._job.started(world, node))
            case NotStarted(node, world, reason):
                self._carry_out(self._job.not_started(world, node, reason, now_s))

    def _lose(self, node: str, reason: str) -> None:
        del self._agents[node]
        self._carry_out(self._job.host_lost(node, reason, time.monotonic()))

    def _settle(self) -> None:
        """Dismiss the agents that nothing is left to do for: the batch system may want their hosts."""
        nodes = self._job.nodes
        for node in [node for node in self._agents if node not in nodes]:
            self._agents.pop(node).dismiss()
        if self._job.killed:
            for agent in [agent for agent in self._agents.values() if not agent.ready]:
                agent.give_up("the job ends")

    # Effects ---------------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Say):
                with suppress(OSError):  # it is not read
                    sys.stderr.write(f"apgas: {effect.text}\n")
                    sys.stderr.flush()
                continue
            if isinstance(effect, Start) and (why := self._reach_out(effect.node)):
                self._hear(NotStarted(effect.node, effect.world, why))
            host = self._processes if self._is_here(effect.node) else self._agents.get(effect.node)
            if host is not None:
                host.carry_out(effect)

    def _reach_out(self, node: str) -> str:
        """See that processes can be started on ``node``; returns why they cannot."""
        if self._is_here(node) or node in self._agents:
            return ""
        if self._reach is None:
            return f"{node} is another machine, and the job is for this one: name both in --hosts, or give --launcher"
        try:
            agent = Agent(
                node, self._reach, self._processes, self._selector, self._hear, partial(self._lose, node),
                self._outlet, self._lost_after_s,
            )  # fmt: skip
        except OSError as error:
            return f"no process can start on host {node}: {error.filename}: {error.strerror}"
        self._agents[node] = agent
        self._present.append(agent)
        return ""

    def _outlet(self, stream: int) -> Outlet:
        if stream not in self._outlets:
            self._outlets[stream] = Outlet(self._processes, self._selector, stream)
        return self._outlets[stream]


# The command line ----------------------------------------------------------------------------------------------------

_HOSTS_HELP: Final = "where, and how many on each; names of other machines are reached by the launcher"
_LAUNCHER_HELP: Final = (
    "how other hosts are reached: ssh, srun, a program called like ssh, words with {host} that stand before a program; "
    "or fork: all names are of this machine"
)

_BY_CALLER_HELP: Final = (
    f"end with code {AGAIN_CODE} where the program would be started again: who called this does so, with the same "
    "--books, where the count of --restarts is kept, too"
)
_PRELOAD_HELP: Final = (
    "what the program needs and can be loaded once for all places of a host, which are forks then but for place 0; it "
    "must begin no threads"
)
_COUNT: Final = "restarts"
"""The file beside the books with what is left of ``--restarts``. It is there between one job and the next only."""
_BOOKS_HELP: Final = (
    "where a resilient program keeps what it needs to go on when it is started again, also by a later job; all hosts "
    "have to see it (default: a folder of this machine that is removed at the end; none if there are other hosts)"
)


def main() -> None:
    """Run the job that the command line describes, and end with its exit code."""
    if sys.argv[1:] == ["--agent"]:
        sys.exit(agents.serve())
    parser = argparse.ArgumentParser(
        prog="python -m apgas.launch",
        description="Start a job that only its user can reach, in the place of mpiexec.",
        allow_abbrev=False,
    )
    parser.add_argument("-n", type=_count, metavar="COUNT", help="number of processes (default: one per host, or 1)")
    parser.add_argument("--hosts", type=_hosts, metavar="NAME[:COUNT],...", help=_HOSTS_HELP)
    parser.add_argument("--launcher", metavar="HOW", help=_LAUNCHER_HELP)
    parser.add_argument(
        "--lost-after", type=_seconds, default=LOST_AFTER_S, metavar="SECONDS",
        help="how long another host may be silent (default: %(default)g)",
    )  # fmt: skip
    parser.add_argument("--resilient", action="store_true", help="go on when places die")
    parser.add_argument(
        "--restarts", type=_number, default=RESTARTS, metavar="COUNT",
        help="how often a resilient program is started again if place 0 is killed and it comes no further (default: "
        f"%(default)d; 0: the job ends with code {AGAIN_CODE})",
    )  # fmt: skip
    parser.add_argument("--books", metavar="FOLDER", help=_BOOKS_HELP)
    parser.add_argument("--by-caller", action="store_true", help=_BY_CALLER_HELP)
    parser.add_argument("--grace", type=_seconds, metavar="SECONDS", help="time to end after a signal (default: 30)")
    parser.add_argument("--preload", type=_modules, metavar="MODULE,...", help=_PRELOAD_HELP)
    parser.add_argument("--as-is", action="store_true", help="execute the program itself, also what ends in .py")
    parser.add_argument("program", help="what to execute; this Python executes what ends in .py")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if given.by_caller and not given.books:
        parser.error("--by-caller needs --books: the next start goes on with what is there")
    if given.preload:
        os.environ[ENV_PRELOAD] = given.preload
    if given.resilient:
        os.environ[resilience.ENV_RESILIENT] = "1"
    names = given.hosts or (socket.gethostname(),)
    places = given.n or len(names)
    words = (given.program, *given.arguments)
    if given.program.endswith(".py") and not given.as_is:
        words = (sys.executable, *words)
    name = secrets.token_hex(8)
    # which nodes are its own a job that begins anew could not know, for its scheduler may be about to move some: only
    # that one starts it again
    scheduled = ENV_SCHEDULER in os.environ
    count = Path(given.books).absolute() / _COUNT if given.by_caller else None
    try:
        reach = _reach(given.launcher, names)
        job = LaunchedJob(
            name,
            resilient=resilience.wanted(),
            grace_s=given.grace,
            apart=reach is not None,
            restarts=given.restarts if given.by_caller or not scheduled else 0,
            by_caller=given.by_caller,
            so_far=_taken(count) if count is not None else None,
        )
    except UsageError as error:
        parser.error(str(error))
    environment.raise_open_files_limit()
    _announce(reach is not None)
    temporary = "" if given.books or scheduled or reach is not None else f"{tempfile.gettempdir()}/apgas-books-{name}"
    os.environ[resilience.ENV_BOOKS] = str(Path(given.books).absolute()) if given.books else temporary
    is_here = _is_here if given.launcher != "fork" else lambda _: True
    launcher = Launcher(job, is_here, reach, max(1.0, given.lost_after), temporary)
    code = launcher.run(words, tuple(islice(cycle(names), places)))
    if count is not None and job.again is not None and not _left(count, job.again):
        code = 128 + signal.SIGKILL
    sys.exit(code)


def _taken(count: Path) -> Restarts | None:
    """Take what the job before has left of the restarts; None: there was none."""
    with suppress(OSError, msgspec.DecodeError):  # it is not there, or no job has written it
        left = count.read_bytes()
        count.unlink()
        return msgspec.json.decode(left, type=Restarts)
    return None


def _left(count: Path, again: Restarts) -> bool:
    """Leave it to the next job; whether that was possible."""
    try:
        count.parent.mkdir(mode=0o700, exist_ok=True)
        count.write_bytes(msgspec.json.encode(again))
    except OSError as error:
        sys.stderr.write(f"apgas: the program is not to be started again: {count}: {error.strerror}\n")
        return False
    return True


def _reach(launcher: str | None, names: Iterable[str]) -> Reach | None:
    """How other hosts are reached; None: there are none, and the job has no way to any later."""
    if launcher == "fork" or (launcher is None and all(map(_is_here, names))):
        return None
    if launcher is None:
        launcher = os.environ.get("HYDRA_LAUNCHER_EXEC") or ("srun" if "SLURM_JOB_ID" in os.environ else "ssh")
    return Reach(launcher)


def _is_here(name: str) -> bool:
    # name servers are not asked: that may take longer than hosts may be silent
    return name in ("localhost", socket.gethostname())


def _announce(several: bool) -> None:
    """Let the processes know whether there may be other hosts; if not, MPI's need not listen."""
    if several:
        os.environ[environment.ENV_LAUNCH_HOSTS] = "1"
        return
    os.environ.pop(environment.ENV_LAUNCH_HOSTS, None)
    for name, value in environment.unreachable().items():
        os.environ.setdefault(name, value)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def _number(text: str) -> int:
    return 0 if text == "0" else _count(text)


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 <= (value := float(text)) < float("inf"):
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")


def _modules(text: str) -> str:
    for name in text.split(","):
        if not all(part.isidentifier() for part in name.split(".")):
            raise argparse.ArgumentTypeError(f"{name!r} is not the name of a module")
    return text


def _hosts(text: str) -> tuple[str, ...]:
    names: list[str] = []
    for host in text.split(","):
        name, colon, count = host.partition(":")
        if not name or name.split() != [name] or name.startswith("-"):
            raise argparse.ArgumentTypeError(f"{host!r} is not a name")
        names += [name] * (_count(count) if colon else 1)
    return tuple(names)


if __name__ == "__main__":
    main()
