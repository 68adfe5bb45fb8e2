"""Which operation on arrays a place carries out next, what is to be done for it, and who sends which values. Pure.

``operations.py`` says what the messages are, and why every operation ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar, cast

S = TypeVar("S")
R = TypeVar("R")
V = TypeVar("V")


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
        self._needed: Sequence[int] = ()
        self._known: set[int] = set()

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

    def know(self, operation: int) -> None:
        """The values of all places are known that an operation has returned."""
        self._known.add(operation)

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
        come = len(self._rows.get(operation, ())) == self._awaited and self._known.issuperset(self._needed)
        return operation in self._skipped or come

    @property
    def idle(self) -> bool:
        """Whether no operation is known that is not over."""
        return self._now is None and not self.ready()

    def await_rows(self, awaited: int, needed: Sequence[int] = ()) -> None:
        """The operation has begun, and needs this number of messages with rows, and the values of other operations."""
        self._awaited, self._needed = awaited, needed

    def forget(self, oldest: int) -> None:
        """No operation that begins from now on needs the values of one that is older."""
        self._known = {operation for operation in self._known if operation >= oldest}

    def end(self) -> None:
        """The operation is over."""
        assert self._now is not None
        self._over = self._now[0]
        self._now = None
        self._skipped.discard(self._over)
        self._rows.pop(self._over, None)


class Share(NamedTuple, Generic[V]):
    """Send values to another member."""

    member: int
    round: int
    values: Sequence[V]


class AllGather(Generic[V]):
    """Brings the values of n members to all of them, with log2(n) messages from each (Bruck et al., 1997).

    The i-th member gets to know the values of the members i, i + 1, i + 2 and so on, modulo n. In round r it knows
    2**r of them, sends those to the member i - 2**r as far as that one lacks them, and gets as many from i + 2**r.
    """

    def __init__(self) -> None:
        self._members: Sequence[int] = ()
        self._own = 0
        self._round = 0
        self._values: list[V] = []
        self._early: dict[int, Sequence[V]] = {}

    def begin(self, members: Sequence[int], own: int, value: V) -> list[Share[V]]:
        """The value of this member, ``own``, is known; returns what is to be sent."""
        self._members, self._own, self._values = members, members.index(own), [value]
        return [*self._share(), *self._go_on()]

    def come(self, number: int, values: Sequence[V]) -> list[Share[V]]:
        """The values of a round have come, maybe before this member has begun; returns what is to be sent."""
        self._early[number] = values
        return self._go_on()

    def _go_on(self) -> list[Share[V]]:
        shares: list[Share[V]] = []
        while self._values and self._round in self._early:
            self._values += self._early.pop(self._round)
            self._round += 1
            shares += self._share()
        return shares

    def _share(self) -> list[Share[V]]:
        lacking = len(self._members) - len(self._values)
        to = self._members[self._own - (1 << self._round)] if lacking else 0
        return [Share(to, self._round, self._values[:lacking])] if lacking else []

    def all(self) -> dict[int, V] | None:
        """The value of each member; None: some are not known yet."""
        if not self._members or len(self._values) < len(self._members):
            return None
        return dict(zip([*self._members[self._own :], *self._members[: self._own]], self._values, strict=True))
