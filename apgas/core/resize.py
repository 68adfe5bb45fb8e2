"""The vocabulary of resizes on place 0: orders, deadlines, records, and what ``Reshape`` asks its driver to do."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from apgas.core.messages import PlaceInfo
from apgas.errors import UsageError

Kind: TypeAlias = Literal["grow", "shrink"]
RecordKind: TypeAlias = Kind | Literal["workers"]
OutcomeKind: TypeAlias = Literal["done", "refused", "aborted", "not_due"]
Method: TypeAlias = Literal["preGrow", "postGrow", "preShrink", "postShrink", "shrinkAborted"]


class Deadlines(msgspec.Struct, frozen=True):
    """How long each step of an order may take, in seconds.

    Attributes:
        pre_s: ``preGrow`` or ``preShrink``, which may wait for a suitable phase; then the order is aborted.
        spawn_s: Starting newcomers until all of them have joined; then the order is aborted, late ones are sent home.
        drain_s: Leavers finish what they have; then the order is aborted, and they stay.
        release_s: The leavers' processes end; then the order goes on, and its outcome names those that linger.
        post_s: ``postGrow`` or ``postShrink``; then the order is done, and its outcome says so.
        deferred_s: After so much time in ``pre*`` the scheduler is told that the order is deferred.

    Raises:
        UsageError: One of them is not a positive, finite number.
    """

    pre_s: float = 60.0
    spawn_s: float = 30.0
    drain_s: float = 30.0
    release_s: float = 10.0
    post_s: float = 60.0
    deferred_s: float = 1.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise UsageError(f"deadline {name} must be a positive number of seconds, not {value!r}")

    @property
    def after_pre_s(self) -> float:
        """How long an order may take at most once ``pre*`` has returned."""
        return max(self.spawn_s, self.drain_s + self.release_s) + self.post_s


class Bounds(msgspec.Struct, frozen=True):
    """How many nodes the program can run on: at least ``min_nodes``, at most ``max_nodes`` (None: any number).

    Raises:
        UsageError: They are no numbers of at least 1, or the first is larger than the second.
    """

    min_nodes: int = 1
    max_nodes: int | None = None

    def __post_init__(self) -> None:
        if self.min_nodes < 1 or (self.max_nodes is not None and self.max_nodes < self.min_nodes):
            raise UsageError(f"a program cannot run on {self}")

    def __str__(self) -> str:
        return f"at least {self.min_nodes} nodes" + ("" if self.max_nodes is None else f", at most {self.max_nodes}")

    def allow(self, nodes: int) -> bool:
        """Whether the program can run on so many."""
        return self.min_nodes <= nodes and (self.max_nodes is None or nodes <= self.max_nodes)


class ResizeOrder(msgspec.Struct, frozen=True):
    """An order as place 0 takes it, for ``count`` nodes: ``nodes`` are where to grow, or a wish which to release."""

    order: int
    kind: Kind
    count: int
    nodes: tuple[str, ...] = ()


class ResizeRecord(msgspec.Struct, frozen=True):
    """How an order ended.

    Attributes:
        order: Its number.
        kind: ``grow``, ``shrink`` or ``workers``.
        n: How many nodes it was for; with one place per node that many places. Of ``workers``: how many per place.
        at_s: When it was taken up, in seconds since ``schedule_orders`` was last called, or since the program began.
        seconds: From there to the commit (grow) or to the processes' end (shrink).
        phases: Seconds of each phase: pre, spawn, join, commit, post; or pre, drain, commit, release, post.
        outcome: ``done``, ``refused``, ``aborted``, or ``not_due`` if the program was over before.
        reason: Why, where it was not simply done.
        nodes: Those gained or released, one name per node.
        places: The ids of the places gained or released.
    """

    order: int
    kind: RecordKind
    n: int
    at_s: float
    seconds: float
    phases: dict[str, float]
    outcome: OutcomeKind
    reason: str
    nodes: tuple[str, ...]
    places: tuple[int, ...] = ()


class Current(msgspec.Struct):
    """The order that is being carried out."""

    order: ResizeOrder
    began_s: float
    phase_began_s: float
    phases: dict[str, float] = msgspec.field(default_factory=dict)
    places: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    pending: set[int] = msgspec.field(default_factory=set)
    died: set[int] = msgspec.field(default_factory=set)
    seconds: float | None = None
    note: str = ""

    def remark(self, text: str) -> None:
        """Note something that the outcome will say."""
        self.note = f"{self.note}; {text}" if self.note and text else self.note or text

    def record(self, outcome: OutcomeKind, reason: str, now: float) -> ResizeRecord:
        """How the order ends, now."""
        return ResizeRecord(
            order=self.order.order,
            kind=self.order.kind,
            n=self.order.count,
            at_s=self.began_s,
            seconds=now - self.began_s if self.seconds is None else self.seconds,
            phases=self.phases,
            outcome=outcome,
            reason=reason,
            nodes=self.nodes,
            places=self.places,
        )


NO_TOKEN: Final = -1
"""Of a call whose return is not waited for."""


class CallHandler(msgspec.Struct, frozen=True):
    """Call a method of the handler for ``count`` places.

    Attributes:
        first: Its first list of places, by id.
        second: Its second one.
        wish: The nodes to give.
    """

    token: int
    method: Method
    count: int
    first: tuple[int, ...] = ()
    second: tuple[int, ...] = ()
    wish: tuple[str, ...] = ()


class StartSpawn(msgspec.Struct, frozen=True):
    """Spawn one place per name in ``nodes`` (this host where it is empty); those of one node stand together."""

    token: int
    nodes: tuple[str, ...]


class CommitGrow(msgspec.Struct, frozen=True):
    """The newcomers become members."""

    added: tuple[PlaceInfo, ...]


class PrepareShrink(msgspec.Struct, frozen=True):
    """Ask the leavers to drain."""

    order: int
    leavers: tuple[int, ...]


class AbortShrink(msgspec.Struct, frozen=True):
    """The leavers stay."""

    order: int


class CommitShrink(msgspec.Struct, frozen=True):
    """Release the leavers."""

    order: int
    leavers: tuple[int, ...]


class SetTimer(msgspec.Struct, frozen=True):
    """Call ``timeout(token)`` after ``delay_s``."""

    token: int
    delay_s: float


class TellDeferred(msgspec.Struct, frozen=True):
    """The order waits in ``pre*`` for a suitable phase of the program."""

    order: int


class Finished(msgspec.Struct, frozen=True):
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


def wrong_list(leavers: Sequence[int] | None, members: Collection[int]) -> str:
    """What is wrong with the answer of preShrink, which is to name members; empty: nothing."""
    if leavers is None:
        return "preShrink returned no list of places"
    if 0 in leavers:
        return "preShrink named place 0, which always stays"
    if len(set(leavers)) != len(leavers):
        return f"preShrink named a place twice: {sorted(leavers)}"
    unknown = sorted(set(leavers) - set(members))
    return f"preShrink named places that are no members: {unknown}" if unknown else ""
