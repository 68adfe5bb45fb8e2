"""The errors that a person reads: what is wrong, why, and what to do."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_OF_EXTRAS: Final = ("typer", "click", "rich", "matplotlib", "mypy_extensions", "numpy", "platformdirs")


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


@contextmanager
def extras_named() -> Iterator[None]:
    """Say what to install if the block imports a package that only an extra of the project brings.

    Raises:
        SystemExit: Such a package is missing; the text says which, and how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_EXTRAS:
            raise
        sys.exit(
            f"the package {error.name} is missing: this is an installation without the extras 'bridge' and 'kernels'\n"
            f'install them: {shlex.quote(sys.executable)} -m pip install "malleable-apgas[all]"'
        )


def show_error(culprit: str, why: str, remedy: str) -> None:
    """Write the three lines of an error to standard error; the culprit in red where that is a terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=sys.stderr, soft_wrap=True, highlight=False)
    console.print(Text(culprit, style="bold red"))
    for line in (why, remedy):
        if line:
            console.print(Text(line))


def first_cause(error: BaseException) -> BaseException:
    """Return the first single error inside ``error``, which may be a (nested) exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
