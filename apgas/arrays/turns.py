"""Which operation on arrays a place carries out next, and what is to be done for it. Pure.

``operations.py`` says what the messages are, and why every operation ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar, cast

S = TypeVar("S")
R = TypeVar("R")


class Begin(NamedTuple, Generic[S]):
    """Send the rows that others need, and call ``Turns.await_rows``."""

    operation: int
    start: S


class Run(NamedTuple, Generic[S, R]):
    """Run the function, with the rows that have come, and call ``Turns.end``."""

    operation: int
    start: S
    rows: Sequence[R]


class Skip(NamedTuple):
    """Call ``Turns.end``: the operation is not to run."""

    operation: int


class Turns(Generic[S, R]):
    """Which operation of a place is next, and what is to be done for it. Pure."""

    def __init__(self) -> None:
        self._over = -1
        self._next: dict[int, tuple[int, S | None]] = {}
        self._skipped: set[int] = set()
        self._rows: dict[int, list[R]] = {}
        self._now: tuple[int, S] | None = None
        self._awaited: int | None = None

    def start(self, operation: int, before: int, start: S) -> None:
        """An operation is to be carried out after another one."""
        if operation > self._over:
            self._next.setdefault(before, (operation, start))

    def skip(self, operation: int, before: int) -> None:
        """An operation has failed elsewhere."""
        if operation > self._over:
            self._skipped.add(operation)
            if self._now is None or self._now[0] != operation:
                self._next.setdefault(before, (operation, None))

    def come(self, operation: int, rows: R) -> None:
        """Rows have come for an operation."""
        if operation > self._over:
            self._rows.setdefault(operation, []).append(rows)

    def step(self) -> Begin[S] | Run[S, R] | Skip | None:
        """What is to be done now, by one caller at a time; None: nothing, until something comes."""
        if not self.ready():
            return None
        if self._now is None:
            operation, start = self._next.pop(self._over)
            self._now, self._awaited = (operation, cast("S", start)), None
            return Skip(operation) if start is None or operation in self._skipped else Begin(operation, start)
        operation, waiting = self._now
        return Skip(operation) if operation in self._skipped else Run(operation, waiting, self._rows.get(operation, []))

    def ready(self) -> bool:
        """Whether something is to be done now."""
        if self._now is None:
            return self._over in self._next
        operation = self._now[0]
        return operation in self._skipped or len(self._rows.get(operation, ())) == self._awaited

    @property
    def idle(self) -> bool:
        """Whether no operation is known that is not over."""
        return self._now is None and not self.ready()

    def await_rows(self, awaited: int) -> None:
        """The operation has begun, and needs this number of messages with rows."""
        self._awaited = awaited

    def end(self) -> None:
        """The operation is over."""
        assert self._now is not None
        self._over = self._now[0]
        self._now = None
        self._skipped.discard(self._over)
        self._rows.pop(self._over, None)
