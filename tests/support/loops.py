"""An event loop on a thread of its own, for tests."""

from __future__ import annotations

import threading

from apgas.transport.loop import EventLoop, Events
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


def count_rounds(loop: EventLoop) -> list[int]:
    """How many events each round brings that begins from now on."""
    rounds: list[int] = []
    poll = loop._poller.poll

    def counted(timeout_s: float | None) -> Events:
        events = poll(timeout_s)
        rounds.append(len(events))
        return events

    loop._poller.poll = counted  # type: ignore[method-assign]  # the loop's own thread looks it up in each round
    return rounds
