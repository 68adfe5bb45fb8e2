"""Mistakes of policies, which may be anybody's: what is said of them, and what is none of a decision."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scheduler_bridge.policies.base import Decision

MISTAKES: Final = (Exception, SystemExit)
"""What a policy may raise; only Ctrl-C is not its own."""
_NOT_OURS: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
_NUMBERS: Final = ("job_id", "nodes", "cores", "free_nodes")


class PolicyError(RuntimeError):
    """A policy, or the function that makes it, went wrong; the text says which, how, and where."""

    @classmethod
    def raised(cls, name: str, error: BaseException, when: str = "") -> PolicyError:
        """What is to be said of ``error``, which a policy raised."""
        place = _place_of(error)
        what = "".join(traceback.format_exception_only(error)).strip()
        return cls(f"policy {name}{f' ({place})' if place else ''} raised {what} {when}".rstrip())

    @classmethod
    def nonsense(cls, name: str, decided: object, when: str = "") -> PolicyError:
        """What is to be said of what a policy returned that does not make sense."""
        return cls(f"policy {name} decided {decided!r:.200}{when and f' {when}'}: that is no list of decisions about known jobs")


def makes_sense(decided: object) -> bool:
    """Whether what a policy returned is a list of decisions, with whole numbers of jobs, nodes and cores."""
    return isinstance(decided, Sequence) and all(
        isinstance(each, Decision) and all(isinstance(getattr(each, name, 0), int) for name in _NUMBERS)
        for each in decided
    )


def _place_of(error: BaseException) -> str:
    """File and line that an error comes from: the last ones of a user's, if there are any; empty: there are none.

    The first frame is that of who asks.
    """
    frames = traceback.extract_tb(error.__traceback__)[1:]
    here = str(Path(__file__).parents[1])
    users = [frame for frame in frames if not frame.filename.startswith((here, "<", *_NOT_OURS))]
    found = (users or frames)[-1:]
    return f"{found[0].filename}:{found[0].lineno}" if found else ""
