"""How fast the simulator is, how much memory it takes, and how both grow: ``python -m benchmarks.simulator``."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from apgas.errors import extras_named

with extras_named():
    import typer

    from scheduler_bridge.core import COMPILED

    from ..compare import command_line
    from ..compare.display import Sheet
    from ..compare.engine import Comparison, Stage, carry_out
    from ..harness.errors import BadUsage
    from . import process
    from .catalogue import LOGS, SUITES, Case, Figures, goal, measure

_FIGURES: Final = ("JOBS", "NODES", "CPU s", "JOBS/s", "EVENTS/s", "BATCHES/s", "p50 us", "p99 us", "MAX us", "MB")
_HEADS: Final = ("POLICY AND WORKLOAD", *_FIGURES, "GOAL")
_HEADS_OF_WHOLES: Final = ("WHOLE PROCESS", "JOBS", "NODES", "BARE LOOP s", "CPU s", "RATIO", "MB", "GOAL")
_EVERY: Final = (*SUITES, process.PROCESS, process.MILLION)


def _command(
    suites: Annotated[
        list[str] | None, typer.Argument(metavar="SUITE...", help=f"Of {', '.join(_EVERY)}; growth by default.")
    ] = None,
    most_jobs: Annotated[int, typer.Option(metavar="N", help="Leave larger workloads out.")] = 200_000,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Reference data, for logs.", envvar="MALLEABLE_DATA")
    ] = None,
    json: command_line.Json = None,
    quiet: command_line.Quiet = False,
) -> int:
    """Measure jobs, events, batches a second, time per decision, memory, and how they grow.

    Example: python -m benchmarks.simulator growth process
    """
    for suite in suites or []:
        if suite not in _EVERY:
            raise BadUsage(suite, f"no suite {suite!r}", f"there are {', '.join(_EVERY)}")
        for file in (LOGS[case.generator][1] for case in SUITES.get(suite, ()) if case.generator in LOGS):
            if data is None or not (data / file).exists():
                raise BadUsage(suite, f"it needs {file} of the reference data", "give their folder with --data")
    return carry_out(Simulator(suites=suites or ["growth"], most_jobs=most_jobs, data=data), json, quiet)


main = partial(command_line.main, f"python -m {__package__}", _command)


@dataclass(kw_only=True)
class Simulator(Comparison):
    """Simulations, each in a process of its own, and ``malleable simulate`` as a whole beside a bare loop.

    Workloads of more than ``most_jobs`` are left out; ``data`` is the folder of the reference data, for real ones.
    """

    name = "simulator"
    title = "How fast the simulator is"

    rounds: int = 1
    suites: Sequence[str]
    most_jobs: int = 200_000
    data: Path | None = None
    figures: list[tuple[Case, Figures]] = field(default_factory=list)
    wholes: list[process.Whole] = field(default_factory=list)

    @property
    def cases(self) -> list[Case]:
        """The simulations that are asked for."""
        return [case for suite in self.suites for case in SUITES.get(suite, ()) if case.jobs <= self.most_jobs]

    @property
    def steps(self) -> int:
        """One for each simulation and each whole process."""
        return len(self.cases) + sum(suite not in SUITES for suite in self.suites)

    @property
    def seed(self) -> list[int]:
        """The seeds of the workloads."""
        return [case.seed for case in self.cases]

    def measure(self, stage: Stage) -> None:
        """Measure everything."""
        for case in self.cases:
            stage.progress.begin(case.label, f"{case.jobs or 'all'} jobs")
            stage.progress.step("simulating")
            self.figures.append((case, measure(case, self.data)))
        for suite in self.suites:
            if suite in SUITES:
                continue
            stage.progress.step("making workloads")
            for workload in process.workloads(suite, self.data):
                stage.progress.begin(workload.label, "the whole process")
                self.wholes.append(process.measure(workload, times=1 if suite == process.MILLION else 3))

    def sheets(self) -> list[Sheet]:
        """Return a table of the simulations and one of the whole processes."""
        sheets = []
        if self.figures:
            rows = [_row(case, figures) for case, figures in self.figures]
            sheets.append(Sheet(_HEADS, "lrrrrrrrrrrl", [rows]))
        if self.wholes:
            sheets.append(Sheet(_HEADS_OF_WHOLES, "lrrrrrrl", [[_row_of_whole(whole) for whole in self.wholes]]))
        return sheets

    def remarks(self) -> list[str]:
        """Say in which form the core was measured."""
        return [form(compiled=COMPILED, installed=Path(sysconfig.get_path("platlib")))]

    def as_json(self) -> dict[str, object]:
        """Return the content of the JSON file."""
        return {
            "benchmark": self.name,
            "compiled": COMPILED,
            "runs": [{"case": asdict(case), "figures": asdict(figures)} for case, figures in self.figures],
            "processes": [asdict(whole) for whole in self.wholes],
        }


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


def _row(case: Case, it: Figures) -> list[str]:
    return [
        case.label,
        f"{it.jobs:,}",
        f"{it.nodes:,}",
        f"{it.cpu_s:.2f}",
        *(f"{count / it.cpu_s:,.0f}" for count in (it.jobs, it.events, it.batches)),
        f"{it.p50_us:.0f}",
        f"{it.p99_us:.0f}",
        f"{it.max_us:,.0f}",
        f"{it.memory_mb:.0f}",
        goal(case, it),
    ]


def _row_of_whole(it: process.Whole) -> list[str]:
    seconds = [f"{it.bare_s:.2f}", f"{it.cpu_s:.2f}", f"{it.times:.1f}"]
    return [it.label, f"{it.jobs:,}", f"{it.nodes:,}", *seconds, f"{it.memory_mb:.0f}", it.goal]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
