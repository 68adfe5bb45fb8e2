"""The log's words: what happened at one instant, and what the core made of it, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from scheduler_bridge.core import events as ev
from scheduler_bridge.core.events import Effect
from scheduler_bridge.daemon.config import Scheduling
from scheduler_bridge.daemon.requests import HeldBy, JobRequest
from scheduler_bridge.policies import Decision, Reserve, Stand
from scheduler_bridge.record.model import ResizeOutcome


class Fact(msgspec.Struct, frozen=True, tag_field="type"):
    """Base of what the core does not need to know, but a restarted scheduler does."""


class Deciding(Fact, frozen=True):
    """Base of that on which the core's decision depends; other facts say more of what it has led to."""


class Requested(Deciding, frozen=True, tag="requested"):
    """What a user asked for: one job, or one for each number of ``array``, which is kept once for all of them.

    Attributes:
        job_id: Id of the job, or of the first one; those of the others follow it.
        request: What was asked for.
        array: Numbers of the jobs; empty: it is one job, which has none.
        admitted: How many of the jobs, the first ones, go to the core at once: each is a ``JobSubmitted`` of the entry.
    """

    job_id: int
    request: JobRequest
    array: tuple[int, ...] = ()
    admitted: int = 0

    def jobs(self) -> Iterator[tuple[int, int | None]]:
        """Yield the ids of the jobs and their numbers."""
        return enumerate(self.array or (None,), self.job_id)


class Held(Deciding, frozen=True, tag="held"):
    """A job is held back (or not any more), and by whom."""

    job_id: int
    held: bool
    by: HeldBy


class Prioritised(Deciding, frozen=True, tag="prioritised"):
    """A job has another priority from now on."""

    job_id: int
    priority: int


class Answered(Fact, frozen=True, tag="answered"):
    """A job's own request for nodes was answered so; a job that lost the answer asks again."""

    job_id: int
    request: int
    granted: int
    reason: str


class Reported(Fact, frozen=True, tag="reported"):
    """What a job said of an order, beyond the core's needs; ``seconds`` None: it measured nothing."""

    job_id: int
    order: int
    outcome: ResizeOutcome
    reason: str
    seconds: float | None = None
    phases: dict[str, float] = {}


class Abandoned(Fact, frozen=True, tag="abandoned"):
    """A grow order's outcome is not awaited any more: its nodes may be someone else's soon."""

    job_id: int
    order: int


class Loss(Fact, frozen=True, tag="loss"):
    """The number of a loss of nodes that the job reported."""

    job_id: int
    loss: int


class GoesOn(Deciding, frozen=True, tag="goes_on"):
    """The job that ends can go on where it was: if it was lost with its nodes, it waits for others."""

    job_id: int


class Ailing(Fact, frozen=True, tag="ailing"):
    """The node is out of service because it does not answer, or since an attempt runs there that the log does not know.

    It comes back when it answers, or that attempt is over.
    """

    node: str
    reason: str
    attempt: str = ""


class Booted(Fact, frozen=True, tag="booted"):
    """The machine was started again; the scheduler's clock began at ``monotonic_s`` of the clock of this ``boot``."""

    boot: str
    monotonic_s: float


class Noted(Fact, frozen=True, tag="noted"):
    """A remark for the record."""

    text: str


class Result(Fact, frozen=True, tag="result"):
    """The JSON document that a job wrote."""

    job_id: int
    result: dict[str, Any]


class Policy(Deciding, frozen=True, tag="policy"):
    """From now on this policy decides."""

    policy: str
    parameters: dict[str, Any]


class Configured(Deciding, Scheduling, frozen=True, tag="configured"):
    """A restarted scheduler was given other settings than the one before; a new one, if not those of its era."""


class PolicyFailed(Deciding, frozen=True, tag="policy_failed"):
    """The policy did something wrong; what it answered is kept, for one that was repaired would answer otherwise.

    Attributes:
        failure: What it did wrong.
        answers: Its answers in the passes of the entry, as MessagePack: JSON has no times that are infinite.
    """

    failure: str
    answers: bytes

    @classmethod
    def of(cls, failure: str, answers: Iterable[Sequence[Decision]]) -> PolicyFailed:
        """Return what is kept of these answers."""
        # some floats of a policy are NumPy's
        plain = [[_in_words(found) for found in answer] for answer in answers]
        return cls(failure, msgspec.msgpack.encode(plain, enc_hook=float))

    def decisions(self) -> list[list[Decision]]:
        """The answers; a ``BadEntryError`` if they are none."""
        try:
            return _ANSWERS.decode(self.answers)
        except msgspec.DecodeError as error:
            raise BadEntryError(f"answers of a policy: {error}") from None


def _in_words(decision: Decision) -> Decision:
    """The decision with its reason as text."""
    if isinstance(decision, Reserve | Stand):
        return decision
    return msgspec.structs.replace(decision, reason=str(decision.reason))


OfAJob: TypeAlias = Held | Prioritised | Answered | Reported | Abandoned | Loss
"""What says how a job stands that has not ended."""
AnyFact: TypeAlias = Requested | OfAJob | GoesOn | Ailing | Booted | Noted | Result | Policy | Configured | PolicyFailed

_MOST_CHARACTERS: Final = 200_000_000
"""Of events and facts: the database takes rows of 1,000,000,000 bytes, and the effects come to it."""
_EVENTS: Final = msgspec.json.Decoder(list[ev.Event])
_EFFECTS: Final = msgspec.json.Decoder(list[Effect])
_ANSWERS: Final = msgspec.msgpack.Decoder(list[list[Decision]])
_FACTS: Final = msgspec.json.Decoder(list[AnyFact])


class BadEntryError(ValueError):
    """A row of the log is not what this version writes; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Everything that was taken in at ``at_s`` of the scheduler's clock; events in the order of their handling."""

    at_s: float
    events: tuple[ev.Event, ...] = ()
    facts: tuple[AnyFact, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """An entry as it is stored: JSON texts, the effects beside what they are effects of.

    ``frozen``: the state that the log adds up to with it, and the version of this software that wrote it.
    """

    at_s: float
    events: str
    facts: str
    effects: str = "[]"
    frozen: tuple[str, bytes] | None = None

    def with_effects(self, effects: Sequence[Effect], facts: Sequence[AnyFact] | None = None) -> Row:
        """Return it with its effects, and with all of these facts, if there are more of them by now."""
        return Row(self.at_s, self.events, self.facts if facts is None else _encoded(facts), _encoded(effects))


class TooLongError(ValueError):
    """An entry that the log could not take; the text says so."""


def draft(entry: Entry) -> Row:
    """Return an entry as the log is to keep it, before its effects are known.

    Raises:
        TooLongError: The log could not take it.
    """
    made = Row(entry.at_s, _encoded(entry.events), _encoded(entry.facts))
    if (length := len(made.events) + len(made.facts)) > _MOST_CHARACTERS:
        raise TooLongError(f"{length} characters are more than an entry of the log may have, {_MOST_CHARACTERS}")
    return made


def decode(row: Row) -> tuple[Entry, list[Effect]]:
    """Read what ``draft`` and ``Row.with_effects`` wrote.

    Raises:
        BadEntryError: It is not that.
    """
    try:
        entry = Entry(row.at_s, tuple(_EVENTS.decode(row.events)), tuple(_FACTS.decode(row.facts)))
        return entry, _EFFECTS.decode(row.effects)
    except (msgspec.DecodeError, ValueError) as error:
        raise BadEntryError(str(error)) from None


def _encoded(things: Sequence[object]) -> str:
    return msgspec.json.encode(things).decode() if things else "[]"
