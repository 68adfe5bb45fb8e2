"""The paper's eleven configurations as problems that a node held to a small share of a core takes as long for.

Each configuration keeps its node-seconds, times the scale of time, and so do the ratios between configurations; the
speed of a node differs between them: tasks of the problem over scaled node-seconds. The kernels are the plain ones
(no Numba): importing compiled kernels on 300 places a batch would cost more than the batch itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scheduler_bridge.daemon.trial import CalibrationError, run_benchmark
from scheduler_bridge.workloads.generate.papers import CONFIGURATIONS

PLAIN: Final[Mapping[str, str]] = {"NUMBA_DISABLE_JIT": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Environment of every job: plain kernels, and no threads beside the worker's."""
ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "BC_17": ("bc", "--scale", "8"),
    "BC_18": ("bc", "--scale", "9"),
    "BC_19": ("bc", "--scale", "10"),
    "NQueens_17": ("nqueens", "-n", "11"),
    "NQueens_18": ("nqueens", "-n", "12"),
    "UTS_18": ("uts", "--depth", "8"),
    "UTS_19": ("uts", "--depth", "9"),
    "UTS_20": ("uts", "--depth", "10"),
    "Pi_8e10": ("pi", "--samples", "1.2e6"),
    "Pi_6e11": ("pi", "--samples", "9e6"),
    "Pi_1.2e12": ("pi", "--samples", "1.8e7"),
}
"""By configuration: the benchmark and its problem, where nodes are held to a small rate."""
_OF_PAPER_SIZE: Final[Mapping[str, tuple[str, str]]] = {
    "BC": ("bc", "--scale"),
    "NQueens": ("nqueens", "-n"),
    "UTS": ("uts", "--depth"),
    "Pi": ("pi", "--samples"),
}
NODE_S: Final[Mapping[str, float]] = {item.name: item.node_s for item in CONFIGURATIONS}
"""The paper's node-seconds."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A configuration as it is run here.

    Attributes:
        name: The configuration.
        benchmark: Module name below ``apgas.benchmarks``.
        arguments: Its problem, as on the command line.
        tasks: Tasks in all.
        core_rate: Tasks per CPU-second of one core at full speed, measured.
        result: What it computes, verified by a sequential run.
        parameters: The problem, as its result file tells it.
    """

    name: str
    benchmark: str
    arguments: tuple[str, ...]
    tasks: int
    core_rate: float
    result: object
    parameters: object

    def rate(self, scale: float) -> float:
        """Tasks per second of one node, if the paper's seconds last ``scale`` seconds here."""
        return self.tasks / (NODE_S[self.name] * scale)

    def share(self, scale: float) -> float:
        """Share of a core that a node uses."""
        return self.rate(scale) / self.core_rate

    def agrees(self, document: Mapping[str, Any]) -> bool:
        """Whether a job's result is that of the sequential run, for the same problem."""
        return bool(document.get("parameters") == self.parameters and document.get("result") == self.result)


def arguments(name: str, *, paced: bool = True) -> tuple[str, ...]:
    """The benchmark and the problem of a configuration: a small one for nodes that are ``paced``, else the paper's."""
    if paced:
        return ARGUMENTS[name]
    program, _, size = name.partition("_")
    return (*_OF_PAPER_SIZE[program], size)


def of_paper_size(names: Iterable[str]) -> dict[str, Problem]:
    """The problems of these configurations on real nodes: they take what they take, so nothing is measured before."""
    problems = {}
    for name in names:
        benchmark, *rest = arguments(name, paced=False)
        problems[name] = Problem(name, benchmark, tuple(rest), 0, 0.0, None, None)
    return problems


def calibrate(
    names: Iterable[str], folder: Path, environment: Mapping[str, str], tell: Callable[[str], None] = lambda _: None
) -> dict[str, Problem]:
    """Run problems once at full speed, verified, unless that was done before.

    Args:
        names: The configurations.
        folder: Where the results are written, and kept.
        environment: For the runs, in addition to ``PLAIN``.
        tell: Called with the name of what is run.

    Raises:
        CalibrationError: One of them failed, or its result is wrong.
    """
    problems = {}
    for name in names:
        benchmark, *arguments = ARGUMENTS[name]
        path = folder / f"calibration-{name}.json"
        document = _kept(path)
        if document is None:
            tell(name)
            document, _ = run_benchmark(benchmark, arguments, path, {**environment, **PLAIN})
        problems[name] = _problem(name, document)
    return problems


def calibrated(names: Iterable[str], folder: Path) -> dict[str, Problem]:
    """What ``calibrate`` has found before.

    Raises:
        CalibrationError: It has not measured one of them.
    """
    problems = {}
    for name in names:
        document = _kept(folder / f"calibration-{name}.json")
        if document is None:
            raise CalibrationError(f"{folder} holds no measurement of {name}")
        problems[name] = _problem(name, document)
    return problems


def _problem(name: str, document: Mapping[str, Any]) -> Problem:
    benchmark, *arguments = ARGUMENTS[name]
    tasks = document["tasks"]
    rate = tasks / document["seconds"]
    return Problem(name, benchmark, tuple(arguments), tasks, rate, document["result"], document["parameters"])


def _kept(path: Path) -> dict[str, Any] | None:
    """What an earlier calibration found."""
    try:
        document: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return document if document.get("verified") is True else None
