"""Benchmark, the description of a benchmark for the harness, and how the command line (typer) becomes one."""

from __future__ import annotations

import importlib
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeAlias, TypeVar, cast, get_type_hints

import typer
import typer.main

from .errors import BadUsage
from .options import CommonOptions, parse_hosts, parse_slow_resizes

if TYPE_CHECKING:
    from glb.bag import Bag, Result


# The description of a benchmark --------------------------------------------------------------------------------------

R = TypeVar("R", bound="Result")


@dataclass(frozen=True)
class Benchmark(Generic[R]):
    """One problem instance, ready to be computed.

    Attributes:
        name: Short name, as in ``python -m benchmarks.<name>``.
        parameters: The instance, as it appears in the JSON result; ``seed``, if present, also goes to the provenance.
        make_bag: Builds the bag that holds all tasks; called on place 0, once per repetition, with the tasks per second
            to which workers are held, or None.
        make_result: Builds the neutral result; picklable (a class or a module-level function).
        value: Turns the folded result into the JSON ``result``.
        expected: The known value, or the value of a sequential run; None where neither is available. It may be slow:
            the harness calls it only when the user asks to verify, unless ``known`` answers.
        unit: What ``tasks`` counts, in the plural: "nodes", "solutions", "sources", "samples".
        static: Whether the bag starts divided over all places (it then has ``partition``).
        default_granularity: Tasks per call of ``process`` unless the user sets it; None: GLB tunes it.
        warm_up: Compiles or loads the kernel on the place where it runs; picklable, it is sent to every place.
        agrees: Compares ``value`` with what is expected.
        known: The expected value where it is recorded, without any computation; None otherwise.
        rule: What a rate in ``unit`` per second counts, for the summary ("last level counted, not hashed").
        noun: What the result counts, where it is a whole number: "nodes", "solutions".
        verify: Checks a result by other means than a sequential run; returns whether it is right, and what it was
            checked against or what is wrong. Called when the user asks to verify and ``known`` has no answer.
        publish: Called with the result on place 0 at the end; may write files; returns more lines for the summary.
    """

    name: str
    parameters: Mapping[str, object]
    make_bag: Callable[[float | None], Bag[R]]
    make_result: Callable[[], R]
    value: Callable[[R], object]
    expected: Callable[[], object | None]
    unit: str
    static: bool
    default_granularity: int | None
    warm_up: Callable[[], None]
    agrees: Callable[[object, object], bool] = operator.eq
    known: Callable[[], object | None] = lambda: None
    rule: str = ""
    noun: str = ""
    verify: Callable[[R], tuple[bool, str]] | None = None
    publish: Callable[[R], Sequence[tuple[str, str]]] = lambda _: ()


Parsed: TypeAlias = tuple[Benchmark[Any], CommonOptions]
_USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]
"""click's UsageError, whichever click typer brings along."""
_PANEL = "Common options"
_BENCHMARKS = __package__.rpartition(".")[0]
"""By what name this process knows them: that of the checkout's folder, or the installed one."""


def as_called(text: str | None) -> str | None:
    """Return a command's help with its examples as they can be called here."""
    return text and text.replace("python -m benchmarks.", f"python -m {_BENCHMARKS}.")


def _common(
    workers: Annotated[
        int | None,
        typer.Option(help="Computing threads per place.", show_default="cores / places", rich_help_panel=_PANEL),
    ] = None,
    granularity: Annotated[
        int | None,
        typer.Option(
            help="Tasks between two looks at the work of others.", show_default="auto", rich_help_panel=_PANEL
        ),
    ] = None,
    orders: Annotated[
        str,
        typer.Option(
            help='Resizes without a scheduler, as "SECONDS:+N,SECONDS:-N", and "SECONDS:workers=N".',
            rich_help_panel=_PANEL,
        ),
    ] = "",
    hosts: Annotated[
        str | None,
        typer.Option(help="Hosts of added places, as a,b.", show_default="this host", rich_help_panel=_PANEL),
    ] = None,
    hostfile: Annotated[
        Path | None, typer.Option(help="The same as a file, one host a line.", rich_help_panel=_PANEL)
    ] = None,
    transport: Annotated[
        str, typer.Option(help="How places talk: tcp or mpi.", envvar="APGAS_TRANSPORT", rich_help_panel=_PANEL)
    ] = "tcp",
    json: Annotated[Path | None, typer.Option(help="Write the result there.", rich_help_panel=_PANEL)] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write a timeline of all places there, for Perfetto.", rich_help_panel=_PANEL)
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check against a sequential run.", rich_help_panel=_PANEL)
    ] = False,
    repeat: Annotated[int, typer.Option(help="How often to compute.", rich_help_panel=_PANEL)] = 1,
    rate: Annotated[
        float | None,
        typer.Option(help="Tasks/s that a worker is held to.", show_default="no limit", rich_help_panel=_PANEL),
    ] = None,
    slow_resizes: Annotated[
        str,
        typer.Option(
            help='Seconds added to each grow and each shrink, as "0.5,1.2".',
            show_default="none",
            rich_help_panel=_PANEL,
        ),
    ] = "",
    statistics: Annotated[
        bool, typer.Option("--statistics", help="Show what each place did.", rich_help_panel=_PANEL)
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no table.", rich_help_panel=_PANEL)] = False,
    on_scheduler_loss: Annotated[str, typer.Option(help="end, or reconnect:SECONDS.", rich_help_panel=_PANEL)] = "end",
    tag_output: Annotated[
        bool, typer.Option("--tag-output", help="Put the place before each printed line.", rich_help_panel=_PANEL)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.", rich_help_panel=_PANEL)] = False,
) -> CommonOptions:
    """Gather the common options; their order here is that of the help."""
    return CommonOptions(
        workers=workers,
        granularity=granularity,
        orders=orders.strip(),
        hosts=parse_hosts(hosts, hostfile),
        transport=transport,
        json=json,
        trace=trace,
        tag_output=tag_output,
        verify=verify,
        repeat=repeat,
        rate=rate,
        slow_resizes=parse_slow_resizes(slow_resizes),
        statistics=statistics,
        quiet=quiet,
        on_scheduler_loss=on_scheduler_loss,
        debug=debug,
    )


def parse(module: str, arguments: Sequence[str]) -> Parsed:
    """Return the benchmark and the common options that ``arguments`` ask for.

    Raises:
        BadUsage: The arguments make no sense.
    """
    program = module.rpartition(".")[0]
    try:
        parsed = _click_command(module).main(list(arguments), prog_name=_spoken(program), standalone_mode=False)
    except _USAGE_ERROR as error:
        message = cast("Any", error).format_message()
        raise BadUsage(
            " ".join(message.split()), f"{program} cannot read its command line", f"see {_spoken(program)} --help"
        ) from None
    return cast("Parsed", parsed)


def show_help(module: str) -> None:
    """Print the help of the benchmark to standard output."""
    _click_command(module).main(["--help"], prog_name=_spoken(module.rpartition(".")[0]), standalone_mode=False)


def _spoken(program: str) -> str:
    return f"python -m {program}"


def _click_command(module: str) -> Any:  # click's Command, from whichever click typer brings along
    own: Callable[..., Benchmark[Any]] = importlib.import_module(module).command
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    app.command()(_with_common(own))
    return typer.main.get_command(app)


def _with_common(own: Callable[..., Benchmark[Any]]) -> Callable[..., Parsed]:
    """Return a command that has the parameters of ``own`` and the common ones."""
    own_names = set(inspect.signature(own).parameters)

    def both(**values: object) -> Parsed:
        options = _common(**{name: value for name, value in values.items() if name not in own_names})  # type: ignore[arg-type]  # by name
        options.check()
        return own(**{name: value for name, value in values.items() if name in own_names}), options

    parameters = [
        parameter.replace(annotation=get_type_hints(function, include_extras=True)[parameter.name])
        for function in (own, _common)
        for parameter in inspect.signature(function).parameters.values()
    ]
    both.__doc__ = as_called(own.__doc__)
    both.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # read by the option parser
        [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    )
    both.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return both
