"""The command ``python -m benchmarks.balance``."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated, Final

import typer

from ..harness import measurement, measuring
from ..harness.errors import BadUsage
from ..harness.measurement import ResultFile
from ..harness.measuring import Display
from ..uts.tree import MAX_DEPTH
from .catalogue import MEASURES
from .results import show_results
from .runner import Runner

_PROGRAM: Final = f"python -m {__package__}"
MAX_NAP_S: Final = 10.0


def main(arguments: list[str]) -> int:
    """Measure what ``arguments`` ask for and show the table.

    Returns:
        The exit code: 0 measured (goals may be missed), 1 something could not be measured, 2 bad usage, 128 + N ended
        by signal N.
    """
    return measuring.main(_PROGRAM, _command, arguments)


def _command(
    rounds: Annotated[int, typer.Option(help="How often everything is measured; medians are shown.")] = 5,
    measures: Annotated[str, typer.Option(help="What to measure, as a,b.", show_default=",".join(MEASURES))] = "",
    depth: Annotated[int, typer.Option(help="Depth of the UTS tree that is searched.")] = 15,
    nap: Annotated[float, typer.Option(help="Seconds of a long task, which sleeps.")] = 2.0,
    json: Annotated[Path | None, typer.Option(help="Write the result there.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> measuring.Run:
    """Measure what balancing costs: the balancer's rates beside those of the bare kernel.

    Example: python -m benchmarks.balance --measures one,workers
    """
    if rounds < 1:
        raise BadUsage(f"--rounds {rounds}", "there must be at least 1 round", "give --rounds 1 or more")
    if not 1 <= depth <= MAX_DEPTH:
        raise BadUsage(f"--depth {depth}", f"a tree has 1 to {MAX_DEPTH} levels", "give another --depth")
    if not 0 < nap <= MAX_NAP_S:
        raise BadUsage(f"--nap {nap:g}", f"a nap lasts up to {MAX_NAP_S:g} s", "give another --nap")
    names = measuring.chosen("--measures", measures, tuple(MEASURES)) or tuple(MEASURES)

    def run() -> int:
        target = ResultFile(json)
        target.reserve()
        with measuring.interruptible(), Display(rounds * len(names), quiet) as display:
            results = Runner([MEASURES[name] for name in names], rounds, depth, nap, display).run()
        target.write(results.as_json(measurement.gather_provenance([socket.gethostname()], None)))
        show_results(results, json)
        return 1 if results.failures else 0

    return run
