"""Places as children of a program: they can be ended at any time."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress

from apgas.runtime import children
from apgas.runtime.forkserver import Forked


def test_a_fork_that_has_no_group_of_its_own_yet_can_be_dismissed() -> None:
    """The error of its number, which is that of no group, left the others behind."""
    forks = []
    for _ in range(2):
        if not (pid := os.fork()):
            signal.pause()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            forks.append((Forked(pid), ours.makefile("rwb")))
    try:
        children.dismiss(forks)
        assert [fork.wait() for fork, _ in forks] == [-signal.SIGKILL] * 2
    finally:
        for fork, _ in forks:
            if fork.returncode is None:
                with suppress(ProcessLookupError):
                    os.kill(fork.pid, signal.SIGKILL)
