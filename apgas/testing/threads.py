"""Threads that belong to simulated places: whoever starts one passes its place on, and hanging ones can be shown."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from apgas.runtime import current, naming
from apgas.runtime.driver import Driver

_PLUMBING: Final = (
    f"{Path(__file__).parents[1]}{os.sep}",
    *(str(module.__file__) for module in (threading, contextlib)),
    f"{Path(str(concurrent.futures.__file__)).parent}{os.sep}",
)
"""What lies between the program and the place where a thread waits."""
_DEEPEST: Final = 8
"""So many frames of a thread are shown, the innermost."""

_lock = threading.Lock()
_jobs = 0
_plain_start: Callable[[threading.Thread], None] = threading.Thread.start
_owners: dict[int, Driver] = {}
"""The places of running threads, by the threads' ids."""


@contextlib.contextmanager
def inherited() -> Iterator[None]:
    """Within the block, a thread that is started by a thread of a place works for that place, too."""
    global _jobs, _plain_start  # noqa: PLW0603 - Thread.start is one for the process
    with _lock:
        if _jobs == 0:
            _plain_start = threading.Thread.start
            threading.Thread.start = _start  # type: ignore[method-assign, assignment]  # patched on purpose
        _jobs += 1
    try:
        yield
    finally:
        with _lock:
            _jobs -= 1
            if _jobs == 0:
                threading.Thread.start = _plain_start  # type: ignore[method-assign, assignment]  # patched on purpose


def _start(thread: threading.Thread) -> None:
    driver = current.driver()
    if driver is not None:
        run = thread.run

        def run_there() -> None:
            _owners[threading.get_ident()] = driver
            try:
                with current.working_for(driver):
                    run()
            finally:
                del _owners[threading.get_ident()]

        thread.run = run_there  # type: ignore[method-assign]  # patched on purpose
    _plain_start(thread)


def stacks(of: set[Driver]) -> str:
    """What the threads of some places are doing now, without those that wait for something to do."""
    frames = sys._current_frames()  # noqa: SLF001 - there is no other way to look at running threads
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found = []
    for ident, driver in sorted(_owners.copy().items(), key=lambda item: (item[1].core.here, item[0])):
        if driver in of and ident in frames:
            text = _stack(frames[ident])
            if text:
                found.append(f"place {driver.core.here}, thread {names.get(ident, ident)}:\n{text}")
    return "\n".join(found) or "no thread of a place runs anything of the program"


def _stack(innermost: FrameType) -> str:
    """The innermost frames of the program; empty if it has no part in what the thread does."""
    theirs = [entry for entry in traceback.extract_stack(innermost) if not entry.filename.startswith(_PLUMBING)]
    if theirs:
        return "".join(traceback.format_list(theirs[-_DEEPEST:])).rstrip()
    # compiled code has no frames
    name = naming.activity_in(innermost)
    return "" if name == naming.NOTHING else f"  in {name}"
