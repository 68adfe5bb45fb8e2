"""Runs the benchmarks on emulated nodes: places whose one worker each is held to a rate."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..harness.child import TERM_S, Child, ContenderFailed, environment, kill_marked
from .catalogue import Program, one_node_s
from .results import Resize, Results, Series

if TYPE_CHECKING:
    from ..harness.measuring import Display

_START_S: Final = 120.0
"""Enough to start and to compile the kernel."""
_CALIBRATIONS: Final = 3
_BENCHMARKS: Final = __package__.rpartition(".")[0]
_LEAST_CPU_S: Final = 0.001


@dataclass(frozen=True)
class Plan:
    """What is to be run.

    Attributes:
        programs: Which benchmarks.
        nodes: On how many nodes, ascending.
        rounds: How often.
        share: How much of the cores all nodes together may use.
        least_s: Least seconds on one node.
        quick: Whether to take small problems and to leave the resizes out.
    """

    programs: Sequence[Program]
    nodes: Sequence[int]
    rounds: int
    share: float
    least_s: float
    quick: bool

    @property
    def steps(self) -> int:
        """Number of runs."""
        return len(self.programs) * (1 + self.rounds * len(self.nodes) + self.resizes)

    @property
    def resizes(self) -> bool:
        """Whether there is a run with resizes."""
        return not self.quick and self.nodes[-1] >= 2


class Runner:
    """Carries a plan out.

    Args:
        plan: What to run.
        cores: Cores of this machine.
        display: Where progress is shown.
    """

    def __init__(self, plan: Plan, cores: int, display: Display) -> None:
        self._plan = plan
        self._cores = cores
        self._display = display
        self._mark = uuid.uuid4().hex
        self._numbers = count()
        self._folder = Path()
        self.results = Results(cores, plan.share, plan.rounds)

    def run(self) -> Results:
        """Run everything; what is measured when this is interrupted is in ``results``."""
        with tempfile.TemporaryDirectory(prefix="scaling-", ignore_cleanup_errors=True) as folder, ExitStack() as stack:
            self._folder = Path(folder)
            stack.callback(kill_marked, self._mark)
            for program in self._plan.programs:
                series = Series(program, program.problem(self._plan.quick))
                self.results.series[program.name] = series
                try:
                    self._measure(series)
                except ContenderFailed as error:
                    series.failure = str(error)
        self.results.ended = True
        return self.results

    def _measure(self, series: Series) -> None:
        plan = self._plan
        self._display.begin(series.program.name, "measuring what a core does, then on emulated nodes")
        self._display.step("what a core does")
        full, cpu_s = self._calibrated(series)
        one_s = one_node_s(cpu_s, plan.nodes[-1], self._cores, plan.share, plan.least_s)
        series.unit, series.rate, series.share = full["unit"], full["tasks"] / one_s, cpu_s / one_s
        pace = ["--rate", repr(series.rate)]
        for number in range(plan.rounds):
            for nodes in plan.nodes:
                self._display.step(f"round {number + 1} of {plan.rounds}, {nodes} nodes, {one_s / nodes:.0f} s")
                result = self._job(series, nodes, pace, _START_S + 5 * one_s)
                series.runs_s.setdefault(nodes, []).append(result["seconds"])
                lag_s = result["statistics"]["worst_lag_s"]
                series.lag_s[nodes] = max(lag_s, series.lag_s.get(nodes, 0.0))
        if plan.resizes:
            self._resize(series, pace, one_s)

    def _calibrated(self, series: Series) -> tuple[dict[str, Any], float]:
        """Return a result at full speed, and the CPU seconds that the problem takes without the start of the program.

        They are counted, not the time, so that what else runs does not make the nodes slower.
        """
        result, once_s = self._counted(series, 1)
        _, all_s = self._counted(series, 1 + _CALIBRATIONS)
        return result, max(_LEAST_CPU_S, (all_s - once_s) / _CALIBRATIONS)

    def _counted(self, series: Series, repeats: int) -> tuple[dict[str, Any], float]:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = self._job(series, 1, ["--repeat", str(repeats)], _START_S)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return result, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def _resize(self, series: Series, pace: list[str], one_s: float) -> None:
        """Double the nodes in the middle of a run, then give them back.

        A quarter of the most nodes begins, so that the run lasts longer than the resizes.
        """
        nodes = max(1, self._plan.nodes[-1] // 4)
        whole_s = one_s / nodes
        self._display.step(f"{nodes} nodes grow to {2 * nodes} and back")
        orders = f"{0.1 * whole_s:.2f}:+{nodes},{0.4 * whole_s:.2f}:-{nodes}"
        result = self._job(series, nodes, [*pace, "--orders", orders], _START_S + 5 * one_s)
        series.resizes = [
            Resize(record["kind"], record["n"], record["seconds"])
            for record in result["resizes"]
            if record["outcome"] == "done"
        ]

    def _job(self, series: Series, nodes: int, options: Sequence[str], limit_s: float) -> dict[str, Any]:
        """Run a benchmark to its end and return its JSON result.

        Raises:
            ContenderFailed: It did not end, or not well.
        """
        path = self._folder / f"{series.program.name}-{next(self._numbers)}.json"
        module = f"{_BENCHMARKS}.{series.program.name}"
        launcher = ["mpiexec", "-n", str(nodes)]
        command = [*launcher, sys.executable, "-m", module, *series.problem, "--workers", "1"]
        child = Child(
            [*command, *options, "--quiet", "--json", str(path)],
            environment(self._folder),
            f"{self._mark}.{next(self._numbers)}.",
        )
        with ExitStack() as stack:
            stack.push(lambda kind, *_: child.end() if kind is None else child.end(TERM_S))
            child.line(limit_s)  # the result, in one line
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if "error" in result:
            raise ContenderFailed(str(result["error"]))
        if result["verified"] is not None:
            series.verified = result["verified"] and series.verified is not False
        return result
