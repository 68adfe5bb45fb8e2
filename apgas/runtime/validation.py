"""The whole-state validator in real processes: ``APGAS_VALIDATE=1`` checks a place's state after every change.

For tests and soaks: each change costs time in proportion to the state. Off, it costs nothing.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, Protocol, TypeVar

from apgas.errors import InvariantError

ENV_VALIDATE: Final = "APGAS_VALIDATE"
CONTRADICTION: Final = 70
"""Exit code of a place whose state contradicts itself."""


class Validated(Protocol):
    """A state machine that can check itself."""

    def validate(self) -> None:
        """Raise InvariantError if the state contradicts itself."""


S = TypeVar("S", bound=Validated)


def checked(machine: type[S], environ: Mapping[str, str] = os.environ) -> type[S]:
    """Return the class to make a state machine of, a subclass of ``machine`` if the environment asks for it.

    It ends the process with a message when a change left a contradiction. Every public method is a change, but for
    questions (``may_…``). The caller serialises changes; questions may be asked at any time.
    """
    if environ.get(ENV_VALIDATE) != "1":
        return machine
    busy: set[int] = set()
    members = {name: member for owner in reversed(machine.__mro__) for name, member in vars(owner).items()}
    changes = {name: _checking(method, busy) for name, method in members.items() if _is_change(name, method)}
    return type(f"Checked{machine.__name__}", (machine,), {"__slots__": (), **changes})


def _is_change(name: str, member: object) -> bool:
    question = name.startswith(("_", "may_")) or name == "validate"
    return callable(member) and not isinstance(member, type) and not question


def _checking(change: Callable[..., Any], busy: set[int]) -> Callable[..., Any]:
    """Wrap a change; a change that is part of another one (``busy`` knows) may leave the state half way."""

    @functools.wraps(change)
    def checking(self: Validated, *args: Any, **kwargs: Any) -> Any:
        if id(self) in busy:
            return change(self, *args, **kwargs)
        busy.add(id(self))
        try:
            result = change(self, *args, **kwargs)
            try:
                self.validate()
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
