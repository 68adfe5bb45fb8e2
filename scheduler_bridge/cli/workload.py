"""``malleable workload``: look at, clean, convert and generate workloads."""

from __future__ import annotations

import importlib
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scheduler_bridge.cli.common import (
    PICTURES,
    WORKLOADS,
    CliError,
    Commands,
    JsonOption,
    expect_file,
    print_json,
    print_rich,
)
from scheduler_bridge.cli.conversion import EvolvingOption, RuleOption, converted
from scheduler_bridge.cli.trace_file import (
    CutOffOption,
    DaysOption,
    FromOption,
    NodesOption,
    findings,
    made,
    of_a_file,
    window,
)

if TYPE_CHECKING:
    from scheduler_bridge.workloads import Workload

OutputOption = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write SWF, also .swf.gz.")]
PngOption = Annotated[Path | None, typer.Option("--png", metavar="FILE", help="Write a picture.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Determines what is drawn.")]


workload = Commands(
    no_args_is_help=True,
    help="Look at, clean, convert and generate workloads.\n\nExample: malleable workload generate lublin -o w.swf",
)


@workload.command()
@of_a_file
def stats(workload: Workload, png: PngOption = None, output: OutputOption = None, as_json: JsonOption = False) -> None:
    """Show what a workload is like, and what was wrong with its records.

    Example: malleable workload stats theta.swf.gz --from 2023-08-01 --days 28 --png theta.png
    """
    _show(workload, png, output, as_json=as_json)


@workload.command()
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
    from scheduler_bridge.workloads.cleaning import Cleaning, read_clean_csv

    cleaning = Cleaning(nodes=nodes, drop_shared=not keep_shared, merge_split=not keep_split)
    workload = made(lambda: read_clean_csv(files, cleaning, keep_cut_off=keep_cut_off))
    _show(window(workload, begin, days), png, output, as_json=as_json)


@workload.command()
@of_a_file
def convert(
    workload: Workload,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Write SWF, also .swf.gz.")],
    malleable: Annotated[float, typer.Option("--malleable", min=0, max=1, help="Share of the rigid jobs.")] = 1.0,
    seed: SeedOption = 0,
    rule: RuleOption = "amdahl",
    evolving: EvolvingOption = 0.0,
    png: PngOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a share of the jobs malleable, and of these some evolving.

    Example: malleable workload convert theta.swf.gz --malleable 0.6 --seed 1 -o theta-60.swf
    """
    _show(converted(workload, malleable, rule, evolving, seed), png, output, as_json=as_json)


@workload.command()
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


@workload.command("top-up")
@of_a_file
def top_up(
    workload: Workload,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Write SWF, also .swf.gz.")],
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="How many there are then.")] = 2550,
    seed: SeedOption = 0,
    png: PngOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add the small jobs that the public trace of Theta lacks of the 2025 paper's; they are marked as synthetic.

    Example: malleable workload top-up theta.swf.gz --from 2023-08-01 --days 28 -o theta-full.swf
    """
    try:
        full = _generators().top_up_theta(workload, seed=seed, jobs=jobs)
    except ValueError as error:
        raise CliError(str(error), hint="see --jobs, --days and --nodes") from None
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


def _show(workload: Workload, png: Path | None, output: Path | None, *, as_json: bool) -> None:
    from scheduler_bridge.workloads import write_swf
    from scheduler_bridge.workloads.statistics import describe_workload

    expect_file("--output", output, WORKLOADS)
    expect_file("--png", png, PICTURES)
    numbers = describe_workload(workload)
    if output is not None:
        write_swf(workload, output)
    if png is not None:
        from scheduler_bridge.report.workload_picture import write_workload_png

        write_workload_png(workload, png)
    if as_json:
        print_json({**asdict(numbers), "findings": findings(workload)})
        return
    from scheduler_bridge.report.tables import findings_table, numbers_table, remarks

    print_rich(numbers_table(numbers))
    for line in remarks(numbers):
        typer.echo(line)
    if workload.findings.skipped or workload.findings.noted:
        print_rich(findings_table(workload))
    for path in (output, png):
        if path is not None:
            typer.echo(f"written: {path}")


def _list(recipes: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                name: {"summary": item.summary, "source": item.source, "options": dict(item.options)}
                for name, item in recipes.items()
            }
        )
        return
    from scheduler_bridge.report.tables import recipes_table

    print_rich(recipes_table(recipes))
