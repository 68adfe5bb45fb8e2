"""``malleable workload``, and which jobs of which file commands take, and what these become."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import typer

from scheduler_bridge.cli.common import CliError, Commands, Outcome, expect_finite
from scheduler_bridge.cli.inputs import PICTURES, WORKLOADS, expect_file
from scheduler_bridge.cli.options import described, option

if TYPE_CHECKING:
    from rich.console import RenderableType

    from scheduler_bridge.workloads import Workload
    from scheduler_bridge.workloads.workload import WorkloadStatistics

_DAY_S: Final = 86_400
_BEGIN: Final = "--from/--start"
"""The option by its two names: which of them was given is not known."""
WorkloadOption = Annotated[
    Path,
    described("--workload", "Jobs: SWF, CSV, JSON, TOML, packed or not; -: standard input.", "FILE"),
]
WarmupOption = Annotated[
    float | None,
    described(
        "--warmup", "Leave the first hours, and what follows the last submission, out of the figures.", "HOURS", min=0
    ),
]
FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="SWF, CSV, JSON, TOML, packed or not; -: standard input.")
]
OutputOption = Annotated[Path | None, described("-o --output", "Write SWF, also .swf.gz.", "FILE")]
TargetOption = Annotated[Path, described("-o --output", "Write SWF, also .swf.gz.", "FILE")]
PngOption = Annotated[Path | None, described("--png", "Write a picture.", "FILE")]
SeedOption = Annotated[int, described("--seed", "Determines what is drawn.", min=0)]
RuleOption = Annotated[
    str,
    described("--rule", "Which bounds malleable jobs get: amdahl, amdahl-logs, or mebf-high, -medium, -low.", "RULE"),
]
EvolvingOption = Annotated[
    float,
    described(
        "--evolving",
        "Let this share of the malleable jobs offer nodes while they run, and ask for them again.",
        min=0,
        max=1,
    ),
]
MalleableOption = Annotated[
    float, described("--malleable", "Make this share of the rigid jobs malleable.", min=0, max=1)
]


@dataclass(frozen=True, kw_only=True)
class WindowOptions:
    """Which part of a file is taken, and for how large a machine."""

    PANEL: ClassVar = "Workload"

    nodes: int | None = option(None, "--nodes", "Nodes of the machine.", min=1, show_default="as the file says")
    begin: str | None = option(
        None,
        "--from --start",
        "Only jobs submitted from then on, times counted so: a date (UTC), or seconds since the file's beginning.",
        "DATE|S",
    )
    days: float | None = option(None, "--days", "Only the jobs of this many days.", min=0)
    keep_cut_off: bool = option(False, "--keep-cut-off", "Use the beginning of a compressed file that is cut off.")

    def cut(self, workload: Workload) -> Workload:
        """The jobs from the beginning on that is asked for, for as many days as are asked for."""
        if self.begin is None and self.days is None:
            return workload
        from_s = workload.jobs[0].submit_s if self.begin is None else _seconds(self.begin, workload.start_unix_s)
        cut = workload.window(from_s, from_s + self.days * _DAY_S if self.days is not None else float("inf"))
        if not cut.jobs:
            last_s = workload.jobs[-1].submit_s
            raise CliError(
                "no job in this time", f"the last submission is at {last_s:.0f} s", f"change {_BEGIN} or --days"
            )
        return cut


@dataclass(frozen=True, kw_only=True)
class TraceOptions(WindowOptions):
    """How a file is read, and which part of it is taken; see ``SwfOptions``."""

    processors_per_node: int | None = option(
        None, "--processors-per-node", "SWF: processors of a node.", min=1, show_default="as the file says"
    )
    partitions: list[int] = option([], "--partition", "SWF: only this one; may be repeated.")
    statuses: list[int] = option([], "--status", "SWF: only jobs that ended so; repeatable.")

    def read(self, file: Path) -> Workload:
        """The workload of a file, or the part of it that is asked for."""
        from scheduler_bridge.workloads import SwfOptions, load

        swf = SwfOptions(
            nodes=self.nodes,
            processors_per_node=self.processors_per_node,
            partitions=frozenset(self.partitions),
            statuses=frozenset(self.statuses),
            keep_cut_off=self.keep_cut_off,
        )
        return self.cut(load(file, nodes=self.nodes, swf=swf))


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """Which jobs become malleable, and evolving."""

    PANEL: ClassVar = "Workload"

    malleable: MalleableOption = 1.0
    rule: RuleOption = "amdahl"
    evolving: EvolvingOption = 0.0
    target_efficiency: float | None = option(
        None,
        "--target-efficiency",
        "Have evolving jobs size themselves to hold this efficiency; without --evolving all malleable ones.",
        show_default="they ask for drawn numbers",
    )
    seed: SeedOption = 0

    def converted(self, workload: Workload) -> Workload:
        """Make a share of the rigid jobs malleable, then a share of the malleable ones evolving."""
        from scheduler_bridge.workloads import RULES, convert, make_evolving

        if self.rule not in RULES:
            raise CliError(f"--rule {self.rule}: no such rule", f"there are {', '.join(RULES)}", "choose one of them")
        if self.malleable:
            workload = convert(workload, self.malleable, self.seed, RULES[self.rule])
        target = self.target_efficiency
        if not self.evolving and target is None:
            return workload
        option = f"--evolving {self.evolving}" if target is None else f"--target-efficiency {target:g}"
        if target is not None and not 0 < target < 1:
            raise CliError(f"{option}: no job can hold it", "it is a share of the nodes' time", "give one like 0.9")
        if not any(job.is_malleable for job in workload.jobs):
            raise CliError(f"{option}: no job is malleable", hint="give --malleable, too")
        return make_evolving(workload, self.evolving or 1.0, self.seed, target)


def _seconds(begin: str, start_unix_s: float | None) -> float:
    with contextlib.suppress(ValueError):  # a date, then
        return expect_finite(_BEGIN, float(begin))
    try:
        moment = datetime.fromisoformat(begin)
    except ValueError:
        raise CliError(
            f"{_BEGIN} {begin}: neither a date nor seconds", hint="for example: 2023-08-01, or 86400"
        ) from None
    if start_unix_s is None:
        raise CliError(
            f"{_BEGIN} {begin}: the file does not say when it begins", hint="give seconds since its beginning"
        )
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - start_unix_s


def findings(workload: Workload) -> dict[str, Any]:
    """What its reader left out and what it kept though it is odd, as JSON shows it."""
    found = workload.findings
    return {
        "records": found.records,
        "skipped": {reason: asdict(finding) for reason, finding in found.skipped.items()},
        "kept": {reason: asdict(finding) for reason, finding in found.noted.items()},
        "lost_share": workload.lost_share,
    }


# ``malleable workload``: look at, clean, convert and generate workloads -----------------------------------------------

workload = Commands(
    no_args_is_help=True,
    help="Look at, clean, convert and generate workloads.\n\nExample: malleable workload generate lublin -o w.swf",
)


@workload.command()
def stats(
    file: FileArgument,
    trace: TraceOptions,
    png: PngOption = None,
    output: OutputOption = None,
) -> Outcome:
    """Show what a workload is like, and what was wrong with its records.

    Example: malleable workload stats theta.swf.gz --from 2023-08-01 --days 28 --png theta.png
    """
    return _written(trace.read(file), png, output, [file])


@workload.command()
def clean(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Accounting files of one machine (.csv).")],
    part: WindowOptions,
    output: OutputOption = None,
    keep_shared: bool = option(False, "--keep-shared", "Keep jobs that shared their nodes."),
    keep_split: bool = option(False, "--keep-split", "Do not merge records of one job."),
    png: PngOption = None,
) -> Outcome:
    """Make a workload of accounting files as the 2025 paper does: merge what was split, drop what shared nodes.

    Example: malleable workload clean cori/*.csv -o haswell.swf.gz
    """
    from scheduler_bridge.workloads.accounting import read_clean_csv

    workload = read_clean_csv(
        files,
        nodes=part.nodes,
        merge_split=not keep_split,
        drop_shared=not keep_shared,
        keep_cut_off=part.keep_cut_off,
    )
    return _written(part.cut(workload), png, output, files)


@workload.command()
def convert(
    file: FileArgument,
    output: TargetOption,
    trace: TraceOptions,
    conversion: Conversion,
    png: PngOption = None,
) -> Outcome:
    """Make a share of the jobs malleable, and of these some evolving.

    Example: malleable workload convert theta.swf.gz --malleable 0.6 --seed 1 -o theta-60.swf
    """
    return _written(conversion.converted(trace.read(file)), png, output, [file])


@workload.command()
def generate(
    name: Annotated[str | None, typer.Argument(help="A generator.", show_default="list them")] = None,
    seed: SeedOption = 0,
    assigned: list[str] | None = option(None, "--set", "An option of the generator; repeatable.", "NAME=VALUE"),
    output: OutputOption = None,
    png: PngOption = None,
) -> Outcome:
    """Draw a workload from a published model; it is marked as synthetic.

    Example: malleable workload generate lublin --seed 1 --set jobs=10000 --set load=0.8 -o lublin.swf
    """
    generators = _generators()
    if name is None:
        return _recipes(generators.RECIPES)
    settings: dict[str, Any] = {}
    for text in assigned or []:
        key, equals, value = text.partition("=")
        known = generators.RECIPES[name].options if name in generators.RECIPES else {}
        if not equals:
            raise CliError(f"--set {text}: no value", "options are set as NAME=VALUE", "for example: --set jobs=100")
        settings[key] = _typed(text, value, known.get(key, ""))
    try:
        workload = generators.generate(name, seed, **settings)
    except ValueError as error:
        raise CliError(str(error), hint="malleable workload generate lists generators and options") from None
    return _written(workload, png, output, [])


@workload.command("top-up")
def top_up(
    file: FileArgument,
    output: TargetOption,
    trace: TraceOptions,
    jobs: int = option(2550, "--jobs", "How many there are then.", min=1),
    seed: SeedOption = 0,
    png: PngOption = None,
) -> Outcome:
    """Add the small jobs that the public trace of Theta lacks of the 2025 paper's; they are marked as synthetic.

    Example: malleable workload top-up theta.swf.gz --from 2023-08-01 --days 28 -o theta-full.swf
    """
    try:
        full = _generators().top_up_theta(trace.read(file), seed=seed, jobs=jobs)
    except ValueError as error:
        raise CliError(str(error), hint="see --jobs, --days and --nodes") from None
    return _written(full, png, output, [file])


def _generators() -> ModuleType:
    try:
        return importlib.import_module("scheduler_bridge.workloads.generate")
    except ModuleNotFoundError as error:
        hint = 'pip install "malleable-apgas[workloads]"'
        raise CliError(f"{error.name} is not installed", "generators need it", hint) from None


def _typed(text: str, value: str, default: Any) -> object:
    try:
        return {"true": True, "false": False}[value.lower()] if isinstance(default, bool) else type(default)(value)
    except (KeyError, ValueError):
        kind = {bool: "true or false", int: "a whole number"}.get(type(default), "a number")
        raise CliError(f"--set {text}: not {kind}", hint=f"for example: {default!r}") from None


def _written(workload: Workload, png: Path | None, output: Path | None, inputs: Sequence[Path]) -> Outcome:
    """Write a workload and its picture, as far as they are asked for; the outcome is what it is like."""
    from scheduler_bridge.workloads import write_swf
    from scheduler_bridge.workloads.workload import describe_workload

    expect_file("--output", output, WORKLOADS, inputs=inputs)
    expect_file("--png", png, PICTURES, inputs=inputs)
    numbers = describe_workload(workload)
    if output is not None:
        write_swf(workload, output)
    if png is not None:
        from scheduler_bridge.report.charts import write_png
        from scheduler_bridge.report.workload_picture import draw_workload

        write_png(draw_workload(workload), png)
    document = {**asdict(numbers), "findings": findings(workload)}
    return Outcome(document, _shown(workload, numbers, [path for path in (output, png) if path is not None]))


def _shown(workload: Workload, numbers: WorkloadStatistics, written: list[Path]) -> Iterator[RenderableType]:
    from scheduler_bridge.report.tables import findings_table, numbers_table, remarks

    yield numbers_table(numbers)
    yield from remarks(numbers)
    if workload.findings.skipped or workload.findings.noted:
        yield findings_table(workload)
    yield from (f"written: {path}" for path in written)


def _recipes(recipes: Any) -> Outcome:
    from scheduler_bridge.report.tables import sources_table

    document = {
        name: {"summary": item.summary, "source": item.source, "options": dict(item.options)}
        for name, item in recipes.items()
    }
    heads = "GENERATOR", "WHAT IT DRAWS, AND FROM WHERE IT IS"
    rows = ((name, item.summary, item.options, item.source) for name, item in recipes.items())
    return Outcome(document, [sources_table(*heads, settings="options", rows=rows)])
