"""The command ``python -m benchmarks.kernels``."""

from __future__ import annotations

import importlib.util
import socket
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Annotated, Final, cast

import typer

from ..harness import measuring, pictures, provenance
from ..harness.display import Display
from ..harness.errors import BadUsage
from ..harness.result_file import ResultFile
from . import runner, table
from .bc import BC
from .contender import Measure
from .nqueens import NQUEENS
from .pi import PI
from .uts import UTS

_PROGRAM: Final = f"python -m {__package__}"
MEASURES: Final = {measure.name: measure for measure in (UTS, NQUEENS, BC, PI)}
_PACKAGES: Final = ("igraph", "networkit", "networkx")
_QUICK_ROUNDS: Final = 2
_ROUNDS: Final = 5


def main(arguments: list[str]) -> int:
    """Measure what ``arguments`` ask for and show the table.

    Returns:
        The exit code: 0 measured (goals may be missed), 1 a kernel of ours failed, 2 bad usage, 128 + N ended by
        signal N.
    """
    return measuring.main(_PROGRAM, _command, arguments)


def _command(
    rounds: Annotated[
        int | None, typer.Option(help="How often everybody works; medians are shown.", show_default="5, quick: 2")
    ] = None,
    measures: Annotated[str, typer.Option(help="What to measure, as a,b.", show_default=",".join(MEASURES))] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Small problems: a look, no measurement.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write the result there.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the rates there, as PNG, SVG or PDF.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> measuring.Run:
    """Measure the kernels on one core, beside the same algorithms in C and what others offer.

    Example: python -m benchmarks.kernels --measures uts,nqueens
    """
    if rounds is not None and rounds < 1:
        raise BadUsage(f"--rounds {rounds}", "there must be at least 1 round", "give --rounds 1 or more")
    names = measuring.chosen("--measures", measures, tuple(MEASURES)) or tuple(MEASURES)
    pictures.check(figure)
    chosen = tuple(MEASURES[name] for name in names)
    return partial(_run, chosen, rounds or (_QUICK_ROUNDS if quick else _ROUNDS), quick, json, figure, quiet)


def _run(
    measures: tuple[Measure, ...], rounds: int, quick: bool, path: Path | None, figure: Path | None, quiet: bool
) -> int:
    target = ResultFile(path)
    target.reserve()
    steps = rounds * sum(len(measure.contenders) for measure in measures)
    with measuring.interruptible(), Display(steps, quiet) as display:
        results = runner.run(measures, rounds, quick, display)
    found = provenance.gather([socket.gethostname()], None)
    versions = cast("dict[str, str]", found["versions"])
    versions |= {name: metadata.version(name) for name in _PACKAGES if importlib.util.find_spec(name) is not None}
    target.write(results.as_json(found))
    table.show(results, path)
    if figure is not None:
        from .figure import draw

        draw(results, figure, str(found["cpu"]))
    return 0 if results.complete else 1
