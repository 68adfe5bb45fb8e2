"""What the commands that measure beside references share: usage errors, choices, interrupts."""

from __future__ import annotations

import inspect
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeAlias, cast

import typer
import typer.main

from .cli import as_called
from .errors import BadUsage, show_error

Run: TypeAlias = Callable[[], int]
_USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]
"""click's UsageError, whichever click typer brings along."""


def main(program: str, command: Callable[..., Run], arguments: list[str]) -> int:
    """Parse ``arguments``, measure, and return the exit code.

    Args:
        program: How the command is called.
        command: Has the options as annotated parameters, as for typer; returns what is to be run for the exit code.
        arguments: The words after the command.
    """
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    app.command(help=as_called(inspect.getdoc(command)))(command)
    try:
        run = typer.main.get_command(app).main(arguments, prog_name=program, standalone_mode=False)
        # after --help there is nothing to do, and click returns 0
        return cast("Run", run)() if callable(run) else 0
    except BadUsage as error:
        show_error(error.culprit, error.why, error.remedy)
    except _USAGE_ERROR as error:
        message = " ".join(cast("Any", error).format_message().split())
        show_error(message, f"{program.rpartition(' ')[2]} cannot read its command line", f"see {program} --help")
    except Interrupted as interrupt:
        name = program.rpartition(".")[2]
        show_error(f"{name}: interrupted", f"{interrupt.by.name} came; every contender has been ended", "")
        return 128 + interrupt.by
    return 2


def chosen(option: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names in ``text``, which are separated by commas.

    Raises:
        BadUsage: One of them is not ``known``.
    """
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in known:
            raise BadUsage(f"{option} {text}", f'there is no "{name}"', f"choose from {', '.join(known)}")
    return names


class Interrupted(BaseException):
    """The run was ended by a signal."""

    def __init__(self, by: signal.Signals) -> None:
        super().__init__(by.name)
        self.by = by


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGINT and SIGTERM raise ``Interrupted``, once: the ending of the contenders is not to be interrupted."""
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, _: object) -> NoReturn:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise Interrupted(signal.Signals(number))
