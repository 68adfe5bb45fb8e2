"""The command ``python -m benchmarks.overheads``."""

from __future__ import annotations

import signal
import socket
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, cast

import typer
import typer.main

from benchmarks.harness import provenance
from benchmarks.harness.display import Display
from benchmarks.harness.errors import BadUsage, show_error
from benchmarks.harness.goals import OURS
from benchmarks.harness.result_file import ResultFile
from benchmarks.overheads import table
from benchmarks.overheads.catalogue import FLOORS, MEASURES, PEERS, Plan
from benchmarks.overheads.results import Results
from benchmarks.overheads.runner import Runner

_PROGRAM: Final = "python -m benchmarks.overheads"
_USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]
"""click's UsageError, whichever click typer brings along."""
_PACKAGES: Final = ("ray", "distributed")


def main(arguments: list[str]) -> int:
    """Measure what ``arguments`` ask for and show the table.

    Returns:
        The exit code: 0 measured (goals may be missed), 1 something of ours or of the floors could not be measured, 2
        bad usage, 128 + N ended by signal N.
    """
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    app.command()(_command)
    try:
        asked = typer.main.get_command(app).main(arguments, prog_name=_PROGRAM, standalone_mode=False)
        # after --help there is nothing to do, and click returns 0
        return _run(*asked) if isinstance(asked, tuple) else 0
    except BadUsage as error:
        show_error(error.culprit, error.why, error.remedy)
    except _USAGE_ERROR as error:
        message = " ".join(cast("Any", error).format_message().split())
        show_error(message, "benchmarks.overheads cannot read its command line", f"see {_PROGRAM} --help")
    return 2


def _command(
    rounds: Annotated[int, typer.Option(help="How often everybody is asked; medians are shown.")] = 5,
    measures: Annotated[str, typer.Option(help="What to measure, as a,b.", show_default=",".join(MEASURES))] = "",
    peers: Annotated[
        str | None, typer.Option(help="Which peers to measure beside us, as a,b.", show_default=",".join(PEERS))
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the result there.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> tuple[Plan, Path | None, bool]:
    """Measure what the runtime costs, beside the machine's floor and beside other runtimes.

    Example: python -m benchmarks.overheads --measures rtt,throughput
    """
    return plan(rounds, measures, ",".join(PEERS) if peers is None else peers), json, quiet


def plan(rounds: int, measures: str, peers: str) -> Plan:
    """Return the plan that the options ask for.

    Raises:
        BadUsage: There is no such measure or peer, or nothing to do.
    """
    if rounds < 1:
        raise BadUsage(f"--rounds {rounds}", "there must be at least 1 round", "give --rounds 1 or more")
    names = _chosen("--measures", measures, tuple(MEASURES)) or tuple(MEASURES)
    return Plan(tuple(MEASURES[name] for name in names), (OURS, *FLOORS, *_chosen("--peers", peers, PEERS)), rounds)


def _chosen(option: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in known:
            raise BadUsage(f"{option} {text}", f'there is no "{name}"', f"choose from {', '.join(known)}")
    return names


def _run(chosen: Plan, path: Path | None, quiet: bool) -> int:
    target = ResultFile(path)
    target.reserve()
    signals = {number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    steps = sum(len(chosen.steps(measure, measure.contenders)) for measure in chosen.measures)
    with Display(steps, quiet) as display:
        runner = Runner(chosen, display)
        try:
            runner.run()
        except _Interrupted as interrupt:
            display.__exit__(None, None, None)
            show_error("overheads: interrupted", f"{interrupt.by.name} came; every contender has been ended", "")
            return 128 + interrupt.by
        finally:
            for number, handler in signals.items():
                signal.signal(number, handler)
    return _report(runner.results, target, path)


def _report(results: Results, target: ResultFile, path: Path | None) -> int:
    found = provenance.gather([socket.gethostname()], None)
    versions = cast("dict[str, str]", found["versions"])
    versions |= {name: metadata.version(name) for name in _PACKAGES if _installed(name)}
    target.write(results.as_json(found))
    table.show(results, path)
    return 0 if results.complete else 1


def _installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


class _Interrupted(BaseException):
    def __init__(self, by: signal.Signals) -> None:
        super().__init__(by.name)
        self.by = by


def _interrupt(number: int, _: object) -> NoReturn:
    """End the run; from here on only the ending of the contenders is left, which is not to be interrupted."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise _Interrupted(signal.Signals(number))
