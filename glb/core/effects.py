"""The effects of the state machine of a place: what its driver has to do."""

from __future__ import annotations

from typing import Generic, Literal, TypeAlias, TypeVar

import msgspec

from glb.bag import Bag, Result
from glb.core.backup import Backup

R = TypeVar("R", bound=Result)


class Request(msgspec.Struct, frozen=True):
    """Ask ``to`` for work, uncounted. ``nonce`` identifies a random steal; None is a lifeline request."""

    to: int
    nonce: int | None


class Refuse(msgspec.Struct, frozen=True):
    """Answer the random thief ``to`` that there is nothing, uncounted."""

    to: int
    nonce: int


class Give(msgspec.Struct, Generic[R], frozen=True):
    """Send ``bag`` to ``to``, counted by the finish: only a running activity may do it."""

    to: int
    bag: Bag[R]
    nonce: int | None
    why: Literal["random", "lifeline", "evacuation"]
    tasks: int


class Forward(msgspec.Struct, Generic[R], frozen=True):
    """Pass a bag that arrived at an evacuated place on to ``to``, counted by the finish; the ledger does not see it.

    ``ident``: the gift that it is, if there are backups; then place 0 has the bag.
    """

    to: int
    bag: Bag[R]
    ident: int | None = None


class Save(msgspec.Struct, Generic[R], frozen=True):
    """Send ``backup`` to place 0, counted by the finish; its gifts go on from there."""

    backup: Backup[R]


class Start(msgspec.Struct, Generic[R], frozen=True):
    """Start a worker in ``slot`` with ``bag``, counted by the finish."""

    slot: int
    bag: Bag[R]


class Attend(msgspec.Struct, frozen=True):
    """Start the attendant, counted by the finish: it calls ``attend`` whenever ``calls`` changes, until ``Ended``."""


class Ended(msgspec.Struct, frozen=True):
    """The activity returns once all effects are carried out: a worker that has given up its bag, or the attendant."""


Effect: TypeAlias = Request | Refuse | Give[R] | Forward[R] | Save[R] | Start[R] | Attend | Ended
Message: TypeAlias = Request | Refuse
