"""Strong scaling on the cores of this machine, beside copies of the program that share nothing but the machine.

A place with one worker on each of N cores cannot do more than N programs that compute alone on a core each, all at the
same time: they share the memory, the heat and, where two cores are threads of one, its units. What the places lose
beside these copies is what the balancer costs; what the copies lose beside one alone is the machine's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, ClassVar, Final

from ..compare import display
from ..compare.display import Sheet, written
from ..compare.engine import OURS, Stage, Turn
from ..harness.progress import scaled
from .emulated import Jobs, Scaling, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LIMIT_S: Final = 900.0


def on_cores(count: int) -> tuple[int, ...]:
    """Return 1, 2, 4, ... up to ``count``, which ends them whatever it is."""
    powers = (1 << exponent for exponent in range(count.bit_length()))
    return tuple(sorted({*powers, count}))


@dataclass(kw_only=True)
class OnCores(Scaling):
    """Every benchmark on 1, 2, ... cores, a place on each, and as many copies of it at once."""

    title = "Strong scaling on the cores of this machine"
    what: ClassVar[str] = "places on cores, and as many copies"
    unit: ClassVar[str] = "cores"

    share: float = 1.0
    least_s: float = 0.0

    @property
    def steps(self) -> int:
        """Number of runs."""
        return len(self.programs) * (2 * self.rounds * len(self.nodes) + self.resizes)

    def _measure(self, stage: Stage, series: Series, jobs: Jobs) -> None:
        program = series.program
        if not self.quick:
            series.problem = program.option, program.on_cores
        smaller = () if self.quick else (program.option, program.of_a_copy)

        def together(nodes: int) -> Mapping[str, object]:
            (result,) = jobs(1, nodes, [], _LIMIT_S)
            series.runs_s.setdefault(nodes, []).append(result["seconds"])
            series.unit, series.tasks = result["unit"], result["tasks"]
            return result

        def apart(nodes: int) -> Mapping[str, object]:
            results = jobs(nodes, 1, smaller, _LIMIT_S)
            series.copies.setdefault(nodes, []).append(sum(result["tasks"] / result["seconds"] for result in results))
            return results[0]

        turns = [
            Turn(OURS, f"{nodes} {what}", partial(run, nodes))
            for nodes in self.nodes
            for what, run in (("places", together), ("copies", apart))
        ]
        self.take_turns(stage, program.name, turns)
        if self.resizes and (program.name, OURS) not in self.failures:
            self._resize(stage, series, jobs, [], series.seconds[1])

    @property
    def emulation(self) -> str:
        """Where it ran, in one line."""
        return f"places with one worker each, on {self.cores} cores"

    def _sheet(self, series: Series) -> Sheet:
        rows = []
        for nodes, seconds in series.seconds.items():
            rate = series.tasks / seconds
            rows.append(
                [
                    str(nodes),
                    written(seconds, "s"),
                    f"{scaled(rate)} {series.unit}/s",
                    *series.speed_cells(nodes),
                    f"{100 * rate / median(series.copies[nodes]):.1f} %" if nodes in series.copies else "-",
                ]
            )
        heads = ["cores", "time", "rate", "speed-up", "efficiency", "of as many copies"]
        return Sheet(heads, "r" * len(heads), [rows], f"{series.program.title} {' '.join(series.problem)}")

    def remarks(self) -> list[str]:
        """Say how to read the tables, what the resizes took, and what failed."""
        copies = "of as many copies: tasks per second, by those of as many programs that compute alone on a core each"
        return [copies, *super().remarks()]

    def as_json(self) -> dict[str, object]:
        """Return the content of the JSON file."""
        return {key: value for key, value in super().as_json().items() if key not in ("emulated", "share")}

    def _draw_beside(self, axes: Axes, series: Series) -> None:
        cores = sorted(series.copies)
        seconds = [series.tasks / median(series.copies[count]) for count in cores]
        axes.plot(
            cores, seconds, color=display.COLOURS[1], marker="o", markersize=8, markerfacecolor="none", linewidth=0
        )

    def _drawn(self, rounds: str) -> str:
        return (
            f"Filled: {rounds} of {self.emulation}; dotted: ideal.\n"
            "Hollow: what as many programs do that compute alone on a core each, at the same time: the machine's limit."
        )
