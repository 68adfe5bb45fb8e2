"""What a caller may ask for: operators everything, users what concerns their own jobs. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, assert_never

import msgspec

from scheduler_bridge.live.requests import (
    AnyRequest,
    Cancel,
    ChangeNode,
    Explain,
    HeldBy,
    Hold,
    LimitUsers,
    Prioritise,
    Report,
    Reserve,
    Resize,
    Shutdown,
    Status,
    Submit,
    Unreserve,
    Use,
)


@dataclass(frozen=True, slots=True)
class Standing:
    """Whose a job is that waits or runs.

    Attributes:
        user: As jobs are kept for it.
        held_by: Who holds it back; None: nobody.
    """

    user: str
    held_by: HeldBy | None = None


Known: TypeAlias = Callable[[int], Standing | None]
"""How a job stands that waits or runs; None: there is no such job."""


class NotPermittedError(Exception):
    """A caller may not ask for that; ``hint`` says who may."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    Attributes:
        name: Of the user, as jobs are kept for it.
        operator: Whether everything may be asked for.
    """

    name: str
    operator: bool = False


def permitted(request: AnyRequest, caller: Caller, known: Known) -> AnyRequest:
    """Return what ``caller`` asks for by ``request``: jobs and holds are the caller's, unless an operator says whose.

    Raises:
        NotPermittedError: It is not for this caller.
    """
    if caller.operator:
        return _by_operator(request, caller, known)
    match request:
        case Submit(job=job):
            if job.user not in ("", caller.name):
                raise NotPermittedError(f"{caller.name} submits no jobs for {job.user}", "only an operator can")
            _check_priority(job.priority)
            return _by(request, caller)
        case Status() | Explain():
            return request
        case Cancel() | Resize() | Hold() | Prioritise():
            standing = known(request.job)
            if standing is not None and standing.user != caller.name:
                raise NotPermittedError(
                    f"job {request.job} is not {caller.name}'s", f"{standing.user} or an operator may"
                )
            if isinstance(request, Prioritise):
                _check_priority(request.priority)
            return _as_user(request, standing) if isinstance(request, Hold) else request
        case Use() | ChangeNode() | LimitUsers() | Reserve() | Unreserve() | Report() | Shutdown():
            raise NotPermittedError(f"{caller.name} is no operator of this scheduler", "ask one")
        case _:
            assert_never(request)


def _by_operator(request: AnyRequest, caller: Caller, known: Known) -> AnyRequest:
    match request:
        case Submit() if not request.job.user:
            return _by(request, caller)
        case Hold(held=True) if (standing := known(request.job)) is not None and standing.user == caller.name:
            return msgspec.structs.replace(request, as_user=True)
        case _:
            return request


def _as_user(request: Hold, standing: Standing | None) -> Hold:
    """What a user asks for whose job it is: as in Slurm, an operator's hold is not hers to release."""
    if not request.held and standing is not None and standing.held_by == "operator":
        raise NotPermittedError(f"job {request.job} is not released: an operator holds it", "ask one to release it")
    return msgspec.structs.replace(request, as_user=True)


def _by(request: Submit, caller: Caller) -> Submit:
    return msgspec.structs.replace(request, job=msgspec.structs.replace(request.job, user=caller.name))


def _check_priority(priority: int) -> None:
    if priority > 0:
        raise NotPermittedError(f"priority {priority} is above that of others", "a user can give 0 or less")
