"""What people see of a traceback: their own code. ``APGAS_TRACEBACK=full`` shows the frames of the runtime, too.

The frames are taken out of the errors themselves, so whatever prints these, a notebook for example, prints them short.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from concurrent.futures import _base
from types import TracebackType
from typing import Final

ENV_TRACEBACK: Final = "APGAS_TRACEBACK"

_HERE: Final = os.path.dirname(os.path.dirname(__file__))
_OURS: Final = tuple(os.path.join(folder, "") for folder in (_HERE, os.path.join(os.path.dirname(_HERE), "glb")))
_BENCHMARKS: Final = os.path.join(_HERE, "benchmarks", "")
_HELPERS: Final = (str(contextlib.__file__), str(_base.__file__))
"""Of the standard library and others, hidden where we call them or they call us."""


def folded(error: BaseException) -> BaseException:
    """Take our frames out of an error, and out of those that it comes of or consists of; returns it.

    An error without any frame of the program keeps all of its own.
    """
    if full():
        return error
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        visible = _visible(current.__traceback__)
        if visible is not None or current is not error:
            current.__traceback__ = visible
        waiting += (current.__cause__, current.__context__)
        if isinstance(current, BaseExceptionGroup):
            waiting += current.exceptions
    return error


def full() -> bool:
    """Whether all frames are to be shown."""
    return os.environ.get(ENV_TRACEBACK) == "full"


def text(error: BaseException) -> str:
    """An error with its traceback, without our frames, as a note tells it."""
    return "".join(traceback.format_exception(folded(error))).rstrip()


def level_of_program() -> int:
    """The ``stacklevel`` by which a warning of our caller names the innermost line of the program."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 - as warnings does
    while frame.f_back is not None and (is_ours(frame.f_code.co_filename) or _helps(frame.f_code.co_filename)):
        level, frame = level + 1, frame.f_back
    return level


def is_ours(filename: str) -> bool:
    """Whether a file belongs to the runtime or the balancer; benchmarks are programs."""
    return filename.startswith(_OURS) and not filename.startswith(_BENCHMARKS)


def _helps(filename: str) -> bool:
    return filename.startswith(_HELPERS)


def _visible(first: TracebackType | None) -> TracebackType | None:
    links: list[TracebackType] = []
    while first is not None:
        links.append(first)
        first = first.tb_next
    files = [link.tb_frame.f_code.co_filename for link in links]
    hidden = [is_ours(file) for file in files]
    for order in (range(1, len(files)), range(len(files) - 2, -1, -1)):
        step = -1 if order.step > 0 else 1
        for at in order:
            hidden[at] = hidden[at] or (hidden[at + step] and _helps(files[at]))
    visible: TracebackType | None = None
    for link, out in zip(reversed(links), reversed(hidden), strict=True):
        if not out:
            visible = TracebackType(visible, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return visible
