"""``python -m benchmarks.simulator``: jobs, events, batches a second, time per decision, memory, and how they grow."""

from __future__ import annotations

import argparse
import json
import os
import sys
import sysconfig
from dataclasses import asdict
from pathlib import Path

from apgas.errors import extras_named

from ..harness.measurement import gather_provenance

with extras_named():
    from rich.console import Console
    from rich.table import Table

    from scheduler_bridge.core import COMPILED
    from scheduler_bridge.experiments.real_workloads.cells import THETA_FILE

    from . import process
    from .cases import MOST_MB, SUITES, Case
    from .measure import Figures, measure


def main(arguments: list[str]) -> int:
    """Measure what ``arguments`` ask for; missed goals are told and are no failure."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description=__doc__)
    every = (*SUITES, process.PROCESS, process.MILLION)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(every)}; growth by default")
    parser.add_argument("--most-jobs", type=int, default=200_000, metavar="N", help="leave larger workloads out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="reference data, for theta (or MALLEABLE_DATA)",
        default=os.environ.get("MALLEABLE_DATA"),
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if unknown := [suite for suite in options.suites if suite not in every]:
        parser.error(f"no suite {unknown[0]!r}: there are {', '.join(every)}")
    data = None if options.data is None else Path(options.data)
    if "theta" in options.suites and (data is None or not (data / THETA_FILE).exists()):
        parser.error(f"theta needs {THETA_FILE} of the reference data: give their folder with --data")
    console = Console(stderr=True, highlight=False)
    console.print(form(compiled=COMPILED, installed=Path(sysconfig.get_path("platlib"))))
    found: list[tuple[Case, Figures]] = []
    wholes: list[process.Whole] = []
    for suite in options.suites or ["growth"]:
        if suite not in SUITES:
            for workload in process.workloads(suite, data):
                console.print(f"the whole process, {workload.label} ...")
                wholes.append(process.measure(workload, times=1 if suite == process.MILLION else 3))
            continue
        for case in SUITES[suite]:
            if case.jobs <= options.most_jobs:
                console.print(f"{case.label}, {case.jobs or 'all'} jobs ...")
                found.append((case, measure(case, data)))
    shown = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    if found:
        shown.print(_table(found))
    if wholes:
        shown.print(_table_of_processes(wholes))
    if options.json is not None:
        rows = [{"case": asdict(case), "figures": asdict(figures)} for case, figures in found]
        document = {
            "benchmark": "simulator",
            "compiled": COMPILED,
            "runs": rows,
            "processes": [asdict(whole) for whole in wholes],
            "provenance": gather_provenance([], [case.seed for case, _ in found]),
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


def form(*, compiled: bool, installed: Path) -> str:
    """In which form the core is measured, and how to measure the other one.

    Args:
        compiled: Whether it is machine code.
        installed: The folder of what is installed. Python looks for modules in the present folder first, so within a
            checkout it takes the code that is there, also where a compiled form is installed.
    """
    if compiled:
        return "the scheduler's core is machine code"
    if any((installed / "scheduler_bridge" / "core").glob("scheduler.*.so")):
        return (
            "the scheduler's core is Python, that of this folder; "
            "python -P -m apgas.benchmarks.simulator measures the machine code that is installed"
        )
    return "the scheduler's core is Python; python3 launch/setup_venv.py compiled makes machine code of it"


def _table(found: list[tuple[Case, Figures]]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("POLICY AND WORKLOAD")
    for head in ("JOBS", "NODES", "CPU s", "JOBS/s", "EVENTS/s", "BATCHES/s", "p50 us", "p99 us", "MAX us", "MB"):
        table.add_column(head, justify="right")
    table.add_column("GOAL")
    for case, it in found:
        cells = [f"{it.jobs:,}", f"{it.nodes:,}", f"{it.cpu_s:.2f}", f"{it.jobs / it.cpu_s:,.0f}"]
        cells += [f"{it.events / it.cpu_s:,.0f}", f"{it.batches / it.cpu_s:,.0f}"]
        cells += [f"{it.p50_us:.0f}", f"{it.p99_us:.0f}", f"{it.max_us:,.0f}"]
        table.add_row(case.label, *cells, f"{it.memory_mb:.0f}", goal(case, it))
    return table


def _table_of_processes(wholes: list[process.Whole]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("WHOLE PROCESS")
    for head in ("JOBS", "NODES", "BARE LOOP s", "CPU s", "RATIO", "MB"):
        table.add_column(head, justify="right")
    table.add_column("GOAL")
    for it in wholes:
        cells = [f"{it.jobs:,}", f"{it.nodes:,}", f"{it.bare_s:.2f}", f"{it.cpu_s:.2f}", f"{it.times:.1f}"]
        table.add_row(it.label, *cells, f"{it.memory_mb:.0f}", it.goal)
    return table


def goal(case: Case, figures: Figures) -> str:
    """Whether the case's goals are met, in words."""
    words = []
    if case.least_jobs_per_s is not None:
        met = figures.jobs / figures.cpu_s >= case.least_jobs_per_s
        words.append(f">= {case.least_jobs_per_s:,.0f} jobs/s {'met' if met else 'MISSED'}")
    if case.most_s is not None:
        words.append(f"<= {case.most_s:g} s {'met' if figures.cpu_s <= case.most_s else 'MISSED'}")
    if figures.memory_mb > MOST_MB:
        words.append(f"<= {MOST_MB:g} MB MISSED")
    return ", ".join(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
