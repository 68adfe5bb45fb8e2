"""One connection of a job, as a pure state machine: lines in, actions out.

Two states matter. The connection's: greeting (no job yet) -> attached (a job, proven by its token) -> closed. And the
job's, which survives its connections (``JobLink``): silent -> ready -> disabled.

=========  ==============  ===================  =========================  =====================
message    greeting        attached, silent     attached, ready            attached, disabled
=========  ==============  ===================  =========================  =====================
hello      attach          refuse               refuse                     refuse
ready      refuse, close   report, -> ready     repeated: ignore;          refuse
                                                again: refuse
disable    refuse, close   refuse               report, -> disabled        repeated: ignore;
                                                                           again: refuse
progress   refuse, close   report               report                     report
deferred   refuse, close   refuse               report if the order is     the same
                                                open, else refuse
outcome    refuse, close   refuse               report if it fits the      the same
                                                open order; repeated by a
                                                new connection: ignore;
                                                else refuse
evolving   refuse, close   refuse               report                     refuse
lost       refuse, close   report; repeated:    the same                   the same
                           ignore; if it does
                           not fit, refuse
=========  ==============  ===================  =========================  =====================

A refused message changes nothing. Too many refusals, a line that is too long, or a flood close the connection.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import Final, Literal, TypeAlias, assert_never

import msgspec

from apgas.malleability import orders as wire
from scheduler_bridge.daemon.config import Limits
from scheduler_bridge.daemon.listener import Allowance
from scheduler_bridge.model import wording
from scheduler_bridge.model.allocation import listed
from scheduler_bridge.printable import lines_of

# A job's cores, as they are sent: one list for every node where one will do, else one for each ----------------------

MOST_CHARACTERS: Final = 32 * 1024
"""Lists by node that are longer together are not sent: a message has 64 KiB. [D] The job knows the number then."""
Lists: TypeAlias = tuple[str, dict[str, str]]
"""Lists of core ids: of every node, or by node; neither: nothing is sent."""
NO_LISTS: Final[Lists] = ("", {})


def core_lists(nodes: Sequence[str], core_ids: Sequence[int]) -> Lists:
    """Return the lists for a job that may use ``core_ids`` (bitsets) of ``nodes``.

    A job computes with as many threads on each node as it has cores where they are fewest. If as many cores are its on
    all nodes, it is sent these.
    """
    if not core_ids:
        return NO_LISTS
    common = reduce(and_, core_ids)
    if common.bit_count() >= min(ids.bit_count() for ids in core_ids):
        return listed(common), {}
    by_node = {node: listed(ids) for node, ids in zip(nodes, core_ids, strict=True)}
    length = sum(len(node) + len(ids) + 6 for node, ids in by_node.items())  # 6: quotes, colon, comma
    return ("", by_node) if length <= MOST_CHARACTERS else NO_LISTS


Said: TypeAlias = wire.Ready | wire.Disable | wire.Progress | wire.Deferred | wire.Outcome | wire.Evolving | wire.Lost
"""What a job may say once it is attached."""

_NOBODY = "0" * 64
"""Compared with when a job is unknown, so that an unknown job takes as long to refuse as a wrong token."""


@dataclass(slots=True)
class OpenOrder:
    """An order that awaits its outcome."""

    order: int
    kind: Literal["grow", "shrink", "workers"]
    count: int
    nodes: tuple[str, ...]
    core_ids: Lists = NO_LISTS
    """Workers: which cores of the nodes."""
    withdrawn: bool = False
    claimed: bool = field(default=False, compare=False)
    """The job said "done", but not on the right nodes: where it runs is unknown unless it corrects itself."""

    def message(self, *, core_ids: bool) -> wire.Grow | wire.Shrink | wire.Workers:
        """Return the order as the job reads it; ``core_ids``: whether it knows those."""
        if self.kind == "workers":
            return wire.Workers(self.order, self.count, *(self.core_ids if core_ids else NO_LISTS))
        form = wire.Grow if self.kind == "grow" else wire.Shrink
        return form(order=self.order, count=self.count, nodes=self.nodes)


@dataclass(slots=True)
class JobLink:
    """What the daemon knows of a running job's side of the protocol; outlives single connections."""

    job_id: int
    token: str = field(repr=False)
    held: frozenset[str]
    """Nodes that the job runs on as far as it says."""
    abandoned: set[int] = field(default_factory=set)
    """Grow orders whose outcome came too late to be awaited: their nodes may be someone else's by now."""
    losses: int = -1
    """The number of the last loss that was reported."""
    outcomes: dict[int, str] = field(default_factory=dict)
    """How its orders ended, by their numbers."""
    core_ids: bool = False
    """The job has asked for the ids of cores; it says so in every hello."""
    phase: Literal["silent", "ready", "disabled"] = "silent"
    open: OpenOrder | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """Write ``message`` to the peer."""

    message: wire.Message


@dataclass(frozen=True, slots=True)
class Attach:
    """The connection belongs to this job from now on; an older one of the same job is to be closed."""

    job_id: int


@dataclass(frozen=True, slots=True)
class Heard:
    """The job said ``message``, which fits its state; the link is up to date already."""

    job_id: int
    message: Said


@dataclass(frozen=True, slots=True)
class Trespassed:
    """The job runs on nodes that it no longer has: it is to be ended."""

    job_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Close:
    """End the connection after what was sent before."""

    reason: str


Action: TypeAlias = Send | Attach | Heard | Trespassed | Close


class Session:
    """The state of one connection.

    Args:
        links: The running jobs by id; shared with the daemon, read at every message.
        limits: What the connection may cost.
        now: Seconds on the clock of every later ``now``.
    """

    def __init__(self, links: Mapping[int, JobLink], limits: Limits, now: float) -> None:
        self._links = links
        self._limits = limits
        self._allowance = Allowance(limits.burst_messages, limits.messages_per_s, now)
        self._strikes = 0
        self._fresh = False
        self._repeatable: dict[int, str] = {}
        """Outcomes of earlier connections, which may be said again on this one, once each."""
        self.job_id: int | None = None
        self.closed = False

    def receive(self, line: bytes, now: float) -> list[Action]:
        """Take one line in and say what is to be done."""
        if self.closed:
            return []
        if not self._allowance.take(now):
            return self.end(f"more than {self._limits.messages_per_s:g} messages a second")
        try:
            message = _in_lines(wire.decode_to_scheduler(line))
        except wire.BadMessageError as error:
            return self._refuse(f"not a message of the protocol: {error}")
        if self.job_id is None:
            return self._greet(message)
        link = self._links.get(self.job_id)
        if link is None:
            return self.end(f"job {self.job_id} has ended")
        return self._attached(link, message)

    def end(self, reason: str) -> list[Action]:
        """Send the peer the reason and close; a job takes that for the last word."""
        if self.closed:
            return []
        self.closed = True
        return [Send(wire.Refused(reason=reason[:4000])), Close(reason)]

    def _refuse(self, reason: str) -> list[Action]:
        self._strikes += 1
        if self.job_id is None or self._strikes > self._limits.strikes:
            return self.end(reason)
        return [Send(wire.Refused(reason=reason[:4000]))]

    def _greet(self, message: wire.ToScheduler) -> list[Action]:
        if not isinstance(message, wire.Hello):
            return self.end("the first message is to be a hello")
        if message.version != wire.PROTOCOL_VERSION:
            return self.end(f"protocol version {message.version} is not spoken here, only {wire.PROTOCOL_VERSION}")
        link = self._links.get(message.job)
        expected = link.token if link is not None else _NOBODY
        proven = hmac.compare_digest(expected.encode(), message.token.encode())
        if link is None or not proven:
            return self.end("unknown job or wrong token")
        self.job_id, link.core_ids = link.job_id, message.core_ids
        self._fresh, self._repeatable = True, dict(link.outcomes)
        actions: list[Action] = [Send(wire.Welcome(version=wire.PROTOCOL_VERSION)), Attach(link.job_id)]
        if link.open is not None:  # It may have been lost with the previous connection; jobs drop repeated orders.
            actions.append(Send(link.open.message(core_ids=link.core_ids)))
            if link.open.withdrawn:
                actions.append(Send(wire.Withdraw(order=link.open.order)))
        return actions

    def _attached(self, link: JobLink, message: wire.ToScheduler) -> list[Action]:
        if self._is_repeated(link, message):
            return []
        if isinstance(message, wire.Outcome) and message.outcome == "done" and message.order in link.abandoned:
            reason = f"it grew on {', '.join(message.nodes)} after order {message.order} had failed"
            return [Trespassed(link.job_id, reason)]
        if isinstance(message, wire.Hello):
            return self._refuse("a hello was said already")
        objection = _objection(link, message)
        if objection is not None:
            if isinstance(message, wire.Outcome) and message.outcome == "done" and link.open is not None:
                link.open.claimed = link.open.claimed or message.order == link.open.order
            return self._refuse(objection)
        if isinstance(message, wire.Ready):
            link.phase = "ready"
        elif isinstance(message, wire.Disable):
            link.phase = "disabled"
        elif isinstance(message, wire.Lost):
            link.losses = message.loss
            link.held -= set(message.nodes)
        elif isinstance(message, wire.Outcome):
            link.open = None
            link.outcomes[message.order] = message.outcome
            if message.outcome == "done" and message.kind == "grow":
                link.held |= set(message.nodes)
            elif message.outcome == "done":
                link.held -= set(message.nodes)
        return [Heard(link.job_id, message)]

    def _is_repeated(self, link: JobLink, message: wire.ToScheduler) -> bool:
        """Whether a job that has reconnected says again what holds, and what may have been lost."""
        fresh, self._fresh = self._fresh, False
        if isinstance(message, wire.Outcome):
            return self._repeatable.pop(message.order, None) == message.outcome
        if isinstance(message, wire.Lost):
            return message.loss <= link.losses
        holds = {"ready": wire.Ready, "disabled": wire.Disable}.get(link.phase)
        return fresh and holds is not None and isinstance(message, holds)


def _in_lines(message: wire.ToScheduler) -> wire.ToScheduler:
    """Escape the message's texts: they go into the log, and to the terminals of all users."""
    texts = {
        field: getattr(message, field) for field in message.__struct_fields__ if field in ("reason", "unit", "phases")
    }
    return msgspec.structs.replace(message, **lines_of(texts)) if texts else message


def _objection(link: JobLink, message: Said) -> str | None:
    """Say why ``message`` does not fit the state of the job; None if it does."""
    match message:
        case wire.Ready():
            return "a handler is registered once per program" if link.phase != "silent" else _strange(link, message)
        case wire.Disable():
            return None if link.phase == "ready" else "there is no handler to give up"
        case wire.Progress():
            return None
        case wire.Deferred():
            return _objection_to_order(link, message.order)
        case wire.Outcome():
            return _objection_to_outcome(link, message)
        case wire.Lost():
            return _objection_to_loss(link, message)
        case wire.Evolving():
            return None if link.phase == "ready" else "only a job that is ready may ask for nodes"
        case _:
            assert_never(message)


def _strange(link: JobLink, message: wire.Ready | wire.Lost) -> str | None:
    """Name a node of ``message`` that is not the job's."""
    strange = [node for node in message.nodes if node not in link.held]
    return f"{strange[0]} is not a node of job {link.job_id} ({', '.join(sorted(link.held))})" if strange else None


def _objection_to_loss(link: JobLink, message: wire.Lost) -> str | None:
    if (strange := _strange(link, message)) is not None:
        return strange
    if not message.nodes:
        return "no node is named"
    if len(set(message.nodes)) >= len(link.held):
        return "a job that goes on keeps at least one node"
    return None


def _objection_to_order(link: JobLink, order: int) -> str | None:
    return f"order {order} is not open" if link.open is None or link.open.order != order else None


def _objection_to_outcome(link: JobLink, message: wire.Outcome) -> str | None:
    objection = _objection_to_order(link, message.order)
    if objection is not None or link.open is None:
        return objection
    expected = link.open
    if message.kind != expected.kind:
        return f"order {expected.order} is a {expected.kind}, not a {message.kind}"
    if message.outcome != "done":
        return None
    if expected.kind == "workers":
        return f"order {expected.order} moves no nodes" if message.nodes else None
    if len(set(message.nodes)) != len(message.nodes):
        return "a node is named twice"
    fewest = 1 if expected.kind == "grow" else expected.count
    if not fewest <= len(message.nodes) <= expected.count:
        return f"order {expected.order} was for {wording.nodes(expected.count)}, the outcome names {len(message.nodes)}"
    candidates = frozenset(expected.nodes) if expected.kind == "grow" else link.held
    strange = [node for node in message.nodes if node not in candidates]
    if strange:
        whose = "those offered" if expected.kind == "grow" else f"the nodes of job {link.job_id}"
        return f"{strange[0]} is not among {whose}"
    if expected.kind == "shrink" and len(message.nodes) >= len(link.held):
        return "a job keeps at least one node"
    return None
