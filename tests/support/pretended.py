"""What stands for a thread and a disk where a scheduler's deaths are simulated."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import Executor as Pool
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from scheduler_bridge.daemon.storage.log_entries import Row
from scheduler_bridge.daemon.storage.store import Era, Frozen, StoredEra, StoreError


class Died(BaseException):
    """The scheduler is killed here."""


class Inline(Pool):
    """Does at once what would be done in a thread."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except StoreError as error:
            future.set_exception(error)
        return future


class Disk:
    """A log that outlives the scheduler."""

    path = Path("pretended.db")

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.log: list[Row] = []
        self.frozen: Frozen | None = None
        self.era: Era | None = None

    def begin_era(self, era: Era) -> None:
        self.era = era

    def stored(self) -> StoredEra:
        assert self.era is not None
        return StoredEra(self.era, 0, len(self.log), None)

    def append(self, rows: list[Row], next_job: int = 1) -> None:
        if self._rng.random() < 0.03:
            raise StoreError(0, "no room", "pretended.db")
        for row in rows:
            self.log.append(row)
            if row.frozen is not None:
                self.frozen = Frozen(len(self.log), *row.frozen)

    def settle(self) -> None:
        """There is no mark."""

    def rows(self, stored: StoredEra, after: int = 0, chain: bytes = b"") -> Iterator[tuple[int, Row]]:
        yield from enumerate(self.log[after:], start=after + 1)

    def last_seq(self) -> int:
        return len(self.log)

    def snapshot(self, stored: StoredEra) -> Frozen | None:
        return self.frozen
