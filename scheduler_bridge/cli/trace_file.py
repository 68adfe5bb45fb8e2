"""Which jobs of which file a command takes: options that commands share, dates, and mistakes in three lines."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

import typer

from scheduler_bridge.cli.common import CliError

if TYPE_CHECKING:
    from scheduler_bridge.workloads import Workload

_DAY_S: Final = 86_400
START_OPTIONS: Final = ("--from", "--start")
"""The same under two names: a simulation starts, a file is cut."""

FromOption = Annotated[
    str | None,
    typer.Option(
        *START_OPTIONS,
        metavar="DATE|S",
        help="Only jobs submitted from then on, times counted so: a date (UTC), or seconds since the file's beginning.",
        show_default=False,
    ),
]
DaysOption = Annotated[
    float | None, typer.Option("--days", min=0, help="Only the jobs of so many days.", show_default=False)
]
NodesOption = Annotated[
    int | None, typer.Option("--nodes", min=1, help="Nodes of the machine.", show_default="as the file says")
]
ProcessorsOption = Annotated[
    int | None,
    typer.Option("--processors-per-node", min=1, help="SWF: processors of a node.", show_default="as the file says"),
]
PartitionOption = Annotated[list[int] | None, typer.Option("--partition", help="SWF: only this one; may be repeated.")]
StatusOption = Annotated[list[int] | None, typer.Option("--status", help="SWF: only jobs that ended so; repeatable.")]
CutOffOption = Annotated[
    bool, typer.Option("--keep-cut-off", help="Use the beginning of a compressed file that is cut off.")
]


def of_a_file(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command that is given the workload of a file, by options that this adds to its own.

    Args:
        command: Its first parameter is the workload.
    """
    own, given = _parameters(command)[1:], _parameters(_chosen)
    names = {parameter.name for parameter in own}

    def both(**values: Any) -> None:
        workload = _chosen(**{name: value for name, value in values.items() if name not in names})
        command(workload, **{name: value for name, value in values.items() if name in names})

    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*given, *own)]
    both.__name__ = command.__name__
    both.__doc__ = command.__doc__
    both.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by the option parser
    both.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return both


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Its parameters with their types, of which that of a workload is not needed at run time."""
    types = get_type_hints(function, None, {"Workload": object}, include_extras=True)
    return [each.replace(annotation=types[each.name]) for each in inspect.signature(function).parameters.values()]


def _chosen(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="SWF, CSV, JSON, TOML, packed or not; -: standard input.")
    ],
    nodes: NodesOption = None,
    processors_per_node: ProcessorsOption = None,
    partition: PartitionOption = None,
    status: StatusOption = None,
    begin: FromOption = None,
    days: DaysOption = None,
    keep_cut_off: CutOffOption = False,
) -> Workload:
    form = Form(nodes, processors_per_node, frozenset(partition or ()), frozenset(status or ()), keep_cut_off)
    return window(read(file, form), begin, days)


@dataclass(frozen=True)
class Form:
    """How a file is read; see ``SwfOptions``."""

    nodes: int | None = None
    processors_per_node: int | None = None
    partitions: frozenset[int] = frozenset()
    statuses: frozenset[int] = frozenset()
    keep_cut_off: bool = False


def read(file: Path, form: Form) -> Workload:
    """The workload of a file.

    Raises:
        CliError: It is refused.
    """
    from scheduler_bridge.workloads import SwfOptions, load

    return made(lambda: load(file, nodes=form.nodes, swf=SwfOptions(**asdict(form))))


def made(make: Callable[[], Workload]) -> Workload:
    """The workload that ``make`` reads.

    Raises:
        CliError: It is refused.
    """
    from scheduler_bridge.workloads import TraceError

    try:
        return make()
    except TraceError as error:
        raise CliError(str(error), error.why, error.hint) from None


def window(workload: Workload, begin: str | None, days: float | None) -> Workload:
    """The jobs from ``begin`` on, for so many days.

    Raises:
        CliError: The beginning is neither a date nor seconds, or no job is left.
    """
    if begin is None and days is None:
        return workload
    from_s = workload.jobs[0].submit_s if begin is None else _seconds(begin, workload.start_unix_s)
    cut = workload.window(from_s, from_s + days * _DAY_S if days is not None else float("inf"))
    if not cut.jobs:
        last_s = workload.jobs[-1].submit_s
        raise CliError("no job in this time", f"the last submission is at {last_s:.0f} s", "change --from or --days")
    return cut


def findings(workload: Workload) -> dict[str, Any]:
    """What its reader left out and what it kept though it is odd, as JSON shows it."""
    found = workload.findings
    return {
        "records": found.records,
        "skipped": {reason: asdict(finding) for reason, finding in found.skipped.items()},
        "kept": {reason: asdict(finding) for reason, finding in found.noted.items()},
        "lost_share": workload.lost_share,
    }


def _seconds(begin: str, start_unix_s: float | None) -> float:
    try:
        return float(begin)
    except ValueError:
        pass  # a date, then
    try:
        moment = datetime.fromisoformat(begin)
    except ValueError:
        raise CliError(
            f"--from {begin}: neither a date nor seconds", hint="for example: 2023-08-01, or 86400"
        ) from None
    if start_unix_s is None:
        raise CliError(f"--from {begin}: the file does not say when it begins", hint="give seconds since its beginning")
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - start_unix_s
