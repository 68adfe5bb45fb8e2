"""The demo's problems and its pace: how fast a core of this machine is, and hence an emulated node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scheduler_bridge.daemon.trial import run_benchmark
from scheduler_bridge.demo.batch import Configuration, Drawn, Shape
from scheduler_bridge.report import words

REPEATS = 3
"""The first repetition compiles what it computes with; the median of three leaves it out."""


class Pace:
    """The speed of the emulated nodes for one benchmark: that which the batch was sized for, but at most ``SHARE``.

    Args:
        benchmark: Its name.
        result: The JSON document of its run at full speed on one core.

    Attributes:
        core_rate: Tasks per CPU-second at full speed, measured.
        rate: Tasks per second of one emulated node.
        reference: What the calibration computed, verified by a sequential run.
        parameters: The problem that it computed.
        compares: Whether the batch computes that same problem, and its results are compared with ``reference``.
    """

    def __init__(self, benchmark: str, result: Mapping[str, Any]) -> None:
        self.benchmark = benchmark
        self.core_rate: float = result["tasks"] / result["cpu_s"]
        self.rate: float = min(NODE_RATES[benchmark], SHARE * self.core_rate)
        self.reference, self.parameters = result["result"], result["parameters"]
        self.compares = benchmark in COMPARED

    @property
    def share(self) -> float:
        """How much of a core a node uses."""
        return self.rate / self.core_rate

    @property
    def slowdown(self) -> float:
        """How much longer work takes than on the nodes that the batch was sized for."""
        return NODE_RATES[self.benchmark] / self.rate

    def words(self) -> str:
        """Say the rate with its unit and its share of a core."""
        return f"{self.benchmark} {words.large(self.rate)} {UNITS[self.benchmark]}/s ({words.percent(self.share)})"


def calibrate(
    batch: Sequence[Drawn], folder: Path, environment: Mapping[str, str], report: Callable[[str], None]
) -> dict[str, Pace]:
    """Run every benchmark at full speed on one place, one after the other.

    CPU seconds count, not durations, so that other load on the machine does not make its nodes slower.

    Args:
        batch: The jobs that come; every ``COMPARED`` benchmark has one problem in it.
        folder: Where the results are written.
        environment: For the runs, in addition to this process's.
        report: Called with a line about each benchmark.

    Raises:
        CalibrationError: One of them failed, or its result is wrong.
    """
    paces = {}
    problems = [drawn.problem for drawn in batch]
    own = {problem.benchmark: problem.arguments for problem in problems if problem.benchmark in COMPARED}
    for benchmark, arguments in {**CALIBRATION, **own}.items():
        repeated = (*arguments, "--repeat", str(REPEATS))
        result = run_benchmark(benchmark, repeated, folder / f"calibration-{benchmark}.json", environment)
        pace = paces[benchmark] = Pace(benchmark, result)
        unit = UNITS[benchmark]
        report(
            f"{benchmark}: one core does {words.large(pace.core_rate)} {unit}/s, "
            f"a node is held to {words.large(pace.rate)} ({words.percent(pace.share)})"
        )
    return paces


# Problems, sized so that their results are known ---------------------------------------------------------------------
#
# A node's speed is one fixed rate per problem, at most 40 % of what one core does, so that four nodes fit on two cores.
# The rates below are 40 % (BC: 20 %, which makes the small graph last) of the rates measured on an AMD EPYC core; a
# slower core gets slower nodes, a faster one is paced to the same node.

SHARE: Final = 0.40
"""Most of a core that an emulated node may use."""

NODE_RATES: Final = {"uts": 143e6, "nqueens": 184e6, "bc": 460.0, "pi": 416e6}
"""Tasks per second of one emulated node, by benchmark (units: ``UNITS``)."""

UNITS: Final = {"uts": "nodes", "nqueens": "tree nodes", "bc": "sources", "pi": "samples"}

CALIBRATION: Final = {
    "uts": ("--depth", "13"),
    "nqueens": ("-n", "16"),
    "pi": ("--samples", "1e9"),
}
"""What is run once at full speed to learn what a core does, where the batch's own problem is not ``COMPARED``."""

COMPARED: Final = frozenset({"bc"})
"""Benchmarks without recorded results: they are calibrated with the batch's own problem, and the jobs' results are then
compared with that of the calibration, which a sequential run verified.
"""

_UTS_14 = Configuration("uts", ("--depth", "14"), "14", 7.4, ((1, 1.5), (2, 0.5)), (1, 2))
_UTS_15 = Configuration("uts", ("--depth", "15"), "15", 29.6, ((2, 1.0), (4, 0.5)), (1, 4))
_QUEENS_17 = Configuration("nqueens", ("-n", "17"), "17", 7.5, ((1, 1.0), (2, 1.0)), (1, 3))
_BC_13 = Configuration("bc", ("--scale", "13"), "13", 17.8, ((2, 2.0), (3, 1.5)), (1, 4))
_PI_10 = Configuration("pi", ("--samples", "1e10"), "10", 24.0, ((2, 2.0), (4, 1.5)), (1, 4))

_UTS_13 = Configuration("uts", ("--depth", "13"), "13", 1.9, ((1, 1.0),), (1, 2))
_QUEENS_16 = Configuration("nqueens", ("-n", "16"), "16", 1.1, ((1, 1.0), (2, 1.0)), (1, 2))
_BC_11 = Configuration("bc", ("--scale", "11"), "11", 4.5, ((1, 1.0), (2, 1.0)), (1, 3))
_PI_9 = Configuration("pi", ("--samples", "1e9"), "9", 2.4, ((1, 1.0), (2, 1.0)), (1, 2))

MAIN: Final = Shape(
    mix=(_UTS_14, _UTS_15, _QUEENS_17, _BC_13, _PI_10), jobs=(10, 12), work_node_s=(150.0, 190.0), malleable=6
)
QUICK: Final = Shape(
    mix=(_UTS_13, _UTS_14, _QUEENS_16, _BC_11, _PI_9),
    jobs=(6, 6),
    work_node_s=(22.0, 32.0),
    malleable=3,
    window_s=6.0,
)
