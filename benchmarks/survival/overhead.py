"""What backups cost while no place dies: a contender that computes a benchmark, with and without them.

Computations with and without backups run side by side, on the same cores at the same time. So what the machine does
besides slows them alike: where those that ran in turns differed by 10 %, such pairs differ by 1 %.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

import apgas
import glb

from ..bc import command as bc
from ..compare.child import environment
from ..compare.contender import Answer, Channel, Command
from ..compare.display import Sheet
from ..compare.engine import Comparison, Contenders, Stage
from ..harness.cli import Benchmark
from ..nqueens import command as nqueens
from ..pi import command as pi
from ..uts import command as uts

BACKUPS, NONE, PLAIN = "with backups", "resilient without", "not resilient"
PROBLEMS: Final[Mapping[str, tuple[Callable[[int], Benchmark[Any]], int, int]]] = {
    "uts": (lambda depth: uts.command(depth=depth), 15, 13),
    "nqueens": (nqueens.command, 18, 16),
    "bc": (bc.command, 16, 13),
    "pi": (lambda samples: pi.build(samples, 1), 20_000_000_000, 400_000_000),
}
"""How each benchmark is made, its size, of 1.5 to 12 s of CPU on each of 4 places, and a small one."""


def compute(command: Command) -> Answer:
    """Compute once, with backups or not; return the CPU time of all places together, and how many backups were made."""
    make, size, small = PROBLEMS[command["measure"]]
    benchmark = make(small if command["quick"] else size)
    config = glb.Config(workers=1, warm_up=benchmark.warm_up, granularity=benchmark.default_granularity)
    config = replace(config, backup_s=config.backup_s if command["backups"] else None)
    before = [apgas.at(place, time.process_time) for place in apgas.places()]
    outcome = glb.compute(benchmark.make_bag(None), benchmark.make_result, config)
    after = [apgas.at(place, time.process_time) for place in apgas.places()]
    return {"cpu_s": sum(after) - sum(before), "backups": outcome.statistics.backups}


def main() -> None:
    """Serve."""
    Channel().serve(dict.fromkeys(PROBLEMS, compute))


# Who asks it ---------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Overhead(Comparison):
    """Computations with and without backups, side by side.

    Attributes:
        found: The answers, by benchmark and by what the backups are compared with: that with backups, then the other.
    """

    name = "survival"
    title = "What backups cost while no place dies"
    essential: ClassVar[tuple[str, ...]] = (NONE, PLAIN)

    names: Sequence[str]
    quick: bool = False
    found: dict[str, dict[str, list[list[dict[str, Any]]]]] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """One for each round."""
        return (self.rounds + 1) * len(self.names)

    def measure(self, stage: Stage) -> None:
        """Have three compute at a time; the first round, which loads kernels, does not count."""
        env = environment(stage.folder)
        program = [sys.executable, "-m", f"{__package__}.overhead"]
        with Contenders(stage) as contenders:
            one, other = (
                contenders.start([sys.executable, "-m", "apgas.survive", "-n", "4", *program], env, _READY_S)
                for _ in range(2)
            )
            plain = contenders.start(["mpiexec", "-n", "4", *program], env, _READY_S)
            for name in self.names:
                stage.progress.begin(name, f"{self.rounds} rounds")
                for number in range(self.rounds + 1):
                    stage.progress.step(f"round {number} of {self.rounds}")
                    with_backups, without = (one, other) if number % 2 else (other, one)
                    commands = {
                        child: {"measure": name, "backups": child is with_backups, "quick": self.quick}
                        for child in (with_backups, without, plain)
                    }
                    backed_up, *others = contenders.ask_together(commands, _LIMIT_S)
                    for way, beside in zip((NONE, PLAIN), others, strict=True) if number else ():
                        self.found.setdefault(name, {}).setdefault(way, []).append([backed_up, beside])

    def sheets(self) -> Sequence[Sheet]:
        """Return one table: means, and means and medians of the paired differences with their intervals."""
        heads = ["benchmark", BACKUPS, *(f"over {way}" for way in (NONE, PLAIN)), "backups"]
        rows = []
        for name, ways in self.found.items():
            backed_up = [first for first, _ in ways[NONE]]
            mean_s = statistics.fmean(answer["cpu_s"] for answer in backed_up)
            counts = [answer["backups"] for answer in backed_up]
            beside = [
                beside_others([(one["cpu_s"], other["cpu_s"]) for one, other in ways[way]]) for way in (NONE, PLAIN)
            ]
            rows.append([name, f"{mean_s:.2f} s", *beside, f"{min(counts)} to {max(counts)}"])
        return [Sheet(heads, "l" + "r" * 4, [rows])]

    def remarks(self) -> Sequence[str]:
        """Return how to read the table."""
        return [
            f"CPU time of all 4 places, in user and in system mode: means of {self.rounds} computations",
            f"over others: by {self.rounds} pairs side by side, the mean and the median with 95 % intervals",
            "backups: made in a computation, when one is due, or with a bag that is given away",
        ]

    def as_json(self) -> dict[str, Any]:
        """Return all answers, too."""
        return super().as_json() | {"found": self.found}


_READY_S: Final = 60.0
_LIMIT_S: Final = 300.0


def beside_others(pairs: Sequence[tuple[float, float]]) -> str:
    """Say by how much the first of each pair is more than the second."""
    from scheduler_bridge.experiments.comparison import t_quantile  # loads matplotlib, which no place of a job needs

    more = sorted(100 * (one / other - 1) for one, other in pairs)
    reach = t_quantile(len(pairs) - 1) * statistics.stdev(more) / math.sqrt(len(pairs))
    outside = outside_median(len(pairs))
    between = f"{more[outside]:+.2f} to {more[-1 - outside]:+.2f}"
    return f"{statistics.fmean(more):+.2f} % ± {reach:.2f}, {statistics.median(more):+.2f} ({between})"


def outside_median(count: int) -> int:
    """Return how many of ``count`` sorted values may be left out on each side, so that the others hold the median.

    That is so in 95 % of all samples or more, whatever their distribution, from six values on.
    """
    left_out = 0
    while sum(math.comb(count, below) for below in range(left_out + 2)) <= 0.025 * 2**count:
        left_out += 1
    return left_out


if __name__ == "__main__":
    apgas.run(main)
