"""The command ``python -m benchmarks.scaling``."""

from __future__ import annotations

import socket
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from ..harness import measurement, measuring, pictures
from ..harness.errors import BadUsage
from ..harness.measurement import ResultFile
from ..harness.measuring import Display
from . import catalogue
from .catalogue import LEAST_S, MOST_SHARE, NODES, PROGRAMS, QUICK_LEAST_S, QUICK_NODES
from .results import draw_figure, show_results
from .runner import Plan, Runner

PROGRAM: Final = f"python -m {__package__}"
_MOST_NODES: Final = 64


def main(arguments: list[str]) -> int:
    """Measure what ``arguments`` ask for and show the table.

    Returns:
        The exit code: 0 measured, 1 a benchmark failed or was wrong, 2 bad usage, 128 + N ended by signal N.
    """
    return measuring.main(PROGRAM, _command, arguments)


def _command(
    benchmarks: Annotated[str, typer.Option(help="Which benchmarks, as a,b.", show_default=",".join(PROGRAMS))] = "",
    nodes: Annotated[
        str, typer.Option(help="On how many emulated nodes, as 1,2.", show_default=",".join(map(str, NODES)))
    ] = "",
    rounds: Annotated[int, typer.Option(help="How often; medians are shown.")] = 1,
    share: Annotated[float, typer.Option(help="How much of the cores the nodes may use in all.")] = MOST_SHARE,
    quick: Annotated[bool, typer.Option("--quick", help="Small problems on 1 and 4 nodes: a look.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write the result there.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the times there, as PNG, SVG or PDF.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> measuring.Run:
    """Run every benchmark on 1 to 16 emulated nodes of this machine, and compare with one node.

    Simulate many more: python -m benchmarks.scaling model --help

    What balancing costs beside bare kernels: python -m benchmarks.scaling balance --help

    Example: python -m benchmarks.scaling --benchmarks uts,pi --figure scaling.png
    """
    if rounds < 1:
        raise BadUsage(f"--rounds {rounds}", "there must be at least 1 round", "give --rounds 1 or more")
    if not 0 < share <= MOST_SHARE:
        raise BadUsage(
            f"--share {share:g}",
            f"the nodes together may use up to {MOST_SHARE:g} of the cores, or they would not be emulated honestly",
            f"give --share {MOST_SHARE:g} or less",
        )
    pictures.check_picture(figure)
    names = measuring.chosen("--benchmarks", benchmarks, tuple(PROGRAMS)) or tuple(PROGRAMS)
    counts = parse_nodes(nodes) if nodes.strip() else QUICK_NODES if quick else NODES
    least_s = QUICK_LEAST_S if quick else LEAST_S
    plan = Plan(tuple(PROGRAMS[name] for name in names), counts, rounds, share, least_s, quick)
    return partial(_run, plan, json, figure, quiet)


def parse_nodes(text: str) -> tuple[int, ...]:
    """Return the numbers of nodes, ascending; 1 is always among them.

    Raises:
        BadUsage: They are no such numbers.
    """
    try:
        counts = {int(part) for part in text.split(",")}
    except ValueError:
        counts = {0}
    if min(counts) < 1 or max(counts) > _MOST_NODES:
        raise BadUsage(
            f"--nodes {text}", f"these are no numbers of nodes from 1 to {_MOST_NODES}", "give them like --nodes 1,2,4"
        )
    return tuple(sorted(counts | {1}))


def _run(plan: Plan, path: Path | None, figure: Path | None, quiet: bool) -> int:
    target = ResultFile(path)
    target.reserve()
    published = catalogue.read_published(catalogue.find_published())
    with measuring.interruptible(), Display(plan.steps, quiet) as display:
        results = Runner(plan, measurement.cores(), display).run()
    target.write(results.as_json(measurement.gather_provenance([socket.gethostname()], None)))
    show_results(results, published)
    if figure is not None:
        draw_figure(results, published, figure)
    pictures.name_files(path, figure)
    return 0 if results.complete else 1
