"""What several commands share: the state folder, output as table or JSON."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec
import typer
from typer.core import TyperCommand, TyperGroup

from scheduler_bridge.cli.errors import CliError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import RenderableType

    from scheduler_bridge.live import ControlClient


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
    from scheduler_bridge.live import Door

    if Door.is_meant(str(given)):
        raise CliError(f"{given} is a door", "this needs the scheduler's folder", "give it by --state DIR")
    return given.absolute()


def slurm_state_folder(given: Path | None, job: int) -> Path:
    """Return the folder that was asked for, or the default one of a Slurm job: the same on all hosts."""
    return given.absolute() if given is not None else state_folder(None) / f"slurm-{job}"


def client(given: Path | None) -> ControlClient:
    """Return a client of the scheduler that serves the state folder, or is reached by the door."""
    from scheduler_bridge.live import ControlClient, Door

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
