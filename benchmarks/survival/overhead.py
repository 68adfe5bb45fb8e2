"""What backups cost while no place dies: a contender that computes a benchmark, with and without them.

Computations with and without backups run side by side, on the same cores at the same time. So what the machine does
besides slows both: where those that ran in turns differed by 10 %, such pairs differ by 1 %.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
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
PROBLEMS: Final[Mapping[str, Callable[[], Benchmark[Any]]]] = {
    "uts": partial(uts.command, depth=14),
    "nqueens": partial(nqueens.command, 16),
    "bc": partial(bc.command, 13),
    "pi": partial(pi.build, 4_000_000_000, 1),
}


def cpu_s() -> float:
    """Return the seconds of CPU of this process, in user and in system mode."""
    return time.process_time()


def compute(command: Command) -> Answer:
    """Compute once, with backups or not; return the CPU time of all places together, and how many backups were made."""
    benchmark = PROBLEMS[command["measure"]]()
    config = glb.Config(workers=1, warm_up=benchmark.warm_up, granularity=benchmark.default_granularity)
    config = replace(config, backup_s=config.backup_s if command["backups"] else None)
    before = [apgas.at(place, cpu_s) for place in apgas.places()]
    outcome = glb.compute(benchmark.make_bag(None), benchmark.make_result, config)
    after = [apgas.at(place, cpu_s) for place in apgas.places()]
    return {"cpu_s": sum(after) - sum(before), "backups": outcome.statistics.backups}


def main() -> None:
    """Serve."""
    Channel().serve(dict.fromkeys(PROBLEMS, compute))


# Who asks it ---------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Overhead(Comparison):
    """Computations with and without backups, side by side.

    Attributes:
        names: The benchmarks.
        found: The answers, by benchmark and by what the backups are compared with: that with backups, then the other.
    """

    name = "survival"
    title = "What backups cost while no place dies"
    essential: ClassVar[tuple[str, ...]] = (NONE, PLAIN)

    names: Sequence[str]
    found: dict[str, dict[str, list[list[dict[str, Any]]]]] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """One for each pair."""
        return 2 * (self.rounds + 1) * len(self.names)

    def measure(self, stage: Stage) -> None:
        """Have pairs compute; the first round, which loads kernels, does not count."""
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
                    with_backups, without = (one, other) if number % 2 else (other, one)
                    for way, beside in ((NONE, without), (PLAIN, plain)):
                        stage.progress.step(f"round {number} of {self.rounds}, beside {way}")
                        commands = {
                            child: {"measure": name, "backups": child is with_backups}
                            for child in (with_backups, beside)
                        }
                        pair = contenders.ask_together(commands, _LIMIT_S)
                        if number:
                            self.found.setdefault(name, {}).setdefault(way, []).append(pair)

    def sheets(self) -> Sequence[Sheet]:
        """Return one table: means, and the means of the paired differences with their intervals."""
        heads = ["benchmark", BACKUPS, *(f"over {way}" for way in (NONE, PLAIN)), "backups"]
        rows = []
        for name, ways in self.found.items():
            backed_up = [first for pairs in ways.values() for first, _ in pairs]
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
            f"CPU time of all 4 places, in user and in system mode: means of {2 * self.rounds} computations",
            f"over others: by {self.rounds} pairs side by side, the mean with its 95 % interval, and the median",
            "backups: made in a computation, when one is due, or with a bag that is given away",
        ]

    def as_json(self) -> dict[str, Any]:
        """Return all answers, too."""
        return super().as_json() | {"found": self.found}


_READY_S: Final = 60.0
_LIMIT_S: Final = 120.0


def beside_others(pairs: Sequence[tuple[float, float]]) -> str:
    """Say by how much the first of each pair is more than the second."""
    from scheduler_bridge.experiments.comparison import t_quantile  # loads matplotlib, which no place of a job needs

    more = [100 * (one / other - 1) for one, other in pairs]
    reach = t_quantile(len(pairs) - 1) * statistics.stdev(more) / math.sqrt(len(pairs))
    return f"{statistics.fmean(more):+.2f} % ± {reach:.2f}, {statistics.median(more):+.2f}"


if __name__ == "__main__":
    apgas.run(main)
