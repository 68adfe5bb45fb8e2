"""Mistakes of policies, which may be anybody's: what is said of them, and what is none of a decision."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast, get_args

import msgspec
from msgspec import msgpack, structs

from scheduler_bridge.model import Because
from scheduler_bridge.policies.base import Decision, Reserve, Shrink, Stand

MISTAKES: Final = (Exception, SystemExit)
"""What a policy may raise; only Ctrl-C is not its own."""
_DECISIONS: Final = get_args(Decision)
_NOT_OURS: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
_MOST_CHARACTERS: Final = 2000
"""Of what a policy says."""


def legible(said: str) -> str:
    """What a policy says, as text that can be written and sent."""
    return said[:_MOST_CHARACTERS].encode(errors="backslashreplace").decode()


class PolicyError(RuntimeError):
    """A policy, or the function that makes it, went wrong; the text says which, how, and where."""

    def __init__(self, text: str) -> None:
        super().__init__(legible(text))

    @classmethod
    def raised(cls, name: str, error: BaseException, when: str = "") -> PolicyError:
        """What is to be said of ``error``, which a policy raised."""
        place = _place_of(error)
        what = "".join(traceback.format_exception_only(error)).strip()
        return cls(f"policy {name}{f' ({place})' if place else ''} raised {what} {when}".rstrip())

    @classmethod
    def nonsense(cls, name: str, decided: object, when: str = "") -> PolicyError:
        """What is to be said of what a policy returned that does not make sense."""
        what = f"{decided!r:.200} {when}".rstrip()
        return cls(f"policy {name} decided {what}: that is no list of decisions about known jobs, one a job")


def makes_sense(decided: object) -> bool:
    """Whether what a policy returned is a list of decisions, one a job, of which each field is what its type says."""
    if not isinstance(decided, Sequence) or not all(type(each) in _DECISIONS and _is_sound(each) for each in decided):
        return False
    jobs = [each.job_id for each in decided if not isinstance(each, Reserve | Stand)]
    return len(set(jobs)) == len(jobs)


def _is_sound(decision: Decision) -> bool:
    if not isinstance(decision, Reserve | Stand):
        if not isinstance(cast("object", decision.reason), str | Because):
            return False
        str(decision.reason).encode()  # or it is no text, or its gaps are not filled, which raises
        decision = structs.replace(decision, reason="")
    try:
        again = msgpack.decode(msgpack.encode(decision), type=type(decision))
    except (OverflowError, TypeError, msgspec.ValidationError):
        return False
    return again == decision and not (isinstance(again, Shrink) and any(nodes < 1 for _, nodes in again.for_jobs))


def _place_of(error: BaseException) -> str:
    """File and line that an error comes from: the last ones of a user's, if there are any; empty: there are none.

    The first frame is that of who asks.
    """
    frames = traceback.extract_tb(error.__traceback__)[1:]
    here = str(Path(__file__).parents[1])
    users = [frame for frame in frames if not frame.filename.startswith((here, "<", *_NOT_OURS))]
    found = (users or frames)[-1:]
    return f"{found[0].filename}:{found[0].lineno}" if found else ""
