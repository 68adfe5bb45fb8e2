"""Looks at hosts through the launcher: whether a shell answers there, and sees the files that jobs need."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from scheduler_bridge.backends.hosts.hostfile import Host
from scheduler_bridge.backends.hosts.launcher import Launcher, is_here
from scheduler_bridge.jobrunner.processes import signal_group

_SAID_BYTES: Final = 4096
_MOST_WORDS: Final = 200
_GONE: Final = "lacks "


class Looker:
    """Looks at hosts, so many at the same time.

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
        """Do nothing: whoever looks is cancelled, and the launcher with it."""

    async def look(self, host: Host) -> str:
        """Return why a host is of no use now; empty if it answers."""
        async with self._room:
            return (await run(self._launcher, host, self._command, self._deadline_s)).complaint

    async def look_at_all(self, hosts: Sequence[Host]) -> dict[str, str]:
        """Return the complaints about those of the hosts that have any, by their names."""
        complaints = await asyncio.gather(*(self.look(host) for host in hosts))
        return {host.name: complaint for host, complaint in zip(hosts, complaints, strict=True) if complaint}


class Answer:
    """What came of a command on a host.

    Args:
        said: Its standard output, or the end of it.
        complaint: What went wrong; empty: nothing.
    """

    def __init__(self, said: str = "", complaint: str = "") -> None:
        self.said = said
        self.complaint = complaint


async def run(launcher: Launcher, host: Host, command: str, deadline_s: float) -> Answer:
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
    lines = [" ".join(line.split()) for line in complained.splitlines() if line.strip()]
    return Answer(said, (lines[-1] if lines else f"exit code {code}")[:_MOST_WORDS])


async def _some(stream: asyncio.StreamReader) -> str:
    """Read to the end, and keep the last lines."""
    kept = b""
    while part := await stream.read(_SAID_BYTES):
        kept = (kept + part)[-_SAID_BYTES:]
    return kept.decode(errors="replace")
