"""Options, output, errors and the words for values that all commands share."""

from __future__ import annotations

import io
import math
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_args

import msgspec
import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import RenderableType

    from scheduler_bridge.daemon import ControlClient


_Function = TypeVar("_Function", bound="Callable[..., Any]")


class TakesOnce:
    """A command, or a group of them, that refuses options that take one value and are given twice.

    The option parser keeps the last value in silence. Flags that only switch something on may be repeated. The types of
    the parser are not named here: some versions of typer take click's, others bring their own.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse ``args``.

        Raises:
            CliError: An option is given twice.
        """
        command: Any = self
        _, _, order = command.make_parser(ctx).parse_args(list(args))
        for option in order:
            if option.param_type_name != "option" or option.multiple or option.count:
                continue
            if (not option.is_flag or option.secondary_opts) and order.count(option) > 1:
                raise CliError(
                    f"{' or '.join(option.opts + option.secondary_opts)}: given {order.count(option)} times",
                    "it takes one value, and only the last one would count",
                    "give it once; to compare, run the command once for each value",
                )
        parent: Any = super()
        rest: list[str] = parent.parse_args(ctx, args)
        return rest


class _Command(TakesOnce, TyperCommand):
    pass


class _Group(TakesOnce, TyperGroup):
    pass


class Commands(typer.Typer):
    """Commands, registered as with typer, which take each option once."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=_Group, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[_Function], _Function]:
        """Register a function as a command."""
        return super().command(name, cls=_Command, **settings)


ENV_STATE: Final = "MALLEABLE_STATE"
_PLAIN_WIDTH = 500

StateOption = Annotated[
    Path | None,
    typer.Option("--state", metavar="DIR", envvar=ENV_STATE, help="State folder of the scheduler.", show_default=False),
]
ReachOption = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR|DOOR",
        envvar=ENV_STATE,
        help="State folder of the scheduler, or a door: unix:PATH.",
        show_default=False,
    ),
]
LauncherOption = Annotated[
    str | None,
    typer.Option(
        "--launcher",
        metavar="COMMAND",
        help="How hosts are reached: a program called like ssh, or a command with {host} and {command}.",
        show_default="ssh",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def state_folder(given: Path | None) -> Path:
    """Return the folder that was asked for, or the user's default one.

    Raises:
        CliError: It is a door.
    """
    if given is None:
        import platformdirs

        return platformdirs.user_state_path("malleable", appauthor=False)
    from scheduler_bridge.daemon import Door

    if Door.is_meant(str(given)):
        raise CliError(f"{given} is a door", "this needs the scheduler's folder", "give it by --state DIR")
    return given.absolute()


def slurm_state_folder(given: Path | None, job: int) -> Path:
    """Return the folder that was asked for, or the default one of a Slurm job: the same on all hosts."""
    return given.absolute() if given is not None else state_folder(None) / f"slurm-{job}"


def client(given: Path | None) -> ControlClient:
    """Return a client of the scheduler that serves the state folder, or is reached by the door."""
    from scheduler_bridge.daemon import ControlClient, Door

    if given is not None and Door.is_meant(str(given)):
        return ControlClient(Door.parse(str(given)))
    return ControlClient(state_folder(given))


def print_json(value: Any) -> None:
    """Print ``value`` (builtin types and msgspec structs) as indented JSON."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=1).decode() + "\n")


def terminal_width() -> int | None:
    """Cells of a line on the terminal; None where there is no terminal."""
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal else None


def print_figures(rows: Sequence[Sequence[str]]) -> None:
    """Print a small table for people: heads, then rows of a label and its figures. Rich takes 30 ms to load."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, (label, *figures) in enumerate(rows):
        cells = [label.ljust(widths[0]), *map(str.rjust, figures, widths[1:])]
        typer.secho("  ".join(cells).rstrip(), bold=number == 0)


def print_rich(what: RenderableType) -> None:
    """Print for people: coloured on a terminal, plain lines elsewhere."""
    from rich.console import Console

    console = Console(highlight=False)
    if console.is_terminal:
        console.print(what)
        return
    plain = Console(highlight=False, no_color=True, width=_PLAIN_WIDTH, file=io.StringIO())
    with plain.capture() as captured:
        plain.print(what)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


# How errors look: one red line with the culprit, one that says why, one that says what to do -------------------------


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
    from scheduler_bridge.daemon.requests import JobClass, Launch, Protocol

    choices = {"job_class": get_args(JobClass), "launch": get_args(Launch), "protocol": get_args(Protocol)}
    what, _, where = str(error).partition(" - at ")
    found = re.search(r"\$\.(\w+)", where)
    field = found[1] if found else ""
    if field in choices:
        what = re.sub("Invalid enum value (.*)", rf"\1 is not one of {', '.join(choices[field])}", what)
    return field, what[:1].lower() + what[1:].replace("`", "")


# Lists of numbers as people write them: 3,5-7 ------------------------------------------------------------------------


def numbers(option: str, text: str | None) -> tuple[int, ...] | None:
    """Read numbers such as 3,5-7.

    Raises:
        CliError: They are none.
    """
    from scheduler_bridge.daemon.requests import ARRAY_MOST

    if text is None:
        return None
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise CliError(f"{option} {text}", "numbers are given as 3,5-7", f"for example {option} 1-3")
        low, high = int(first), int(last or first)
        if len(found) + high - low >= ARRAY_MOST:
            raise CliError(f"{option} {text}", f"at most {ARRAY_MOST} numbers are taken", "give fewer")
        found += range(low, high + 1)
    if not found:
        raise CliError(f"{option} {text}", "there is no number in it", f"for example {option} 1-3")
    return tuple(found)


# Options for how often is decided, and for how long jobs are left alone; else as the policy is meant -----------------

PassIntervalOption = Annotated[
    float | None,
    typer.Option(
        "--pass-interval",
        min=0,
        metavar="SECONDS",
        help="Decide at least this often, besides at events; 0: at events only.",
        show_default="as the policy is meant",
    ),
]
CooldownOption = Annotated[
    float | None,
    typer.Option(
        "--cooldown",
        min=0,
        metavar="SECONDS",
        help="A job takes no order for this long after a resize.",
        show_default="as the policy is meant",
    ),
]


# The files that a command is to write, looked at before it works for them --------------------------------------------

PICTURES: Final = (".png",)
WORKLOADS: Final = (".swf", ".swf.gz")


def expect_file(option: str, path: Path | None, endings: tuple[str, ...] = ()) -> None:
    """See that a file of this name can be written, as far as that can be said beforehand.

    Args:
        option: By which it was given.
        path: None: it was not.
        endings: Of which its name has one, as what is written is only read, or shown, by such a name; none: any.

    Raises:
        CliError: It cannot.
    """
    if path is None:
        return
    folder = path.parent
    if path.is_dir():
        raise CliError(f"{option} {path}: this is a folder", "a file is to be written", "name one in it")
    if not folder.is_dir():
        raise CliError(f"{option} {path}: there is no folder {folder}", hint="make it, or write elsewhere", code=1)
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise CliError(f"{option} {path}: Permission denied", hint="write elsewhere", code=1)
    if endings and not path.name.lower().endswith(endings) and not path.is_char_device():
        raise CliError(
            f"{option} {path}: another ending than {' or '.join(endings)}",
            "by its ending a file is told to be what is written there",
            f"for example: {option} {path.with_suffix(endings[0])}",
        )
