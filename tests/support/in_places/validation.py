"""Whole-state validators of the state machines of a place: what they check after every change.

``APGAS_VALIDATE=validation`` has real places do so, which find this module on their path. Each change costs time in
proportion to the state.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

from apgas.core.finish import Cancellations, FinishTable, References
from apgas.core.membership import Leaving, Membership
from apgas.core.order import OrderMachine, Step
from apgas.core.place import PlaceCore
from apgas.core.resilient import ResilientFinishTable
from apgas.core.resize import Current
from apgas.errors import InvariantError

CONTRADICTION: Final = 70
"""Exit code of a place whose state contradicts itself."""

S = TypeVar("S")


def checked(machine: type[S]) -> type[S]:
    """Return a subclass that ends the process with a message when a change left a contradiction.

    Every public method is a change, but for questions (``may_…``). The caller serialises changes; questions may be
    asked at any time.
    """
    busy: set[int] = set()
    members = {name: member for owner in reversed(machine.__mro__) for name, member in vars(owner).items()}
    changes = {name: _checking(method, busy) for name, method in members.items() if _is_change(name, method)}
    return type(f"Checked{machine.__name__}", (machine,), {"__slots__": (), **changes})


def _is_change(name: str, member: object) -> bool:
    return callable(member) and not isinstance(member, type) and not name.startswith(("_", "may_"))


def _checking(change: Callable[..., Any], busy: set[int]) -> Callable[..., Any]:
    """Wrap a change; a change that is part of another one (``busy`` knows) may leave the state half way."""

    @functools.wraps(change)
    def checking(self: object, *args: Any, **kwargs: Any) -> Any:
        if id(self) in busy:
            return change(self, *args, **kwargs)
        busy.add(id(self))
        try:
            result = change(self, *args, **kwargs)
            try:
                validate(self)
            except InvariantError as error:
                _end(change.__qualname__, error)
        finally:
            busy.discard(id(self))
        return result

    return checking


def _end(change: str, error: InvariantError) -> NoReturn:
    """End this process at once: whatever caught the error as one of the program's would hide it."""
    text = "".join(traceback.format_stack())
    sys.stderr.write(f"{text}apgas: the state contradicts itself after {change}: {error}\n")
    sys.stderr.flush()
    os._exit(CONTRADICTION)


@functools.singledispatch
def validate(state: object) -> None:
    """Check a whole state.

    Raises:
        InvariantError: It contradicts itself; the text says where.
    """
    raise TypeError(f"no validator knows {state!r}")


# a place -------------------------------------------------------------------------------------------------------------


@validate.register
def _(core: PlaceCore) -> None:
    validate(core.finishes)
    validate(core.cancellations)
    if core.uncounted_live < 0:
        raise InvariantError(f"place {core.here} has ended more uncounted activities than it began")
    validate(core.membership)
    leaves = core.here in core.membership.leaving
    _validate_leaving(core._leaving, core.here, leaves=None if core.over else leaves)
    if leaves and core._relay.held:
        raise InvariantError(f"place {core.here} is to leave and holds {core._relay.held}")
    if core.calls and max(core.calls) >= core._next_call:
        raise InvariantError(f"place {core.here} waits for calls that it never made: {sorted(core.calls)}")
    if any(message.epoch <= core.epoch for _, message, _ in core._held):
        raise InvariantError(f"place {core.here} holds a message of a past epoch: {core._held}")


@validate.register
def _(table: FinishTable) -> None:
    live = 0
    for finish, share in table._shares.items():
        live += share.live
        if share.live <= 0:
            raise InvariantError(f"place {table.here}: {finish} keeps a quiet share {share}")
        if finish.home == table.here and not table.is_open(finish):
            raise InvariantError(f"place {table.here}: {finish} has fired with {share.live} alive")
    if table.live != live:
        raise InvariantError(f"place {table.here}: live {table.live} is not the sum of {table._shares}")
    for finish, balance in table._homed.items():
        waits = balance.open or (finish.dense and table._arrivals.overdue)
        if not waits or 0 in balance.open.values():
            raise InvariantError(f"place {table.here}: {finish} has balance {balance.open} and did not fire")


@validate.register
def _(table: ResilientFinishTable) -> None:
    validate.dispatch(FinishTable)(table)
    for finish, share in table._shares.items():
        if share.live > sum((share.sources or {}).values()):
            raise InvariantError(f"place {table.here}: {finish} does not know where all of {share} came from")
    for finish, pairs in table._pairs.items():
        if not pairs.open or any(place in table._settled for _, place in pairs.open):
            raise InvariantError(f"place {table.here}: {finish} waits for {pairs.open}")
    dead = table._settling.keys()
    if dead & table._settled or (dead and not any(settling.awaited - dead for settling in table._settling.values())):
        raise InvariantError(f"place {table.here}: losses are to be settled: {table._settling}")


@validate.register
def _(cancellations: Cancellations) -> None:
    here, known = cancellations.here, cancellations.known
    if not cancellations.announced <= known:
        raise InvariantError(f"place {here} has announced {cancellations.announced - known}, not cancelled")
    for finish, outer in cancellations._outer.items():
        if outer in known and finish not in known:
            raise InvariantError(f"place {here}: {outer} is cancelled, and {finish} in it is not")


@validate.register
def _(references: References) -> None:
    validate(references._table)


@validate.register
def _(membership: Membership) -> None:
    members, leaving = membership.members, membership.leaving
    if 0 not in members or 0 in leaving:
        raise InvariantError(f"epoch {membership.epoch} without place 0: {sorted(members)} less {leaving}")
    if not leaving <= members.keys():
        raise InvariantError(f"{sorted(leaving - members.keys())} leave and are no members")
    if list(members) != [info.place for info in members.values()]:
        raise InvariantError(f"members are known by wrong ids: {members}")
    if membership._staying_ids is not None and membership._staying_ids != sorted(members.keys() - leaving):
        raise InvariantError(f"{membership._staying_ids} are said to stay, but not {sorted(leaving)}")
    if max(members) >= membership.next_place:
        raise InvariantError(f"next id {membership.next_place} is that of a member: {sorted(members)}")


def _validate_leaving(leaving: Leaving, here: int, *, leaves: bool | None) -> None:
    """Check it; ``leaves``: whether the members say that place ``here`` is to leave, if they still do."""
    if leaves is not None and leaves != (leaving.order is not None):
        raise InvariantError(f"place {here} is {'' if leaves else 'not '}leaving under order {leaving.order}")
    # it may run something again, from a place that has heard sooner that the shrink was aborted
    if leaving.drained and (leaving.order is None or leaving.awaited):
        raise InvariantError(f"place {here} is drained: order {leaving.order}, finals {leaving.awaited}")


# orders --------------------------------------------------------------------------------------------------------------

_KIND_OF: Final = {Step.SPAWN: "grow", Step.DRAIN: "shrink", Step.UNDO: "shrink", Step.RELEASE: "shrink"}
"""The orders of which a step is; the others are of both kinds."""


@validate.register
def _(machine: OrderMachine) -> None:
    current, step, waiting = machine._current, machine.step, machine._waiting
    if (step is Step.IDLE) != (current is None):
        raise InvariantError(f"step {step} with order {current}")
    if waiting and (step is Step.IDLE or not machine.enabled):
        raise InvariantError(f"orders wait for nothing: {list(waiting)} in {step}, enabled {machine.enabled}")
    if len(waiting) > machine.MAX_WAITING:
        raise InvariantError(f"{len(waiting)} orders wait, {machine.MAX_WAITING} may")
    if machine._abandoned and max(machine._abandoned) >= machine._token:
        raise InvariantError(f"calls {sorted(machine._abandoned)} were abandoned, {machine._token} is the present one")
    if current is not None:
        if step is Step.PRE and not machine.enabled:
            raise InvariantError(f"order {current.order} is in its first step without a handler")
        _validate_current(current, step)


def _validate_current(current: Current, step: Step) -> None:
    kind = current.order.kind
    if kind != _KIND_OF.get(step, kind):
        raise InvariantError(f"a {kind} cannot be in step {step}")
    if step in (Step.DRAIN, Step.RELEASE) and not 0 < len(current.pending) <= len(current.places):
        raise InvariantError(f"{step} waits for {current.pending} of {current.places}")
    if not current.pending <= set(current.places) or 0 in current.pending:
        raise InvariantError(f"{step} waits for {current.pending}, and {current.places} are to leave")
    if current.phase_began_s < current.began_s:
        raise InvariantError(f"a phase of order {current.order} began before it")
