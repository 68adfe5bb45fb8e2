"""Looks at a daemon's hosts again and again, and reports which of them do not answer."""

from __future__ import annotations

import asyncio
import logging
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple, Protocol, Self, assert_never

from scheduler_bridge.backends.hosts.hosts import Host, Launcher, is_here
from scheduler_bridge.daemon import Daemon, Standing
from scheduler_bridge.jobrunner.processes import signal_group
from scheduler_bridge.printable import one_line

_logger = logging.getLogger(__name__)


class Looks(Protocol):
    """Looks at hosts."""

    async def look(self, host: Host) -> str | None:
        """Return why a host is of no use now; empty if it answers, None if that is not known."""

    async def complaints(self, hosts: Sequence[Host]) -> dict[str, str]:
        """Look at hosts now; return the complaints about those that are not fit beyond doubt, by their names."""

    def stop(self) -> None:
        """Wait for no answer any more: there are no further looks."""


class Watch:
    """Looks at each node in turn; an async context manager, to be entered where the daemon serves.

    Args:
        daemon: Whose nodes they are.
        known: Returns the host that a node is; called when a node is first seen.
        looker: Looks.
        rules: How often, and what follows.
        first: Nodes that have failed already.
        forget: Called when a node has left.
    """

    def __init__(
        self,
        daemon: Daemon,
        known: Callable[[str], Host],
        looker: Looks,
        rules: Rules,
        first: Iterable[str] = (),
        forget: Callable[[str], object] = str,
    ) -> None:
        self._daemon = daemon
        self._known = known
        self._looker = looker
        self._rules = rules
        self._first = frozenset(first)
        self._forget = forget
        self._task: asyncio.Task[None] | None = None
        self._looks: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._looker.stop()
        if self._task is not None:
            self._task.cancel()
            (ended,) = await asyncio.gather(self._task, return_exceptions=True)
            if isinstance(ended, Exception) and error is None:
                raise ended

    async def _watch(self) -> None:
        """Look after every node until it has left the cluster, and notice new ones."""
        seen, count = self._daemon.nodes[:0], 0
        # else not all at the same time
        spread_s = 0.0 if self._rules.together else self._rules.every_s
        async with asyncio.TaskGroup() as tasks:
            while True:
                nodes = self._daemon.nodes
                if nodes is seen and len(nodes) == count:  # as after most events
                    await self._daemon.changed()
                    continue
                seen, count = nodes, len(nodes)
                for node in self._looks.keys() - set(nodes):
                    self._looks.pop(node).cancel()  # it may come back
                    self._forget(node)
                new = [node for node in nodes if node not in self._looks]
                for number, node in enumerate(new):
                    record = Record(1, self._now_s()) if node in self._first else Record()
                    delay_s = self._rules.wait_s(1) if record.failed else spread_s * (number + 1) / len(new)
                    self._looks[node] = tasks.create_task(self._look_after(node, record, delay_s))
                spread_s = 0.0

    async def _look_after(self, node: str, record: Record, delay_s: float) -> None:
        host = self._known(node)
        health = self._daemon.health
        while True:
            await asyncio.sleep(delay_s)
            if health.standing(node) is Standing.AWAY:
                record, delay_s = Record(), self._rules.every_s
                continue
            complaint = await self._looker.look(host)
            if complaint is None:
                delay_s = self._rules.wait_s(record.failed)
                continue
            if (standing := health.standing(node)) is Standing.GONE:
                return
            record, action = judge(self._rules, record, standing, self._now_s(), answered=not complaint)
            self._act(action, node, complaint)
            delay_s = self._rules.wait_s(record.failed)

    async def complaints(self, job_id: int) -> dict[str, str]:
        """Look at the nodes of a job that has failed, now; return those that are not fit, which get no further jobs."""
        health = self._daemon.health
        complaints = await self._looker.complaints([self._known(node) for node in health.nodes_of(job_id)])
        for node, complaint in complaints.items():
            if health.standing(node) is Standing.SERVING:
                self._act(Action.SUSPECT, node, complaint)
        return complaints

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()

    def _act(self, action: Action, node: str, complaint: str) -> None:
        health = self._daemon.health
        match action:
            case Action.NOTHING:
                return
            case Action.SUSPECT:
                health.suspect(node, complaint)
            case Action.LOSE | Action.END:
                health.lose(node, complaint, spare=action is Action.LOSE)
            case Action.REGAIN:
                health.regain(node)
            case _:
                assert_never(action)
        _logger.warning("host %s: %s%s", node, action, f": {complaint}" if complaint else "")


# What follows from a look. Pure --------------------------------------------------------------------------------------
#
# The failures in a row count, and how the node stands with the scheduler.
#
# =============  ==========================  ==========================================================================
# look           the node                    what follows
# =============  ==========================  ==========================================================================
# answered       ailing                      regain: it is back in service
# answered       serving, or out by wish     nothing
# failed         serving, below the limit    suspect: it gets no further jobs, those that it has go on
# failed         at the limit                lose: its jobs are ended, but not those that can go on without it
# failed         serving, above the limit    lose: an operator has put it back into service, and it is silent
# failed         for too long a time         end: all of its jobs are ended, once
# failed         else                        nothing
# =============  ==========================  ==========================================================================
#
# Ailing is what was taken out of service for not answering. A node that an operator took out stays out: looks at it
# only decide what becomes of the jobs that it still has. One that is away (out, without jobs) is not looked at.

_MOST_DOUBLINGS: Final = 30


class Action(StrEnum):
    """What is to be done with a node, as it is said of it."""

    NOTHING = ""
    SUSPECT = "gets no further jobs"
    LOSE = "is out of service"
    END = "is still out of service, and its jobs are ended"
    REGAIN = "is back in service"


@dataclass(frozen=True, slots=True)
class Rules:
    """How hosts are looked at.

    Attributes:
        every_s: Time between looks at a host that answers.
        deadline_s: Time for it to answer.
        failures: The number of looks in a row without an answer after which it is lost.
        again_s: Time until the next look at one that has just not answered.
        spared_s: Jobs that can go on without a host have so much time, since the first failure, to notice that it is
            lost; TCP needs a minute.
        slowest_s: Looks at a lost one become rarer, down to one in this time.
        at_once: How many hosts are looked at at the same time.
        together: Whether one look covers all hosts, so that they are best looked at at the same time.
    """

    every_s: float = 15.0
    deadline_s: float = 10.0
    failures: int = 3
    again_s: float = 2.0
    spared_s: float = 180.0
    slowest_s: float = 120.0
    at_once: int = 32
    together: bool = False

    def wait_s(self, failed: int) -> float:
        """Return the time until the next look, after ``failed`` failures in a row."""
        if failed == 0:
            return self.every_s
        if failed < self.failures:
            return min(self.again_s, self.every_s)
        doublings = min(failed - self.failures, _MOST_DOUBLINGS)
        return max(self.every_s, min(self.every_s * 2.0**doublings, self.slowest_s))


@dataclass(frozen=True, slots=True)
class Record:
    """What is remembered of a host between looks.

    Attributes:
        failed: Looks in a row that it did not answer.
        since_s: When the first of them was.
        ended: Whether all of its jobs were ended for that.
    """

    failed: int = 0
    since_s: float = 0.0
    ended: bool = False


def judge(rules: Rules, record: Record, standing: Standing, now_s: float, *, answered: bool) -> tuple[Record, Action]:
    """Return what is to be remembered after a look, and what follows.

    Args:
        rules: The limits.
        record: What was remembered before it.
        standing: How the node stands.
        now_s: When the look was.
        answered: What it gave.
    """
    if answered:
        return Record(), Action.REGAIN if standing is Standing.AILING else Action.NOTHING
    failed = record.failed + 1
    since_s = record.since_s if record.failed else now_s
    if failed > rules.failures and now_s - since_s >= rules.spared_s and not record.ended:
        return Record(failed, since_s, ended=True), Action.END
    record = replace(record, failed=failed, since_s=since_s)
    if failed == rules.failures or (failed > rules.failures and standing is Standing.SERVING):
        return record, Action.LOSE
    if standing is Standing.SERVING:
        return record, Action.SUSPECT
    return record, Action.NOTHING


# A look at a host -----------------------------------------------------------------------------------------------------
#
# Through the launcher: whether a shell answers there, and sees the files that jobs need.

_SAID_BYTES: Final = 4096
_MOST_WORDS: Final = 200
_GONE: Final = "lacks "


class Looker:
    """Looks at hosts, a bounded number at the same time.

    Args:
        launcher: How to reach them.
        deadline_s: Time for an answer.
        at_once: How many at the same time.
        needed: Files that a host must see; by default the Python that jobs run with.
    """

    def __init__(
        self,
        launcher: Launcher,
        deadline_s: float,
        at_once: int,
        needed: Iterable[Path] = (Path(sys.executable),),
    ) -> None:
        self._launcher = launcher
        self._deadline_s = deadline_s
        self._room = asyncio.Semaphore(at_once)
        tests = (f"test -r {shlex.quote(str(path))} || {{ echo {_GONE}{shlex.quote(str(path))} >&2; exit 1; }}"
                 for path in needed)  # fmt: skip
        self._command = "; ".join((*tests, "exit 0"))

    def stop(self) -> None:
        """Do nothing: a look is cancelled by its task, and the launcher with it."""

    async def look(self, host: Host) -> str:
        """Return why a host is of no use now; empty if it answers."""
        async with self._room:
            return (await run_on_host(self._launcher, host, self._command, self._deadline_s)).complaint

    async def complaints(self, hosts: Sequence[Host]) -> dict[str, str]:
        """Return the complaints about those of the hosts that have any, by their names."""
        complaints = await asyncio.gather(*(self.look(host) for host in hosts))
        return {host.name: complaint for host, complaint in zip(hosts, complaints, strict=True) if complaint}


class Answer(NamedTuple):
    """What came of a command on a host.

    Attributes:
        said: Its standard output, or the end of it.
        complaint: What went wrong; empty: nothing.
    """

    said: str = ""
    complaint: str = ""


async def run_on_host(launcher: Launcher, host: Host, command: str, deadline_s: float) -> Answer:
    """Run the text of a shell on a host; whatever it has not done by its deadline is ended."""
    words = ("/bin/sh", "-c", command) if is_here(host.name) else launcher.command(host.address, command)
    try:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return Answer(complaint=f"the launcher {words[0]} cannot be run: {error.strerror}")
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(deadline_s):
            said, complained = await asyncio.gather(_some(process.stdout), _some(process.stderr))
            code = await process.wait()
    except TimeoutError:
        return Answer(complaint=f"no answer within {deadline_s:g} s")
    finally:
        signal_group(process.pid, signal.SIGKILL)
        await process.wait()
    if code == 0:
        return Answer(said)
    lines = [one_line(line) for line in complained.splitlines() if line.strip()]
    return Answer(said, (lines[-1] if lines else f"exit code {code}")[:_MOST_WORDS])


async def _some(stream: asyncio.StreamReader) -> str:
    """Read to the end, and keep the last lines."""
    kept = b""
    while part := await stream.read(_SAID_BYTES):
        kept = (kept + part)[-_SAID_BYTES:]
    return kept.decode(errors="replace")
