"""The writing end of the log: what is carried out when, and what becomes of an action that fails."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S
from support.logged import encode

from scheduler_bridge.daemon import DaemonConfig
from scheduler_bridge.daemon.storage.journal import Journal
from scheduler_bridge.daemon.storage.log_entries import Entry
from scheduler_bridge.daemon.storage.restore import restore
from scheduler_bridge.daemon.storage.store import Store, StoreError


def test_an_action_that_fails_is_reported_once_and_ends_no_wait(tmp_path: Path) -> None:
    """Those who wait for the log are users, and the scheduler's own end, which has jobs to end."""
    store = Store(tmp_path)
    restore(store, DaemonConfig(("a",), state_dir=tmp_path), 1)
    reported: list[Exception] = []
    done: list[str] = []

    def fail() -> None:
        raise ValueError("no")

    async def play() -> None:
        journal = Journal(store, reported.append)
        journal.add(encode(Entry(1.0), []), [fail])
        await journal.settled()
        journal.add(encode(Entry(2.0), []), [lambda: done.append("acted")])
        await journal.close()
        assert journal.complete

    asyncio.run(play())
    assert [str(error) for error in reported] == ["no"]
    assert done == ["acted"]
    assert store.last_seq() == 3
    store.close()


def test_who_waits_for_an_entry_waits_for_none_that_comes_later(tmp_path: Path) -> None:
    """Under load something is written all the time, and a user's request would not be answered before that is over."""
    store = Store(tmp_path)
    restore(store, DaemonConfig(("a",), state_dir=tmp_path), 1)
    done: list[str] = []

    async def play() -> None:
        journal = Journal(store, lambda error: None)
        is_over = False

        def busy() -> None:
            if not is_over:
                journal.add(encode(Entry(1.0), []), [busy])

        busy()
        await asyncio.sleep(0.01)
        journal.add(encode(Entry(2.0), []), [lambda: done.append("acted")])
        async with asyncio.timeout(PATIENCE_S):
            await journal.settled()
        assert done == ["acted"]
        assert not journal.complete
        is_over = True
        await journal.close()
        assert journal.complete

    asyncio.run(play())
    store.close()


def test_what_found_no_room_is_written_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    restore(store, DaemonConfig(("a",), state_dir=tmp_path), 1)
    append, tries = store.append, []

    def full_once(*what: Any) -> None:
        tries.append(what)
        if len(tries) == 1:
            raise StoreError(0, "disk full", "log")
        append(*what)

    monkeypatch.setattr(store, "append", full_once)

    async def play() -> None:
        journal = Journal(store, lambda error: None)
        journal.add(encode(Entry(1.0), []))
        assert await journal.settled() == "disk full"
        assert (journal.complete, journal.behind) == (False, "disk full")
        await journal.close()
        assert (journal.complete, journal.behind) == (True, "")

    asyncio.run(play())
    assert store.last_seq() == 2
    store.close()
