"""Benchmark and CommonOptions, the description of a run for the harness; the command line (typer) becomes these."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeAlias, TypeVar, cast, get_type_hints

import typer
import typer.main

from scheduler_bridge.cli.common import flattened

from .errors import BadUsage
from .options import (
    check_efficiency,
    check_orders,
    check_scheduler_loss,
    check_transport,
    parse_hosts,
    parse_slow_resizes,
)

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
    warm_up: Callable[[], object]
    static: bool = False
    default_granularity: int | None = None
    known: Callable[[], object | None] = lambda: None
    rule: str = ""
    noun: str = ""
    verify: Callable[[R], tuple[bool, str]] | None = None
    publish: Callable[[R], Sequence[tuple[str, str]]] = lambda _: ()


# The options that all benchmarks have -------------------------------------------------------------------------------


def _option(text: str, *names: str, **others: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="Common options", **others)


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """How a benchmark is run, whichever it is; the order of the fields is that of the help.

    The runtime takes ``transport``, ``on_scheduler_loss`` and ``tag_output`` from the environment, where ``app`` puts
    them.
    """

    workers: Annotated[int | None, _option("Computing threads per place.", show_default="cores / places")] = None
    granularity: Annotated[
        int | None, _option("Tasks between two looks at the work of others.", show_default="auto")
    ] = None
    orders: Annotated[
        str, _option('Resizes without a scheduler, as "SECONDS:+N,SECONDS:-N", and "SECONDS:workers=N".')
    ] = ""
    target_efficiency: Annotated[
        float | None,
        _option(
            "Let the job ask for nodes and give some back, so that this share of their time goes into work, like 0.9.",
            show_default="keeps its size",
        ),
    ] = None
    max_nodes: Annotated[
        int | None,
        _option("The most nodes that it asks for.", show_default="what a scheduler grants; else one for each core"),
    ] = None
    hosts: Annotated[str | None, _option("Hosts of added places, as a,b.", show_default="this host")] = None
    hostfile: Annotated[Path | None, _option("The same as a file, one host a line.")] = None
    transport: Annotated[str, _option("How places talk: tcp or mpi.", envvar="APGAS_TRANSPORT")] = "tcp"
    json: Annotated[Path | None, _option("Write the result there.")] = None
    trace: Annotated[Path | None, _option("Write a timeline of all places there, for Perfetto.")] = None
    verify: Annotated[bool, _option("Check against a sequential run.", "--verify")] = False
    repeat: Annotated[int, _option("How often to compute.")] = 1
    rate: Annotated[float | None, _option("Tasks/s that a worker is held to.", show_default="no limit")] = None
    slow_resizes: Annotated[
        str, _option('Seconds added to each grow and each shrink, as "0.5,1.2".', show_default="none")
    ] = ""
    statistics: Annotated[bool, _option("Show what each place did.", "--statistics")] = False
    quiet: Annotated[bool, _option("No progress, no table.", "--quiet")] = False
    on_scheduler_loss: Annotated[str, _option("end, or reconnect:SECONDS.")] = "end"
    tag_output: Annotated[bool, _option("Put the place before each printed line.", "--tag-output")] = False
    debug: Annotated[bool, _option("Show tracebacks.", "--debug")] = False

    @cached_property  # the file may be a pipe
    def places_go_to(self) -> tuple[str, ...]:
        """Where added places go, one per name, in turn; empty: this host."""
        return parse_hosts(self.hosts, self.hostfile)

    @property
    def added_s(self) -> tuple[float, float] | None:
        """Seconds added to each grow and each shrink; None: they take what they take."""
        return parse_slow_resizes(self.slow_resizes)

    def check(self) -> None:
        """Raise ``BadUsage`` if an option has an impossible value."""
        for name, value in (("workers", self.workers), ("granularity", self.granularity), ("repeat", self.repeat)):
            if value is not None and value < 1:
                raise BadUsage(f"--{name} {value}", f"{name} must be at least 1", f"give --{name} 1 or more")
        if self.rate is not None and not (math.isfinite(self.rate) and self.rate > 0):
            raise BadUsage(
                f"--rate {self.rate:g}",
                "the rate of a worker is a positive number of tasks per second",
                "give a positive --rate, or leave it out for full speed",
            )
        _ = self.places_go_to, self.added_s
        check_efficiency(self.target_efficiency, self.max_nodes)
        check_transport(self.transport)
        check_orders(self.orders)
        check_scheduler_loss(self.on_scheduler_loss)


# From the command line to both ---------------------------------------------------------------------------------------

Parsed: TypeAlias = tuple[Benchmark[Any], CommonOptions]
_USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]
"""click's UsageError, whichever click typer brings along."""
_BENCHMARKS = __package__.rpartition(".")[0]
"""By what name this process knows them: that of the checkout's folder, or the installed one."""


def parse(module: str, arguments: Sequence[str]) -> Parsed:
    """Return the benchmark and the common options that ``arguments`` ask for.

    Raises:
        BadUsage: The arguments make no sense.
    """
    own = importlib.import_module(module).command

    def both(options: CommonOptions, **values: object) -> Parsed:
        options.check()
        return own(**values), options

    types = {**get_type_hints(own, include_extras=True), "options": CommonOptions}
    parameters = [*inspect.signature(own).parameters.values(), *inspect.signature(both).parameters.values()]
    both.__doc__, both.__annotations__ = own.__doc__, types
    both.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # read below
        [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters if each.name in types]
    )
    return cast("Parsed", call(both, f"python -m {module.rpartition('.')[0]}", arguments))


def call(function: Callable[..., object], program: str, arguments: Sequence[str]) -> object:
    """Call ``function``, whose parameters stand for the options; return what it does, or 0 after ``--help``.

    Its docstring is the help. ``program`` is how the command is called, its name last.

    Raises:
        BadUsage: The arguments make no sense.
    """
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    text = (inspect.getdoc(function) or "").replace("python -m benchmarks.", f"python -m {_BENCHMARKS}.")
    app.command(help=text)(flattened(function))
    try:
        return typer.main.get_command(app).main(list(arguments), prog_name=program, standalone_mode=False)
    except _USAGE_ERROR as error:
        message = " ".join(cast("Any", error).format_message().split())
        name = program.rpartition(" ")[2]
        raise BadUsage(message, f"{name} cannot read its command line", f"see {program} --help") from None
