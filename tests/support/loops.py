"""An event loop on a thread of its own, for tests."""

from __future__ import annotations

import threading

from apgas.transport.loop import EventLoop
from support.mpi import PATIENCE_S


def pass_through(loop: EventLoop) -> int:
    """Let the io thread come by; returns which thread it is."""
    idents: list[int] = []
    passed = threading.Event()

    def note() -> None:
        idents.append(threading.get_ident())
        passed.set()

    loop.call_soon(note)
    assert passed.wait(PATIENCE_S)
    return idents[0]
