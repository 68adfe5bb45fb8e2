"""The vocabulary of resizes on place 0: orders, deadlines, records, and what ``Reshape`` asks its driver to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from apgas.core.messages import PlaceInfo

Kind: TypeAlias = Literal["grow", "shrink"]
OutcomeKind: TypeAlias = Literal["done", "refused", "aborted", "not_due"]
Method: TypeAlias = Literal["preGrow", "postGrow", "preShrink", "postShrink", "shrinkAborted"]


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long each step of an order may take, in seconds; ``deferred_s``: after which the scheduler hears of it."""

    pre_s: float = 60.0
    spawn_s: float = 30.0
    drain_s: float = 30.0
    release_s: float = 10.0
    post_s: float = 60.0
    deferred_s: float = 1.0


@dataclass(frozen=True, slots=True)
class ResizeOrder:
    """An order as place 0 takes it: ``nodes`` are where to grow, or a wish whom to release."""

    order: int
    kind: Kind
    count: int
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResizeRecord:
    """How an order ended.

    Attributes:
        order: Its number.
        kind: ``grow`` or ``shrink``.
        n: How many places it was for.
        at_s: When it was taken up, in seconds since ``schedule_orders`` was last called, or since the program began.
        seconds: From there to the commit (grow) or to the processes' end (shrink).
        phases: Seconds of each phase: pre, spawn, join, commit, post; or pre, drain, commit, release, post.
        outcome: ``done``, ``refused``, ``aborted``, or ``not_due`` if the program was over before.
        reason: Why, where it was not simply done.
        nodes: Those gained or released, one name per place.
    """

    order: int
    kind: Kind
    n: int
    at_s: float
    seconds: float
    phases: dict[str, float]
    outcome: OutcomeKind
    reason: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallHandler:
    """Call a method of the handler; ``first``, ``second``: its lists of places, by id; ``wish``: the nodes to give."""

    token: int
    method: Method
    count: int
    first: tuple[int, ...] = ()
    second: tuple[int, ...] = ()
    wish: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StartSpawn:
    """Spawn one place on each of ``nodes`` (this host where a name is empty)."""

    token: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommitGrow:
    """The newcomers become members."""

    added: tuple[PlaceInfo, ...]


@dataclass(frozen=True, slots=True)
class PrepareShrink:
    """Ask the leavers to drain."""

    order: int
    leavers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AbortShrink:
    """The leavers stay."""

    order: int


@dataclass(frozen=True, slots=True)
class CommitShrink:
    """Release the leavers."""

    order: int
    leavers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Call ``timeout(token)`` after ``delay_s``."""

    token: int
    delay_s: float


@dataclass(frozen=True, slots=True)
class TellDeferred:
    """The order waits in ``pre*`` for a suitable phase of the program."""

    order: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The order has ended."""

    record: ResizeRecord


ReshapeEffect: TypeAlias = (
    CallHandler
    | StartSpawn
    | CommitGrow
    | PrepareShrink
    | AbortShrink
    | CommitShrink
    | SetTimer
    | TellDeferred
    | Finished
)
