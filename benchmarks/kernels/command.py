"""The command ``python -m benchmarks.kernels``."""

from __future__ import annotations

import importlib.util
import socket
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from ..harness import measurement, measuring, pictures
from ..harness.errors import BadUsage
from ..harness.goals import OURS
from ..harness.measurement import ResultFile
from ..harness.measuring import Display
from .catalogue import BC, NQUEENS, PI, UTS
from .results import Absent, Measure, Results, Setting, Work, show_results

if TYPE_CHECKING:
    from ..harness.measuring import Display


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
    pictures.check_picture(figure)
    chosen = tuple(MEASURES[name] for name in names)
    return partial(_run, chosen, rounds or (_QUICK_ROUNDS if quick else _ROUNDS), quick, json, figure, quiet)


def _run(
    measures: tuple[Measure, ...], rounds: int, quick: bool, path: Path | None, figure: Path | None, quiet: bool
) -> int:
    target = ResultFile(path)
    target.reserve()
    steps = rounds * sum(len(measure.contenders) for measure in measures)
    with measuring.interruptible(), Display(steps, quiet) as display:
        results = run(measures, rounds, quick, display)
    found = measurement.gather_provenance([socket.gethostname()], None)
    versions = cast("dict[str, str]", found["versions"])
    versions |= {name: metadata.version(name) for name in _PACKAGES if importlib.util.find_spec(name) is not None}
    target.write(results.as_json(found))
    show_results(results, path)
    if figure is not None:
        from .results import draw_figure

        draw_figure(results, figure, str(found["cpu"]))
    return 0 if results.complete else 1


# Runs measures: prepares the contenders, and lets them work in turn in this thread -----------------------------------


def run(measures: Sequence[Measure], rounds: int, quick: bool, display: Display) -> Results:
    """Measure everything: A B C A B C ..., so that what else happens on the machine disturbs all alike."""
    results = Results(rounds, quick, measures)
    with tempfile.TemporaryDirectory(prefix="kernels-", ignore_cleanup_errors=True) as folder:
        setting = Setting(quick, Path(folder))
        for measure in measures:
            display.begin(measure.name, f"{measure.title(quick)}, rounds: {rounds}")
            _run_measure(measure, setting, results, display)
    results.ended = True
    return results


def _run_measure(measure: Measure, setting: Setting, results: Results, display: Display) -> None:
    works = _prepared(measure, setting, results, display)
    labels = {contender.name: contender.label for contender in measure.contenders}
    for number in range(results.rounds):
        for name, work in tuple(works.items()):
            display.step(f"round {number + 1} of {results.rounds}, {labels[name]}")
            began_s = time.thread_time()
            try:
                amounts = work()
            except Exception as error:  # noqa: BLE001 - whatever failed, the others go on
                results.missing[measure.name, name] = _told(error)
                del works[name]
            else:
                results.add(measure, name, amounts, time.thread_time() - began_s)


def _prepared(measure: Measure, setting: Setting, results: Results, display: Display) -> dict[str, Work]:
    """Return the work of all who can take part; each has done a small one, so that nothing is compiled later."""
    works: dict[str, Work] = {}
    for contender in measure.contenders:
        display.note(f"preparing {contender.label}")
        try:
            if contender.name == OURS:  # what is compiled at the first call is compiled in a small one
                contender.prepare(Setting(True, setting.folder))()
            works[contender.name] = contender.prepare(setting)
        except Absent as reason:
            results.missing[measure.name, contender.name] = str(reason)
        except Exception as error:  # noqa: BLE001 - whatever failed, the others go on
            results.missing[measure.name, contender.name] = _told(error)
    return works


def _told(error: Exception) -> str:
    return f"FAILED: {type(error).__name__}: {error}"
