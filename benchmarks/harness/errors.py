"""The errors that a person reads: what is wrong, why, and what to do."""

from __future__ import annotations

import errno
import os
import sys
import traceback


class BadUsage(Exception):
    """The command line asks for something impossible (exit code 2).

    Args:
        culprit: The option and its value, as typed.
        why: The rule that it breaks.
        remedy: What to type instead.
    """

    def __init__(self, culprit: str, why: str, remedy: str) -> None:
        super().__init__(f"{culprit}: {why}")
        self.culprit = culprit
        self.why = why
        self.remedy = remedy


def show_error(culprit: str, why: str, remedy: str) -> None:
    """Write the three lines of an error to standard error; the culprit in red where that is a terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=sys.stderr, soft_wrap=True, highlight=False)
    console.print(Text(culprit, style="bold red"))
    for line in (why, remedy):
        if line:
            console.print(Text(line))


def room_for_compiled(error: BaseException) -> str:
    """Return what to do if there was no room for what numba has compiled; empty if ``error`` is another one."""
    cause = first_cause(error)
    if not isinstance(cause, OSError) or cause.errno not in (errno.ENOSPC, errno.EDQUOT):
        return ""
    if "numba" not in "".join(traceback.format_exception(error)):
        return ""
    where = os.environ.get("NUMBA_CACHE_DIR") or "__pycache__ beside the kernels"
    return f"numba keeps compiled code in {where}: make room there, or name another folder by NUMBA_CACHE_DIR"


def first_cause(error: BaseException) -> BaseException:
    """Return the first single error inside ``error``, which may be a (nested) exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
