"""What the calling thread works on, for people: found in its stack when somebody asks, so it costs nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final, TypeVar

from apgas.runtime.serialization import name_of

F = TypeVar("F", bound=Callable[..., Any])

NOTHING: Final = "-"
_variables: dict[CodeType, str] = {}


def runs(variable: str) -> Callable[[F], F]:
    """Mark a function that runs what the program has written: its local ``variable`` holds that, or its name."""

    def mark(function: F) -> F:
        _variables[function.__code__] = variable
        return function

    return mark


def activity() -> str:
    """The name of the activity that the calling thread runs; ``-`` if it runs none."""
    return activity_in(sys._getframe(1))  # noqa: SLF001 - as logging does to find the caller


def activity_in(frame: FrameType | None) -> str:
    """The name of the activity that a thread with this innermost frame runs; ``-`` if it runs none."""
    while frame is not None:
        variable = _variables.get(frame.f_code)
        if variable is not None and (running := frame.f_locals.get(variable)) is not None:
            return running if isinstance(running, str) else name_of(running)
        frame = frame.f_back
    return NOTHING
