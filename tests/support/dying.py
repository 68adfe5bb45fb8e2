"""Points at which a scheduler may die: before and after each write, before each effect, and at each word from a runner.

Run as a program this is ``malleable``, which kills itself, as by ``kill -9``, at the point that a variable says.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

ENV_CRASH_AT: Final = "MALLEABLE_CRASH_AT"
"""Number of the point, from 1 on; 0: it does not die."""
_TESTS: Final = Path(__file__).resolve().parents[1]


def let_die(point: Callable[[], None], put: Callable[[Any, str, Any], object] = setattr) -> None:
    """Have ``point`` called where a scheduler may die; ``put`` sets an attribute, as monkeypatch does."""
    from scheduler_bridge.daemon.storage.journal import Journal

    add, write, execute = Journal.add, Journal._write, asyncio.create_subprocess_exec

    def act(action: Callable[[], None]) -> None:
        point()
        action()

    def watched_add(journal: Journal, row: Any, actions: Sequence[Callable[[], None]] = (), after: Any = None) -> None:
        add(journal, row, [partial(act, action) for action in actions], after)

    async def watched_write(journal: Journal) -> None:
        point()
        await write(journal)
        point()

    async def watched_execute(*words: Any, **how: Any) -> asyncio.subprocess.Process:
        process = await execute(*words, **how)
        point()
        if process.stdout is not None:
            readline = process.stdout.readline

            async def watched_readline() -> bytes:
                if line := await readline():
                    point()
                return line

            process.stdout.readline = watched_readline  # type: ignore[method-assign]  # of this one only
        return process

    put(Journal, "add", watched_add)
    put(Journal, "_write", watched_write)
    put(asyncio, "create_subprocess_exec", watched_execute)


def die_as_asked() -> None:
    """Have this process die where its environment says, of which its jobs hear nothing."""
    crash_at, passed = int(os.environ.pop(ENV_CRASH_AT, "0")), itertools.count(1)

    def point() -> None:
        if next(passed) == crash_at:
            os.kill(os.getpid(), signal.SIGKILL)

    if crash_at:
        let_die(point)


if __name__ == "__main__":
    sys.path[:1] = [str(_TESTS.parent), str(_TESTS)]
    from scheduler_bridge.cli.app import run

    die_as_asked()
    sys.exit(run(sys.argv[1:]))
