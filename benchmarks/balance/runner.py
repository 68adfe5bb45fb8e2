"""Asks the bare kernels and the balancer in turn."""

from __future__ import annotations

import itertools
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..harness import procfs
from ..harness.child import TERM_S, Child, ContenderFailed, environment, kill_marked
from .catalogue import PACED_DEPTH, PACED_ORDERS, PACED_RATE, Measure
from .results import Results

if TYPE_CHECKING:
    from ..harness.measuring import Display

READY_S: Final = 120.0
WARM_UP_DEPTH: Final = 11
_PROGRAM: Final = (sys.executable, "-m", f"{__package__}.programs")


class Runner:
    """Carries measures out.

    Args:
        measures: What to measure, in turn.
        rounds: How often.
        depth: Depth of the tree that is searched.
        nap_s: Seconds of a long task.
        display: Where progress is shown.
    """

    def __init__(self, measures: Sequence[Measure], rounds: int, depth: int, nap_s: float, display: Display) -> None:
        self._measures = measures
        self._depth = depth
        self._nap_s = nap_s
        self._display = display
        self.results = Results(rounds)
        self._mark = uuid.uuid4().hex
        self._numbers = itertools.count()
        self._env: dict[str, str] = {}
        self._kernels: list[Child] = []

    def run(self) -> Results:
        """Measure everything; what is measured when this is interrupted is in ``results``."""
        for measure in self._measures:
            self.results.expect(measure)
        with tempfile.TemporaryDirectory(prefix="balance-", ignore_cleanup_errors=True) as folder, ExitStack() as stack:
            self._env = environment(Path(folder))
            # an interrupt may come between a start and our taking note of it
            stack.callback(kill_marked, self._mark)
            most = max(len(measure.kernels) for measure in self._measures)
            # one after the other, so that only the first one compiles
            self._kernels = [self._start(stack, [*_PROGRAM, "bare"]) for _ in range(most)]
            for measure in self._measures:
                self._measure(measure)
        self.results.ended = True
        return self.results

    def _measure(self, measure: Measure) -> None:
        rounds = self.results.rounds
        self._display.begin(measure.name, f"rounds: {rounds}")
        anew = measure.naps is not None and measure.naps.order is not None
        try:
            # one that was resized has other places
            for numbers in [range(number, number + 1) for number in range(rounds)] if anew else [range(rounds)]:
                self._rounds(measure, numbers)
        except ContenderFailed as error:
            self.results.failures[measure.name] = str(error)

    def _rounds(self, measure: Measure, numbers: range) -> None:
        with ExitStack() as stack:
            balancer = self._start(stack, ["mpiexec", "-n", str(measure.places), *_PROGRAM, "glb"])
            if measure.kernels:
                self._ours(measure, balancer, WARM_UP_DEPTH)
            for number in numbers:
                self._display.step(f"round {number + 1} of {self.results.rounds}")
                self.results.add(measure, self._round(measure, balancer))

    def _start(self, stack: ExitStack, command: list[str]) -> Child:
        child = Child(command, self._env, f"{self._mark}.{next(self._numbers)}.")
        stack.push(lambda kind, *_: child.end() if kind is None else child.end(TERM_S))
        child.answer(READY_S)
        return child

    def _round(self, measure: Measure, balancer: Child) -> dict[str, float]:
        if measure.naps is not None:
            return balancer.ask({"measure": "naps", **asdict(measure.naps), "nap_s": self._nap_s}, measure.limit_s)
        if not measure.kernels:
            command = {"measure": "paced", "orders": PACED_ORDERS, "rate": PACED_RATE, "depth": PACED_DEPTH}
            return balancer.ask(command, measure.limit_s)
        bare = self._bare(measure)
        ours = self._ours(measure, balancer, self._depth)
        found = {}
        if "twin" in measure.quantities:
            twin = self._kernels[0].ask({"measure": "twin", "depth": self._depth}, measure.limit_s)
            if "absent" not in twin:
                found = {"twin": ours["rate"] / twin["rate"], "twin_cpu": _per_cpu_s(ours) / _per_cpu_s(twin)}
        return {
            **found,
            "rate": ours["rate"] / bare["rate"],
            "cpu": _per_cpu_s(ours) / _per_cpu_s(bare),
            **{key: ours[key] for key in ("tail_s", "starving")},
        }

    def _bare(self, measure: Measure) -> dict[str, float]:
        """Let the bare kernels run at once and return the sums of their figures."""
        asked = list(zip(self._kernels, measure.kernels, strict=False))
        for kernel, processes in asked:
            kernel.tell({"measure": "kernels", "processes": processes, "depth": self._depth})
        answers = [kernel.answer(measure.limit_s) for kernel, _ in asked]
        return {key: sum(answer[key] for answer in answers) for key in ("tasks", "rate", "cpu_s")}

    def _ours(self, measure: Measure, balancer: Child, depth: int) -> dict[str, float]:
        """Let the balancer compute; the CPU seconds are those of all its processes, mpiexec included."""
        processes = balancer.processes()
        before_s = procfs.cpu_s(processes)
        answer = balancer.ask({"measure": "compute", "workers": measure.workers, "depth": depth}, measure.limit_s)
        return {**answer, "cpu_s": procfs.cpu_s(processes) - before_s}


def _per_cpu_s(found: Mapping[str, float]) -> float:
    return found["tasks"] / found["cpu_s"]
