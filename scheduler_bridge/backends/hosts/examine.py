"""What each host has, beside what this machine has: whether jobs can run there, and what to do if they cannot."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from scheduler_bridge.backends.hosts.hosts import Host, Launcher, is_here
from scheduler_bridge.backends.hosts.watch import Answer, run_on_host
from scheduler_bridge.backends.standin import address
from scheduler_bridge.printable import lines_of

DEADLINE_S: Final = 30.0
"""Time for a host to answer: Python may be read over a network for the first time."""

_AT_ONCE: Final = 32
_PROGRAM: Final = Path(__file__).with_name("facts.py")
_SAME: Final = ("Python", "malleable-apgas", "mpi4py", "MPICH", "apgas")


class Finding(NamedTuple):
    """What is to be said of a host: a line of the doctor's checklist.

    Attributes:
        host: Its name.
        ok: Whether jobs can run there.
        tried: How it was looked at.
        came: What came back.
        mend: What to do; empty: nothing.
    """

    host: str
    ok: bool
    tried: str
    came: str
    mend: str = ""


def examine(hosts: Sequence[Host], launcher: Launcher, folder: Path) -> list[Finding]:
    """Look at all hosts, at the same time.

    Args:
        hosts: Which ones.
        launcher: How they are reached.
        folder: A folder that they must see: from which jobs are submitted.
    """
    return asyncio.run(_examine(hosts, launcher, folder))


async def _examine(hosts: Sequence[Host], launcher: Launcher, folder: Path) -> list[Finding]:
    room = asyncio.Semaphore(_AT_ONCE)
    words = (sys.executable, "-P", str(_PROGRAM), str(folder))
    ours = _facts(await run_on_host(launcher, Host("localhost", "localhost"), shlex.join(words), DEADLINE_S))
    async with _listening(hosts) as here:

        async def ask(host: Host, other: Host) -> Answer:
            further = launcher.command(other.address, "true") if other is not host else ()
            async with room:
                return await run_on_host(launcher, host, shlex.join((*words, here, *further)), DEADLINE_S)

        following = (*hosts[1:], hosts[0])
        answers = await asyncio.gather(*map(ask, hosts, following))
    silent = {host.name for host, answer in zip(hosts, answers, strict=True) if answer.complaint}
    return [
        finding(host, launcher, answer, ours, here, "" if other.name in silent else other.name)
        for host, other, answer in zip(hosts, following, answers, strict=True)
    ]


@asynccontextmanager
async def _listening(hosts: Sequence[Host]) -> AsyncIterator[str]:
    """Listen where jobs on the hosts would reach the scheduler; yields address and port, nothing if there is none."""
    others = [host.address.rpartition("@")[2] for host in hosts if not is_here(host.name)]
    try:
        here = address(others) if others else "127.0.0.1"
        server = await asyncio.start_server(lambda _, writer: writer.close(), here, 0)
    except OSError:
        yield ""
        return
    async with server:
        yield f"{here}:{server.sockets[0].getsockname()[1]}"


def finding(host: Host, launcher: Launcher, answer: Answer, ours: Mapping[str, str], here: str, other: str) -> Finding:
    """Compare what a host said with what this machine has.

    Args:
        host: The host.
        launcher: How it was reached.
        answer: What it said.
        ours: What this machine has.
        here: Address and port at which it was to reach this machine.
        other: The host on which it was to start a command; empty: what came of that does not count.
    """
    tried = "here, without the launcher" if is_here(host.name) else shlex.join(launcher.command(host.address, "..."))
    theirs = _facts(answer)
    if answer.complaint or not theirs:
        came = answer.complaint or f"instead of facts it said {answer.said[:60]!r}"
        return Finding(host.name, False, tried, came, _remedy(host, launcher, answer.complaint))
    wrong = [f"{what} is {theirs[what]}, here {ours[what]}" for what in _SAME if theirs.get(what) != ours[what]]
    mend = f"install there what is here, at the same path: {sys.prefix}" if wrong else ""
    if theirs["folder"] != "True":
        wrong.append("the folder from which this was called is not there")
        mend = mend or "submit jobs from a folder that all hosts share"
    if theirs["reaches"]:
        wrong.append(f"it does not reach {here} here: {theirs['reaches']}")
        mend = mend or 'open the ports between the hosts, or name another address of this one: host = "10.0.0.1"'
    if other and theirs["runs"]:
        wrong.append(f"from there {other} is not reached: {theirs['runs']}")
        mend = mend or f"the launcher has to work between all hosts: a job that grows looks at {other} from there"
    fewer = host.cores is not None and int(theirs["cores"]) < host.cores
    if wrong:
        return Finding(host.name, False, tried, "; ".join(wrong), mend)
    same = f"Python {theirs['Python']}, MPICH {theirs['MPICH']}, as here; {theirs['cores']} cores"
    return Finding(host.name, True, tried, same + (f", the file says {host.cores}" if fewer else ""))


def _facts(answer: Answer) -> dict[str, str]:
    """What ``facts.py`` said; empty if it did not. Shells may say something of their own before it."""
    try:
        said = json.loads(answer.said.splitlines()[-1])
    except (ValueError, IndexError, RecursionError):
        return {}
    return lines_of(said) if isinstance(said, dict) else {}


def _remedy(host: Host, launcher: Launcher, complaint: str) -> str:
    if str(_PROGRAM) in complaint or sys.executable in complaint or "not found" in complaint:
        return f"install this project there, at the same path: {sys.prefix}; a file system that all hosts share does it"
    if launcher.words[0].rpartition(os.sep)[2] == "ssh":
        return f"see that it is up; ssh {host.address} true has to work without a question: ssh-copy-id {host.address}"
    return f"see that it is up; this has to work: {shlex.join(launcher.command(host.address, 'true'))}"
