"""The command ``python -m benchmarks.scaling model``."""

from __future__ import annotations

import json as json_module
import socket
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from ...harness import measurement, measuring, pictures
from ...harness.errors import BadUsage
from ...harness.measurement import ResultFile
from ...harness.progress import Meter
from . import report
from .engine import Job, Machine
from .sweep import Point, Sweep, as_json, known, parse_places, run, sweep

PROGRAM: Final = f"python -m {__package__.rpartition('.')[0]} model"
_AT: Final = 1024
_QUICK: Final = "16,64"


def main(arguments: list[str]) -> int:
    """Simulate what ``arguments`` ask for, show the table, and draw it.

    Returns:
        The exit code: 0 done, 2 bad usage, 128 + N ended by signal N.
    """
    return measuring.main(PROGRAM, _command, arguments)


def _command(
    places: Annotated[str, typer.Option(help="Numbers of places: 16,100 or 16..100000 (in steps of 4 times).")] = (
        "16..4096"
    ),
    work: Annotated[float, typer.Option(help="Seconds of work per place.")] = 10.0,
    at: Annotated[int, typer.Option(help="Places of the runs that vary w and the graph.")] = _AT,
    most_reports: Annotated[
        int, typer.Option(help="Above so many places the finish is left out: place 0 would only read reports.")
    ] = 16384,
    seed: Annotated[int, typer.Option(help="Seed of the choice of victims.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Few places and little work: a look.")] = False,
    json: Annotated[
        Path | None, typer.Option(help="Write the result there; runs that it holds are not repeated.")
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw it there, as PNG, SVG or PDF.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> measuring.Run:
    """Simulate the balancer on many places: a discrete-event simulation of its real state machines.

    Example: python -m benchmarks.scaling model --places 16..4096 --figure model.png
    """
    if not work > 0:
        raise BadUsage(f"--work {work:g}", "there must be work", "give a positive number of seconds")
    if at < 2:
        raise BadUsage(f"--at {at}", "there must be at least 2 places", f"give --at {_AT}")
    pictures.check_picture(figure)
    counts = parse_places(_QUICK if quick else places)
    base = Job(places=2, work_s=0.5 if quick else work, seed=seed)
    chosen = sweep(counts, base, min(at, counts[-1]), most_reports)
    return partial(_run, chosen, base, Machine(), json, figure, quiet)


def _run(chosen: Sweep, base: Job, machine: Machine, path: Path | None, figure: Path | None, quiet: bool) -> int:
    points = _earlier(path, machine)
    target = ResultFile(path)
    found = measurement.gather_provenance([socket.gethostname()], base.seed)
    left = [job for job in chosen.jobs if job not in points]
    with measuring.interruptible(), Meter(quiet) as meter:
        for number, job in enumerate(left):
            points[job] = _watched(job, machine, meter, left, number)
            target.write(as_json(list(points.values()), machine, found))
    report.show_table(chosen, points, machine, base)
    if figure is not None:
        report.draw_figure(chosen, points, machine, base, figure)
    pictures.name_files(path, figure)
    return 0


def _watched(job: Job, machine: Machine, meter: Meter, jobs: list[Job], number: int) -> Point:
    all_places = sum(each.places for each in jobs)
    before = sum(each.places for each in jobs[:number])

    def show(share: float, now_s: float) -> None:
        meter.show(
            lambda: (
                f"model: {job.places:,} places, w {job.random_steals}, {report.graph_name(job)}, reports: {job.finish}"
                f" · at {now_s:.2f} s, {100 * share:.0f} % · run {number + 1} of {len(jobs)}"
                f" · all in all {100 * (before + share * job.places) / all_places:.0f} %"
            )
        )

    return run(job, machine, show)


def _earlier(path: Path | None, machine: Machine) -> dict[Job, Point]:
    """Return the runs that the result file holds already.

    Raises:
        BadUsage: There is something else in it.
    """
    if path is None or not path.is_file():
        ResultFile(path).reserve()
        return {}
    try:
        return known(json_module.loads(path.read_text(encoding="utf-8")), machine)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadUsage(f"--json {path}", "it holds something else", "give another --json, or remove the file") from None
