"""Mistakes of policies, which may be anybody's: what is said of them, and what is none of a decision."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, get_args

from scheduler_bridge.model import Because, Reservation
from scheduler_bridge.policies.base import Decision, Reserve, Stand

MISTAKES: Final = (Exception, SystemExit)
"""What a policy may raise; only Ctrl-C is not its own."""
_DECISIONS: Final = get_args(Decision)
_NOT_OURS: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    **dict.fromkeys(("job_id", "nodes", "cores", "free_nodes", "spare_nodes"), int),
    "start_s": (int, float),
    **dict.fromkeys(("mates", "for_jobs"), tuple),
    "reservation": Reservation,
    "reason": (str, Because),
}
"""Of the fields of all decisions."""
_MOST_BITS: Final = 63
"""What the log of a live scheduler takes."""
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


def _is_sound(part: Decision | Reservation) -> bool:
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if not isinstance(value, _TYPES[name]):
            return False
        match value:
            case Reservation() if not _is_sound(value):
                return False
            case int() if type(value) is not int or value.bit_length() > _MOST_BITS:
                return False
            case tuple() if name == "for_jobs":
                if not all(map(_is_job_with_nodes, value)):
                    return False
            case tuple() if not all(type(mate) is int for mate in value):
                return False
            case str() | Because():
                str(value).encode()  # or it is no text, or its gaps are not filled, which raises
            case _:
                pass
    return True


def _is_job_with_nodes(value: object) -> bool:
    if not isinstance(value, tuple) or len(value) != 2:
        return False
    return all(type(part) is int and part.bit_length() <= _MOST_BITS for part in value) and value[1] > 0


def _place_of(error: BaseException) -> str:
    """File and line that an error comes from: the last ones of a user's, if there are any; empty: there are none.

    The first frame is that of who asks.
    """
    frames = traceback.extract_tb(error.__traceback__)[1:]
    here = str(Path(__file__).parents[1])
    users = [frame for frame in frames if not frame.filename.startswith((here, "<", *_NOT_OURS))]
    found = (users or frames)[-1:]
    return f"{found[0].filename}:{found[0].lineno}" if found else ""
