"""The vocabulary of resizes on place 0: orders, deadlines, records, and what ``OrderMachine`` asks its driver to do."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

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
        spawn_s: Starting newcomers until all of them have joined; then the order is aborted, late ones are dismissed.
        drain_s: Leavers finish what they have; then the order is aborted, and they stay.
        release_s: The leavers' processes end; then the order goes on, and its outcome names those that linger.
        post_s: ``postGrow`` or ``postShrink``; then the order is done, and its outcome says so.
        deferred_s: After this time in ``pre*`` the scheduler is notified that the order is deferred.

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
        """Whether the program can run on this number."""
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
    """Call a method of the handler for ``count`` places, with up to two lists of places by id and a wish for nodes."""

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


OrderEffect: TypeAlias = (
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


# Estimates -----------------------------------------------------------------------------------------------------------
#
# Each phase is taken to need ``a + b n`` seconds for ``n`` places. The line is that of Theil and Sen: ``b`` is the
# median of the slopes between all pairs of samples of different sizes, ``a`` the median of what is left; up to 29 % of
# the samples may be arbitrarily wrong (P. K. Sen, J. Am. Stat. Assoc. 63, 1379, 1968). More places do not take less
# time: where the line would fall, and where all samples have one size, it is level at their median.

ENOUGH: Final = 3
"""Samples of a run that make those of earlier runs needless."""
MOST: Final = 64
"""Of one kind: older samples are forgotten."""
_AFTER_THE_END: Final = "post"


class Sample(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A resize that was carried out: its kind, how many places came or went, and the seconds of its phases."""

    kind: Kind
    places: Annotated[int, Meta(ge=1)]
    phases: dict[str, Annotated[float, Meta(ge=0.0, le=1e9)]]


class Estimate(msgspec.Struct, frozen=True):
    """How long an order is expected to take.

    Attributes:
        kind: ``grow`` or ``shrink``.
        nodes: How many nodes it would be for.
        places: How many places these are.
        seconds: In all, from the order to the commit (grow) or to the processes' end (shrink), as in records: without
            ``post``.
        phases: Seconds of each phase, as in records.
        samples: How many resizes it is drawn from.
        of_this_run: How many of them this program has seen; the others are those of the calibration.
    """

    kind: Kind
    nodes: int
    places: int
    seconds: float
    phases: dict[str, float]
    samples: int
    of_this_run: int


def samples_of(records: Iterable[ResizeRecord]) -> list[Sample]:
    """Those of the records from which something can be learned."""
    return [
        Sample(record.kind, len(record.places), record.phases)
        for record in records
        if record.outcome == "done" and record.places and record.kind != "workers"
    ]


def newest(samples: Sequence[Sample]) -> list[Sample]:
    """The samples that are worth keeping, in their order."""
    kept = [sample for kind in ("grow", "shrink") for sample in [s for s in samples if s.kind == kind][-MOST:]]
    return [sample for sample in samples if any(sample is one for one in kept)]


def estimate(
    kind: Kind, nodes: int, places: int, of_this_run: Iterable[Sample], of_earlier_runs: Iterable[Sample]
) -> Estimate | None:
    """Estimate an order from samples, the newest last; None: there are none of its kind.

    Earlier runs count as long as there are less than ``ENOUGH`` samples of this one.
    """
    own = [sample for sample in of_this_run if sample.kind == kind][-MOST:]
    earlier = [sample for sample in of_earlier_runs if sample.kind == kind] if len(own) < ENOUGH else []
    samples = [*earlier, *own][-MOST:]
    if not samples:
        return None
    names = dict.fromkeys(name for sample in reversed(samples) for name in sample.phases)
    phases = {name: _fit([(s.places, s.phases[name]) for s in samples if name in s.phases], places) for name in names}
    seconds = sum(value for name, value in phases.items() if name != _AFTER_THE_END)
    return Estimate(kind, nodes, places, seconds, phases, len(samples), len(own))


def _fit(points: Sequence[tuple[int, float]], at: int) -> float:
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x1 != x2]
    slope = max(0.0, median(slopes)) if slopes else 0.0
    return max(0.0, median(y - slope * x for x, y in points) + slope * at)


def median(values: Iterable[float]) -> float:
    """The middle of some values; to import ``statistics`` would make every newcomer join milliseconds later."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
