"""The command ``python -m benchmarks.overheads``."""

from __future__ import annotations

import socket
from importlib import metadata
from pathlib import Path
from typing import Annotated, Final, cast

import typer

from ..harness import measurement, measuring
from ..harness.errors import BadUsage
from ..harness.goals import OURS
from ..harness.measurement import ResultFile
from ..harness.measuring import Display
from .catalogue import FLOORS, MEASURES, PEERS, Plan
from .results import Results, show_results
from .runner import Runner

_PROGRAM: Final = f"python -m {__package__}"
_PACKAGES: Final = ("ray", "distributed")


def main(arguments: list[str]) -> int:
    """Measure what ``arguments`` ask for and show the table.

    Returns:
        The exit code: 0 measured (goals may be missed), 1 something of ours or of the floors could not be measured, 2
        bad usage, 128 + N ended by signal N.
    """
    return measuring.main(_PROGRAM, _command, arguments)


def _command(
    rounds: Annotated[int, typer.Option(help="How often everybody is asked; medians are shown.")] = 5,
    measures: Annotated[str, typer.Option(help="What to measure, as a,b.", show_default=",".join(MEASURES))] = "",
    peers: Annotated[
        str | None, typer.Option(help="Which peers to measure beside us, as a,b.", show_default=",".join(PEERS))
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the result there.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> measuring.Run:
    """Measure what the runtime costs, beside the machine's floor and beside other runtimes.

    Example: python -m benchmarks.overheads --measures rtt,throughput
    """
    asked = plan(rounds, measures, ",".join(PEERS) if peers is None else peers)
    return lambda: _run(asked, json, quiet)


def plan(rounds: int, measures: str, peers: str) -> Plan:
    """Return the plan that the options ask for.

    Raises:
        BadUsage: There is no such measure or peer, or nothing to do.
    """
    if rounds < 1:
        raise BadUsage(f"--rounds {rounds}", "there must be at least 1 round", "give --rounds 1 or more")
    names = measuring.chosen("--measures", measures, tuple(MEASURES)) or tuple(MEASURES)
    return Plan(
        tuple(MEASURES[name] for name in names), (OURS, *FLOORS, *measuring.chosen("--peers", peers, PEERS)), rounds
    )


def _run(chosen: Plan, path: Path | None, quiet: bool) -> int:
    target = ResultFile(path)
    target.reserve()
    steps = sum(len(chosen.steps(measure, measure.contenders)) for measure in chosen.measures)
    with measuring.interruptible(), Display(steps, quiet) as display:
        results = Runner(chosen, display).run()
    return _report(results, target, path)


def _report(results: Results, target: ResultFile, path: Path | None) -> int:
    found = measurement.gather_provenance([socket.gethostname()], None)
    versions = cast("dict[str, str]", found["versions"])
    versions |= {name: metadata.version(name) for name in _PACKAGES if _installed(name)}
    target.write(results.as_json(found))
    show_results(results, path)
    return 0 if results.complete else 1


def _installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True
