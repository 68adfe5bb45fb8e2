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

Owner: TypeAlias = Callable[[int], str | None]
"""Whose a job is that waits or runs; None: there is no such job."""


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


def permitted(request: AnyRequest, caller: Caller, owner: Owner) -> AnyRequest:
    """Return what ``caller`` asks for by ``request``: jobs are the caller's, unless an operator says whose.

    Raises:
        NotPermittedError: It is not for this caller.
    """
    if caller.operator:
        return _by(request, caller) if isinstance(request, Submit) and not request.job.user else request
    match request:
        case Submit(job=job):
            if job.user not in ("", caller.name):
                raise NotPermittedError(f"{caller.name} submits no jobs for {job.user}", "only an operator can")
            _check_priority(job.priority)
            return _by(request, caller)
        case Status() | Explain():
            return request
        case Cancel() | Resize() | Hold() | Prioritise():
            whose = owner(request.job)
            if whose not in (None, caller.name):
                raise NotPermittedError(f"job {request.job} is not {caller.name}'s", f"{whose} or an operator may")
            if isinstance(request, Prioritise):
                _check_priority(request.priority)
            return request
        case Use() | ChangeNode() | LimitUsers() | Reserve() | Unreserve() | Report() | Shutdown():
            raise NotPermittedError(f"{caller.name} is no operator of this scheduler", "ask one")
        case _:
            assert_never(request)


def _by(request: Submit, caller: Caller) -> Submit:
    return msgspec.structs.replace(request, job=msgspec.structs.replace(request.job, user=caller.name))


def _check_priority(priority: int) -> None:
    if priority > 0:
        raise NotPermittedError(f"priority {priority} is above that of others", "a user can give 0 or less")
