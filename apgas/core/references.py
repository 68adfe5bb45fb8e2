"""Distributed reference counting: the state machine that finds out when an object is referred to by no place any more.

That no place holds a copy of a reference, and none is under way, is the same question as whether an activity is left of
a finish: a copy is alive, sending one is spawning, letting go of it is ending. So the algorithm and the proof are those
of ``core.finish``, after Tel and Mattern (1993), "The derivation of distributed termination detection algorithms from
garbage collection schemes". A place holds one handle per reference, whatever the number of objects behind it, and sends
one report to the home of the reference when it has let go of it.

    home            make: its handle is the first copy
    any place       sent(ref, dst) with a message        Carries ---> dst, just ahead of that message
    dst             arrived: one handle more, unless it has one
    any place       dropped(ref): no handle is left      RefReport ---> home
    home            all reported and balanced: Unreferenced

A place that leaves drops what it holds. What a dead place held is never balanced: such objects are kept until they are
freed by name, or the program ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from apgas.core.effects import Send
from apgas.core.finish import FinishTable, Fired, Flush
from apgas.core.messages import Carries, RefId, RefReport


class Unreferenced(msgspec.Struct, frozen=True):
    """No copy of a reference that was made here is left anywhere."""

    ref: RefId


ReferenceEffect: TypeAlias = Send | Unreferenced


class References:
    """The references that one place has made, or holds; it numbers its own from ``first`` on."""

    def __init__(self, here: int, first: int = 0) -> None:
        self.here = here
        self._table = FinishTable(here, first)
        self._held: Counter[RefId] = Counter()
        self._left = False

    def make(self) -> RefId:
        """Make a reference; the caller has its first handle."""
        ref = self._table.open()
        self._held[ref] += 1
        return ref

    def sent(self, dst: int, refs: Iterable[RefId], epoch: int) -> Send:
        """Count copies that travel with the next message to ``dst``; a handle of each is held here."""
        travelling = tuple(refs)
        for ref in travelling:
            self._table.spawned(ref, dst)
        return Send(dst, Carries(epoch, travelling), [])

    def arrived(self, ref: RefId, src: int) -> None:
        """Count a handle more, because a copy arrived from place ``src``."""
        self._table.arrived(ref, src)
        self._held[ref] += 1

    def dropped(self, ref: RefId, epoch: int) -> list[ReferenceEffect]:
        """Count a handle less."""
        if self._left:
            return []
        self._held[ref] -= 1
        if not self._held[ref]:
            del self._held[ref]
        return self._effects(self._table.ended(ref), epoch)

    def reported(self, report: RefReport) -> list[ReferenceEffect]:
        """Take the report of a place that has no handle any more, behind all that it has reported before.

        Raises:
            InvariantError: The reference was not made here, or has no copies: a place counted wrongly.
        """
        flush = Flush(report.ref, report.sent, report.dropped, ())
        return self._effects(self._table.reported(report.by, flush), report.epoch)

    def leave(self, epoch: int) -> list[ReferenceEffect]:
        """This place leaves, and with it all that it holds."""
        effects = [effect for ref in [*self._held.elements()] for effect in self.dropped(ref, epoch)]
        self._left = True
        return effects

    def holds(self, ref: RefId) -> bool:
        """Whether a handle of ``ref`` is here."""
        return ref in self._held

    def validate(self) -> None:
        """Check the whole state; for tests.

        Raises:
            InvariantError: It contradicts itself.
        """
        self._table.validate()

    def _effects(self, outcome: Flush | Fired | None, epoch: int) -> list[ReferenceEffect]:
        match outcome:
            case None:
                return []
            case Fired():
                return [Unreferenced(outcome.finish)]
            case Flush():
                report = RefReport(epoch, self.here, outcome.finish, outcome.spawned, outcome.completed)
                return [Send(outcome.finish.home, report, [])]
