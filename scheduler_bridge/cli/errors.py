"""How errors look: one red line with the culprit, one that says why, one that says what to do."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, get_args

if TYPE_CHECKING:
    import msgspec


class CliError(Exception):
    """An error for the user.

    Args:
        what: Names the culprit.
        why: The rule that it breaks.
        hint: What to do.
        code: Exit code: 2 for bad usage, 1 for a failure.
    """

    def __init__(self, what: str, why: str = "", hint: str = "", code: int = 2) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.hint = hint
        self.code = code


def expect_finite(*given: tuple[str, float | None]) -> None:
    """See that the values of options are finite, where they are given.

    Raises:
        CliError: One is not.
    """
    for option, value in given:
        if value is not None and not math.isfinite(value):
            raise CliError(f"{option} {value}: not finite", hint="leave it out, or give a number")


def show(error: CliError) -> int:
    """Print ``error`` on standard error; return its exit code."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text(error.what, style="bold red"))
    for line in (error.why, error.hint):
        if line:
            console.print(Text(line))
    return error.code


def culprit(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return the field that ``error`` is about, and what is wrong with it."""
    from scheduler_bridge.live.requests import JobClass, Launch, Protocol

    choices = {"job_class": get_args(JobClass), "launch": get_args(Launch), "protocol": get_args(Protocol)}
    what, _, where = str(error).partition(" - at ")
    found = re.search(r"\$\.(\w+)", where)
    field = found[1] if found else ""
    if field in choices:
        what = re.sub("Invalid enum value (.*)", rf"\1 is not one of {', '.join(choices[field])}", what)
    return field, what[:1].lower() + what[1:].replace("`", "")
