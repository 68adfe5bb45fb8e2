"""What travels between simulated places, and who works there."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TypeAlias

from glb.core.effects import Effect, Refuse, Request
from glb.testing.bags import Numbers, Total


@dataclass(frozen=True)
class Loot:
    """A counted message with a bag."""

    bag: Numbers
    nonce: int | None


@dataclass(frozen=True)
class Ask:
    """Place 0 asks for load and counts."""


@dataclass(frozen=True)
class Members:
    """Place 0 tells the members."""

    members: tuple[int, ...]


@dataclass(frozen=True)
class Workers:
    """Place 0 tells how many workers there may be."""

    count: int


@dataclass(frozen=True)
class Evacuate:
    """Place 0 tells a leaver to hand out its work."""

    survivors: tuple[int, ...]
    turns: tuple[int, ...]


@dataclass(frozen=True)
class Join:
    """Place 0 tells a newcomer to take part; whoever was a member ``before`` hears of it later."""

    members: tuple[int, ...]
    before: tuple[int, ...]
    workers: int


@dataclass(frozen=True)
class Readmit:
    """Place 0 calls a leaver back."""

    members: tuple[int, ...]


@dataclass(frozen=True)
class Begin:
    """All newcomers have joined and are warm, or everyone knows a place that was called back."""


@dataclass(frozen=True)
class Abort:
    """Place 0 gives the computation up."""


Wire: TypeAlias = Request | Refuse | Loot | Ask | Members | Workers | Evacuate | Join | Readmit | Begin | Abort


@dataclass(eq=False)
class Worker:
    """An activity with a bag and the effects that it has still to carry out.

    Attributes:
        place: Where it is.
        slot: Its slot.
        bag: Its bag.
        todo: Effects.
        fresh: Whether it has still to look for the first time.
        call: How many tasks it processes in the long call that it is in; 0: it is in none.
        held: What its bag held when that call began, which no other thread may touch.
        back: Whether it has come from a long call.
    """

    place: int
    slot: int
    bag: Numbers
    todo: deque[Effect[Total]] = field(default_factory=deque)
    fresh: bool = True
    call: int = 0
    held: tuple[int, ...] = ()
    back: bool = False


@dataclass(eq=False)
class Attendant(Worker):
    """The activity that attends to a place while workers are in long calls.

    Attributes:
        seen: What ``calls`` were when it last attended; -1: it has not yet.
    """

    seen: int = -1
