"""``malleable workload``: look at, clean, convert and generate workloads."""

from __future__ import annotations

import importlib
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scheduler_bridge.cli.common import JsonOption, print_json, print_rich
from scheduler_bridge.cli.errors import CliError

if TYPE_CHECKING:
    from scheduler_bridge.workloads import Findings, Workload

_DAY_S = 86_400

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help=".swf, .csv (both also .gz), .json or .toml.")]
OutputOption = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write SWF, also .swf.gz.")]
PngOption = Annotated[Path | None, typer.Option("--png", metavar="FILE", help="Write a picture.")]
NodesOption = Annotated[
    int | None, typer.Option("--nodes", min=1, help="Nodes of the machine.", show_default="as the file says")
]
PerNodeOption = Annotated[
    int | None,
    typer.Option("--processors-per-node", min=1, help="SWF: processors of a node.", show_default="as the file says"),
]
PartitionOption = Annotated[list[int] | None, typer.Option("--partition", help="SWF: only this one; may be repeated.")]
StatusOption = Annotated[list[int] | None, typer.Option("--status", help="SWF: only jobs that ended so; repeatable.")]
FromOption = Annotated[
    str | None, typer.Option("--from", metavar="DATE|S", help="Only jobs submitted from then on, times counted so.")
]
DaysOption = Annotated[float | None, typer.Option("--days", min=0, help="Only so many days.")]
CutOffOption = Annotated[
    bool, typer.Option("--keep-cut-off", help="Use the beginning of a compressed file that is cut off.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Determines what is drawn.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        no_args_is_help=True,
        help="Look at, clean, convert and generate workloads.\n\nExample: malleable workload generate lublin -o w.swf",
    )
    for command in (stats, clean, convert, generate):
        group.command()(command)
    group.command(name="top-up")(top_up)
    app.add_typer(group, name="workload")


def stats(
    file: FileArgument,
    nodes: NodesOption = None,
    processors_per_node: PerNodeOption = None,
    partition: PartitionOption = None,
    status: StatusOption = None,
    begin: FromOption = None,
    days: DaysOption = None,
    keep_cut_off: CutOffOption = False,
    png: PngOption = None,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a workload is like, and what was wrong with its records.

    Example: malleable workload stats theta.swf.gz --from 2023-08-01 --days 28 --png theta.png
    """
    workload = read(file, nodes, processors_per_node, partition, status, keep_cut_off)
    _show(window(workload, begin, days), png, output, as_json=as_json)


def clean(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Accounting files of one machine (.csv).")],
    output: OutputOption = None,
    nodes: NodesOption = None,
    keep_shared: Annotated[bool, typer.Option("--keep-shared", help="Keep jobs that shared their nodes.")] = False,
    keep_split: Annotated[bool, typer.Option("--keep-split", help="Do not merge records of one job.")] = False,
    begin: FromOption = None,
    days: DaysOption = None,
    keep_cut_off: CutOffOption = False,
    png: PngOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a workload of accounting files as the 2025 paper does: merge what was split, drop what shared nodes.

    Example: malleable workload clean cori/*.csv -o haswell.swf.gz
    """
    from scheduler_bridge.workloads import Cleaning, read_clean_csv

    cleaning = Cleaning(nodes=nodes, drop_shared=not keep_shared, merge_split=not keep_split)
    workload = _told(lambda: read_clean_csv(files, cleaning, keep_cut_off=keep_cut_off))
    _show(window(workload, begin, days), png, output, as_json=as_json)


def convert(
    file: FileArgument,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Write SWF, also .swf.gz.")],
    malleable: Annotated[float, typer.Option("--malleable", min=0, max=1, help="Share of the rigid jobs.")] = 1.0,
    seed: SeedOption = 0,
    rule: Annotated[
        str, typer.Option("--rule", metavar="amdahl|mebf-high|mebf-medium|mebf-low", help="Gives the bounds.")
    ] = "amdahl",
    nodes: NodesOption = None,
    processors_per_node: PerNodeOption = None,
    partition: PartitionOption = None,
    status: StatusOption = None,
    begin: FromOption = None,
    days: DaysOption = None,
    keep_cut_off: CutOffOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make a share of the jobs malleable.

    Example: malleable workload convert theta.swf.gz --malleable 0.6 --seed 1 -o theta-60.swf
    """
    from scheduler_bridge.workloads import RULES
    from scheduler_bridge.workloads import convert as make_malleable

    if rule not in RULES:
        raise CliError(f"--rule {rule}: unknown", f"rules are {', '.join(RULES)}", "choose one of them")
    workload = window(read(file, nodes, processors_per_node, partition, status, keep_cut_off), begin, days)
    _show(make_malleable(workload, malleable, seed, RULES[rule]), None, output, as_json=as_json)


def generate(
    name: Annotated[str | None, typer.Argument(help="A generator.", show_default="list them")] = None,
    seed: SeedOption = 0,
    option: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option of the generator; repeatable.")
    ] = None,
    output: OutputOption = None,
    png: PngOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw a workload from a published model; it is marked as synthetic.

    Example: malleable workload generate lublin --seed 1 --set jobs=10000 --set load=0.8 -o lublin.swf
    """
    generators = _generators()
    if name is None:
        _list(generators.RECIPES, as_json=as_json)
        return
    options: dict[str, Any] = {}
    for text in option or []:
        key, equals, value = text.partition("=")
        known = generators.RECIPES[name].options if name in generators.RECIPES else {}
        if not equals:
            raise CliError(f"--set {text}: no value", "options are set as NAME=VALUE", "for example: --set jobs=100")
        options[key] = _typed(text, value, known.get(key, ""))
    try:
        workload = generators.generate(name, seed, **options)
    except ValueError as error:
        raise CliError(str(error), hint="malleable workload generate lists generators and options") from None
    _show(workload, png, output, as_json=as_json)


def top_up(
    file: FileArgument,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Write SWF, also .swf.gz.")],
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="How many there are then.")] = 2550,
    seed: SeedOption = 0,
    nodes: NodesOption = None,
    begin: FromOption = None,
    days: DaysOption = None,
    png: PngOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add the small jobs that the public trace of Theta lacks of the 2025 paper's; they are marked as synthetic.

    Example: malleable workload top-up theta.swf.gz --from 2023-08-01 --days 28 -o theta-full.swf
    """
    generators = _generators()
    real = window(read(file, nodes), begin, days)
    try:
        full = generators.top_up_theta(real, seed=seed, jobs=jobs)
    except ValueError as error:
        raise CliError(str(error), hint="give more --jobs, or fewer --days") from None
    _show(full, png, output, as_json=as_json)


def _generators() -> ModuleType:
    try:
        return importlib.import_module("scheduler_bridge.workloads.generate")
    except ModuleNotFoundError as error:
        hint = 'pip install "malleable-apgas[workloads]"'
        raise CliError(f"{error.name} is not installed", "generators need it", hint) from None


def _typed(text: str, value: str, default: object) -> object:
    try:
        match default:
            case bool():
                return {"true": True, "false": False}[value.lower()]
            case int():
                return int(value)
            case float():
                return float(value)
            case _:
                return value
    except (KeyError, ValueError):
        kind = {bool: "true or false", int: "a whole number"}.get(type(default), "a number")
        raise CliError(f"--set {text}: not {kind}", hint=f"for example: {default!r}") from None


def read(
    file: Path,
    nodes: int | None = None,
    processors_per_node: int | None = None,
    partitions: list[int] | None = None,
    statuses: list[int] | None = None,
    keep_cut_off: bool = False,
) -> Workload:
    """Read a workload.

    Raises:
        CliError: It is refused.
    """
    from scheduler_bridge.workloads import SwfOptions, load

    options = SwfOptions(
        nodes=nodes,
        processors_per_node=processors_per_node,
        partitions=frozenset(partitions or ()),
        statuses=frozenset(statuses or ()),
        keep_cut_off=keep_cut_off,
    )
    return _told(lambda: load(file, nodes=nodes, swf=options))


def _told(make: Any) -> Workload:
    from scheduler_bridge.workloads import TraceError, Workload

    try:
        workload = make()
    except TraceError as error:
        raise CliError(str(error), error.why, error.hint) from None
    assert isinstance(workload, Workload)
    return workload


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


def _seconds(begin: str, start_unix_s: float | None) -> float:
    try:
        return float(begin)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(begin)
    except ValueError:
        raise CliError(
            f"--from {begin}: neither a date nor seconds", hint="for example: 2023-08-01, or 86400"
        ) from None
    if start_unix_s is None:
        raise CliError(f"--from {begin}: the file does not say when it begins", hint="give seconds since its beginning")
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - start_unix_s


def _show(workload: Workload, png: Path | None, output: Path | None, *, as_json: bool) -> None:
    from scheduler_bridge.workloads import write_swf
    from scheduler_bridge.workloads.statistics import describe_workload

    numbers = describe_workload(workload)
    if output is not None:
        write_swf(workload, output)
    if png is not None:
        from scheduler_bridge.report.workload_picture import write_workload_png

        write_workload_png(workload, png)
    if as_json:
        print_json({**asdict(numbers), "findings": _findings(workload.findings)})
        return
    from scheduler_bridge.report.workload_tables import findings_table, numbers_table, remarks

    print_rich(numbers_table(numbers))
    for line in remarks(numbers):
        typer.echo(line)
    if workload.findings.skipped or workload.findings.noted:
        print_rich(findings_table(workload))
    for path in (output, png):
        if path is not None:
            typer.echo(f"written: {path}")


def _findings(findings: Findings) -> dict[str, Any]:
    return {"records": findings.records, "skipped": _plain(findings.skipped), "kept": _plain(findings.noted)}


def _plain(found: dict[str, Any]) -> dict[str, Any]:
    return {reason: asdict(finding) for reason, finding in found.items()}


def _list(recipes: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                name: {"summary": item.summary, "source": item.source, "options": dict(item.options)}
                for name, item in recipes.items()
            }
        )
        return
    from scheduler_bridge.report.workload_tables import recipes_table

    print_rich(recipes_table(recipes))
