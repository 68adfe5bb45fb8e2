"""What backups cost while no place dies: a contender that computes a benchmark, with and without them."""

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
    """Compute once, with backups or not; return the time that it took, and the CPU time of all places together."""
    benchmark = PROBLEMS[command["measure"]]()
    config = glb.Config(workers=1, warm_up=benchmark.warm_up, granularity=benchmark.default_granularity)
    config = replace(config, backup_s=config.backup_s if command["backups"] else None)
    before = [apgas.at(place, cpu_s) for place in apgas.places()]
    outcome = glb.compute(benchmark.make_bag(None), benchmark.make_result, config)
    after = [apgas.at(place, cpu_s) for place in apgas.places()]
    return {"time": outcome.seconds, "CPU time": sum(after) - sum(before), "backups": outcome.statistics.backups}


def main() -> None:
    """Serve."""
    Channel().serve(dict.fromkeys(PROBLEMS, compute))


# Who asks it ---------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Overhead(Comparison):
    """Computations with and without backups, in turns.

    Attributes:
        names: The benchmarks.
        found: The answers, by benchmark and way.
    """

    name = "survival"
    title = "What backups cost while no place dies"
    essential: ClassVar[tuple[str, ...]] = (BACKUPS, NONE, PLAIN)

    names: Sequence[str]
    found: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """One for each computation."""
        return 3 * (self.rounds + 1) * len(self.names)

    def measure(self, stage: Stage) -> None:
        """Ask both jobs in turns, forwards and backwards; the first round, which loads kernels, does not count."""
        env = environment(stage.folder)
        program = [sys.executable, "-m", f"{__package__}.overhead"]
        with Contenders(stage) as contenders:
            resilient = contenders.start([sys.executable, "-m", "apgas.survive", "-n", "4", *program], env, _READY_S)
            plain = contenders.start(["mpiexec", "-n", "4", *program], env, _READY_S)
            ways = {BACKUPS: (resilient, True), NONE: (resilient, False), PLAIN: (plain, False)}
            for name in self.names:
                stage.progress.begin(name, f"{self.rounds} rounds")
                for number in range(self.rounds + 1):
                    for way in list(ways)[:: -1 if number % 2 else 1]:
                        child, backups = ways[way]
                        stage.progress.step(f"round {number} of {self.rounds}, {way}")
                        answer = contenders.ask(child, {"measure": name, "backups": backups}, _LIMIT_S)
                        if number:
                            self.found.setdefault(name, {}).setdefault(way, []).append(answer)

    def sheets(self) -> Sequence[Sheet]:
        """Return one table: means, and the means of the paired differences with their intervals."""
        heads = ["benchmark", "", BACKUPS, NONE, PLAIN, f"backups over {NONE}", f"backups over {PLAIN}"]
        rows = []
        for name, ways in self.found.items():
            for what in ("CPU time", "time"):
                values = {way: [answer[what] for answer in answers] for way, answers in ways.items()}
                means = [f"{statistics.fmean(values[way]):.3f} s" for way in (BACKUPS, NONE, PLAIN)]
                rows.append([name, what, *means, *(_beside(values[BACKUPS], values[way]) for way in (NONE, PLAIN))])
        return [Sheet(heads, "ll" + "r" * 5, [rows])]

    def remarks(self) -> Sequence[str]:
        """Return how to read the table."""
        counts = [answer["backups"] for ways in self.found.values() for answer in ways[BACKUPS]]
        return [
            f"means of {self.rounds} interleaved rounds, and of the paired differences with the 95 % interval",
            "CPU time: of all 4 places, in user and in system mode",
            f"backups made in a computation: {min(counts)} to {max(counts)}",
        ]

    def as_json(self) -> dict[str, Any]:
        """Return all answers, too."""
        return super().as_json() | {"found": self.found}


_READY_S: Final = 60.0
_LIMIT_S: Final = 120.0


def _beside(ours: Sequence[float], theirs: Sequence[float]) -> str:
    base = statistics.fmean(theirs)
    differences = [100 * (mine - other) / base for mine, other in zip(ours, theirs, strict=True)]
    reach = t_quantile(len(ours) - 1) * statistics.stdev(differences) / math.sqrt(len(ours))
    return f"{statistics.fmean(differences):+.2f} % ± {reach:.2f}"


def t_quantile(freedom: int) -> float:
    """Return the quantile of Student's t distribution at 0.975, by its expansion, which is good from 5 on."""
    z = statistics.NormalDist().inv_cdf(0.975)
    terms: tuple[float, ...] = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + math.fsum(term / freedom**power for power, term in enumerate(terms, 1))


if __name__ == "__main__":
    apgas.run(main)
