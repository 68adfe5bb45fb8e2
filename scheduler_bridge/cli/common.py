"""What all commands share: how they take options, how they reach a scheduler, what they print, how errors look."""

from __future__ import annotations

import inspect
import io
import json
import math
import re
import sys
import time
from copy import copy
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast, get_args, get_type_hints

import msgspec
import typer
from typer.core import TyperCommand, TyperGroup

from scheduler_bridge.cli.options import SAID, described
from scheduler_bridge.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from scheduler_bridge.daemon import ControlClient

_Function = TypeVar("_Function", bound="Callable[..., Any]")


def expect_finite(option: str, value: float, most: float | None = None) -> float:
    """Return the value of an option that is a number, and not too large."""
    from scheduler_bridge.model.job import LARGEST

    if not abs(value) <= LARGEST:
        what = "too large" if math.isfinite(value) else "not finite"
        raise CliError(f"{option} {value:g}: {what}", hint=f"give a number of at most {most or LARGEST:,.16g}")
    return value


class ChecksOptions:
    """A command, or a group of them, that refuses options that take one value and are given twice, and wild numbers.

    The option parser keeps the last value in silence. Flags that only switch something on may be repeated. The types of
    the parser are not named here: some versions of typer take click's, others bring their own.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse ``args``."""
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
        for option in command.params:
            if isinstance(value := ctx.params.get(option.name), float):
                expect_finite(option.opts[0], value, getattr(option.type, "max", None))
        return rest


class _Command(ChecksOptions, TyperCommand):
    pass


class _Group(ChecksOptions, TyperGroup):
    pass


class Commands(typer.Typer):
    """Commands, registered as with typer, which take each option once, and options in structs."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=_Group, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[_Function], _Function]:
        """Register a function as a command.

        A parameter has a default of ``options``, or is annotated as typer takes it. One whose type is a dataclass
        stands for its fields, which are such parameters. A text ``PANEL`` of the class is their title in the help.
        A function that returns an ``Outcome`` has the option ``--json``, too, and its outcome is printed.
        """
        return _registering(super().command(name, cls=_Command, **settings))

    def callback(self, **settings: Any) -> Callable[[_Function], _Function]:
        """Register what is called before a command, or without one; see ``command``."""
        return _registering(super().callback(**settings))


def _registering(register: Callable[[Callable[..., None]], Any]) -> Callable[[_Function], _Function]:
    def registered(function: _Function) -> _Function:
        register(flattened(function))
        return function

    return registered


def flattened(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose parameters are the options that those of ``function`` stand for; see ``Commands``."""
    types = get_type_hints(function, include_extras=True)
    given = inspect.signature(function).parameters.values()
    parameters = [option for each in given for option in _options(each.name, types[each.name], each.default)]
    returns = types.pop("return")
    if Outcome in (returns, *get_args(returns)):
        parameters += _options("as_json", JsonOption, False)

    def flat(**values: Any) -> Any:
        found = function(**{name: _value_of(kind, name, values) for name, kind in types.items()})
        if not isinstance(found, Outcome):
            return found
        print_outcome(found, as_json=values["as_json"])
        return None

    flat.__name__ = function.__name__
    flat.__doc__ = function.__doc__
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by the option parser
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


def _options(name: str, kind: Any, default: Any, panel: str | None = None) -> Iterator[inspect.Parameter]:
    """What a parameter of a command, or a field of a struct, stands for, as typer takes it."""
    if is_dataclass(kind):
        types = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            yield from _options(field.name, types[field.name], field, getattr(kind, "PANEL", None))
        return
    if isinstance(default, Field):
        if SAID in default.metadata:
            kind = Annotated[kind, default.metadata[SAID]]
        made = default.default if default.default_factory is MISSING else default.default_factory()
        default = inspect.Parameter.empty if made is MISSING else made
    if panel is not None:
        taken, option = get_args(kind)
        option = copy(option)
        option.rich_help_panel = panel
        kind = Annotated[taken, option]
    yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _value_of(kind: Any, name: str, values: dict[str, Any]) -> Any:
    """The value of a parameter or field: the one of its name, or a struct of those of its fields."""
    if not is_dataclass(kind):
        return values[name]
    types = get_type_hints(kind)
    return cast("type", kind)(
        **{field.name: _value_of(types[field.name], field.name, values) for field in fields(kind)}
    )


ENV_STATE: Final = "MALLEABLE_STATE"
_PLAIN_WIDTH = 500
_LINE_EVERY_S = 10.0
_NOT_ASCII = re.compile(r"[^\n -~]+")


def _folder(given: str) -> Path:
    if not given:  # a path of it would be the current folder
        raise typer.BadParameter("it is empty; name a folder, or leave the option away")
    return Path(given)


StateOption = Annotated[
    Path | None,
    described("--state", "State folder of the scheduler.", "DIR", envvar=ENV_STATE, show_default=False, parser=_folder),
]
ReachOption = Annotated[
    Path | None,
    described(
        "--state",
        "State folder of the scheduler, or a door: unix:PATH.",
        "DIR|DOOR",
        envvar=ENV_STATE,
        show_default=False,
        parser=_folder,
    ),
]
LauncherOption = Annotated[
    str | None,
    described(
        "--launcher",
        "How hosts are reached: a program called like ssh, or a command with {host} and {command}.",
        "COMMAND",
        show_default="ssh",
    ),
]
GrowOption = Annotated[int | None, described("--grow", "Nodes to add.", "N", min=1)]
ShrinkOption = Annotated[int | None, described("--shrink", "Nodes to release.", "N", min=1)]
JsonOption = Annotated[bool, described("--json", "Print JSON.")]


def direction(grow: int | None, shrink: int | None) -> int:
    """Return by how many nodes a job is to be resized, fewer than none if it shrinks."""
    if (grow is None) == (shrink is None):
        raise CliError("resize needs a direction", "a job either grows or shrinks", "give --grow 1 or --shrink 1")
    return grow if grow is not None else -(shrink or 0)


def state_folder(given: Path | None) -> Path:
    """Return the folder that was asked for, or the user's default one."""
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


def say(text: str = "", *, err: bool = False) -> None:
    """Print a text for people, on standard error if that is said."""
    typer.echo(printable(text, keep="\n"), err=err)


def print_json(value: Any) -> None:
    """Print ``value`` (builtin types and msgspec structs) as indented JSON."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=1).decode()
    # JSON itself escapes only a part of what a terminal may not be given.
    sys.stdout.write(_NOT_ASCII.sub(_escaped_in_json, text) + "\n")


def _escaped_in_json(found: re.Match[str]) -> str:
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in found[0])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a command.

    Attributes:
        document: What is printed as JSON, if that is asked for.
        pieces: What is printed for people, in turn: texts, and what rich renders; they are only made for that.
        error: What went wrong all the same.
    """

    document: Any
    pieces: Iterable[RenderableType]
    error: Exception | None = None


def print_outcome(outcome: Outcome, *, as_json: bool) -> None:
    """Print what came of a command, then raise its error, if there is one."""
    if as_json:
        print_json(outcome.document)
    else:
        print_pieces(outcome.pieces)
    if outcome.error is not None:
        raise outcome.error


def print_pieces(pieces: Iterable[RenderableType]) -> None:
    """Print texts, and what rich renders, for people."""
    for piece in pieces:
        if isinstance(piece, str):
            say(piece)
        else:
            print_rich(piece)


def plain_table(*heads: str) -> Table:
    """Make a table without lines, to be filled; a column whose head begins with > is of numbers, set to the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(head.removeprefix(">"), justify="right" if head.startswith(">") else "left", no_wrap=True)
    return table


def terminal_width() -> int | None:
    """Cells of a line on the terminal; None where there is no terminal."""
    from scheduler_bridge.cli.terminal import Terminal

    console = Terminal()
    return console.width if console.is_terminal else None


def print_figures(rows: Sequence[Sequence[str]]) -> None:
    """Print a small table for people: heads, then rows of a label and its figures. Rich takes 30 ms to load."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, (label, *figures) in enumerate(rows):
        cells = [label.ljust(widths[0]), *map(str.rjust, figures, widths[1:])]
        typer.secho(printable("  ".join(cells).rstrip()), bold=number == 0)


def now_and_then(line: Callable[..., str]) -> Callable[..., None]:
    """Return a function that says a line about what it is given, on standard error, if none was said lately."""
    said_s = time.monotonic()

    def show(*state: Any) -> None:
        nonlocal said_s
        if time.monotonic() - said_s >= _LINE_EVERY_S:
            said_s = time.monotonic()
            say(line(*state), err=True)

    return show


def print_rich(what: RenderableType) -> None:
    """Print for people: coloured on a terminal, plain lines elsewhere."""
    from scheduler_bridge.cli.terminal import Terminal

    console = Terminal()
    if console.is_terminal:
        console.print(what)
        return
    plain = Terminal(no_color=True, width=_PLAIN_WIDTH, file=io.StringIO())
    with plain.capture() as captured:
        plain.print(what)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


# How errors look: one red line with the culprit, one that says why, one that says what to do -------------------------


class CliError(Exception):
    """An error for the user, which any function of the commands may raise.

    Args:
        what: Names the culprit.
        why: The rule that it breaks.
        hint: What to do.
        code: Exit code: 2 for bad usage, 1 for a failure.
    """

    def __init__(self, what: str, why: str = "", hint: str = "", code: int = 2) -> None:
        super().__init__(what)
        self.what, self.why, self.hint, self.code = what, why, hint, code


def show(error: CliError) -> int:
    """Print ``error`` on standard error; return its exit code."""
    from rich.text import Text

    from scheduler_bridge.cli.terminal import Terminal

    console = Terminal(stderr=True, soft_wrap=True)
    console.print(Text(_shortened(error.what), style="bold red"))
    for line in (error.why, error.hint):
        if line:
            console.print(Text(_shortened(line)))
    return error.code


def _shortened(text: str) -> str:
    """Leave out the middle of what is not read, such as a path of 30,000 characters."""
    if len(text) <= 1000:
        return text
    return f"{text[:500]} ... ({len(text):,} characters) ... {text[-500:]}"


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
