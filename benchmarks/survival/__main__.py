"""Benchmarks whose places are killed with `kill -9`: ``python -m benchmarks.survival``."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import cycle
from typing import Annotated, Any, ClassVar, Final, Literal

from apgas.errors import extras_named

with extras_named():
    import typer

    from ..compare import command_line
    from ..compare.child import ContenderFailed, environment
    from ..compare.contender import percentile
    from ..compare.display import Sheet, written
    from ..compare.engine import Comparison, Contenders, Stage, carry_out
    from ..harness.errors import BadUsage
    from .overhead import Overhead

NAMES: Final = ("uts", "nqueens", "bc", "pi")
_LAUNCHERS: Final = (
    ("apgas.survive", "-n", "4", sys.executable),
    ("apgas.launch", "--resilient", "-n", "4", sys.executable),
)
_KILLS_A_JOB: Final = 10
_GOAL_S: Final = 1.0
_LIMIT_S: Final = 600.0
_FEWEST_ROUNDS: Final = 6


def _command(
    kills: Annotated[int, typer.Option(help="How many places to kill, in all benchmarks together.")] = 200,
    seed: Annotated[int, typer.Option(help="Decides who is killed, and about when.")] = 1,
    benchmarks: Annotated[str, typer.Option(help="Which to run, as a,b.", show_default=",".join(NAMES))] = "",
    overhead: Annotated[
        int, typer.Option(help="Kill no place, but measure what backups cost, in this many rounds.", show_default=False)
    ] = 0,
    quick: command_line.Quick = False,
    json: command_line.Json = None,
    quiet: command_line.Quiet = False,
) -> int:
    """Kill places of the benchmarks with `kill -9`; say whether the results are exact, and how soon work goes on.

    Example: python -m benchmarks.survival --kills 20 --benchmarks uts,pi
    """
    if kills < 1:
        raise BadUsage(f"--kills {kills}", "at least 1 place has to be killed", "give --kills 1 or more")
    names = command_line.chosen("--benchmarks", benchmarks, NAMES) or NAMES
    if quick and not overhead:
        raise BadUsage("--quick", "there are small problems for --overhead only", "give --kills 10 for a look")
    if overhead:
        if overhead < _FEWEST_ROUNDS:
            raise BadUsage(f"--overhead {overhead}", "an interval needs more rounds", f"give {_FEWEST_ROUNDS} or more")
        with extras_named():
            import_module("scheduler_bridge.experiments.comparison")  # for the intervals: what it lacks is said at once
        return carry_out(Overhead(rounds=overhead, names=names, quick=quick), json, quiet)
    return carry_out(Survival(rounds=1, kills=kills, first_seed=seed, names=names), json, quiet)


main = partial(command_line.main, f"python -m {__package__}", _command)


@dataclass(kw_only=True)
class Survival(Comparison):
    """What became of computations whose places were killed; ``jobs`` is what each job found out, by benchmark."""

    name = "survival"
    title = "Benchmarks whose places are killed with kill -9"
    essential: ClassVar[tuple[str, ...]] = NAMES

    kills: int
    first_seed: int
    names: Sequence[str]
    jobs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def seed(self) -> object:
        """The seed of the first job; the next ones follow."""
        return self.first_seed

    @property
    def steps(self) -> int:
        """One for each job."""
        return -(-self.kills // _KILLS_A_JOB)

    @property
    def complete(self) -> bool:
        """Whether every result is exact, and no job has failed."""
        return self.ended and not self.failures and all(run["exact"] for run in self._all("runs", self.names))

    def measure(self, stage: Stage) -> None:
        """Run one job after another, each until it has lost enough places."""
        left = self.kills
        launchers = cycle(_LAUNCHERS)
        for number, name in zip(range(self.steps), cycle(self.names), strict=False):
            most = min(left, _KILLS_A_JOB)
            left -= most
            stage.progress.begin(name, f"job {number + 1} of {self.steps}, {most} places to kill")
            stage.progress.step(f"job {number + 1} of {self.steps}")
            folder = stage.folder / str(number)
            folder.mkdir()
            seed = self.first_seed + number // len(self.names)
            words = [f"{__package__}.program", name, str(seed), str(folder), str(most)]
            command = [sys.executable, "-m", *next(launchers), "-m", *words]
            with Contenders(stage) as contenders:
                try:
                    found = contenders.start(command, environment(stage.folder)).answer(_LIMIT_S)
                except ContenderFailed as error:
                    self.failures[name, name] = f"seed {seed}: {error}"
                    continue
            self.jobs.setdefault(name, []).append(found)

    def _all(self, kind: Literal["runs", "kills"], names: Sequence[str]) -> list[dict[str, Any]]:
        return [each for name in names for job in self.jobs.get(name, ()) for each in job[kind]]

    def sheets(self) -> Sequence[Sheet]:
        """Return one table: a row for each benchmark, and one for all."""
        heads = ["benchmark", "computations", "exact", "killed", "newcomers", "leavers", "at once"]
        heads += ["recovery: median", "p95", "longest", "a backup", "at place 0"]
        rows = [self._row(name, [name]) for name in self.names]
        whole = [self._row("all", self.names)] if len(self.names) > 1 else []
        return [Sheet(heads, "l" + "r" * (len(heads) - 1), [rows, whole] if whole else [rows])]

    def _row(self, title: str, names: Sequence[str]) -> list[str]:
        runs, kills = self._all("runs", names), self._all("kills", names)
        what = [kill["what"] for kill in kills]
        recovered = sorted(kill["recovered_s"] for kill in kills if kill["recovered_s"] is not None)
        times = [statistics.median(recovered), percentile(recovered, 0.95), recovered[-1]] if recovered else []
        backups = sum(run["backups"] for run in runs)
        mean = sum(run["backup_bytes"] for run in runs) / backups if backups else 0
        return [
            title,
            str(len(runs)),
            str(sum(run["exact"] for run in runs)),
            str(len(kills)),
            str(what.count("newcomer")),
            str(what.count("leaver")),
            str(sum(kill["together"] > 1 for kill in kills)),
            *([written(value, "s") for value in times] or ["-"] * 3),
            f"{mean:,.0f} B",
            f"{max((run['kept_bytes'] for run in runs), default=0):,} B",
        ]

    def remarks(self) -> Sequence[str]:
        """Return how to read the table, whether the goals were reached, and what failed."""
        runs, kills = self._all("runs", self.names), self._all("kills", self.names)
        recovered = [kill["recovered_s"] for kill in kills if kill["recovered_s"] is not None]
        longest = max(recovered, default=0.0)
        wrong = [run for run in runs if not run["exact"]]
        return [
            f"results: {'all exact' if not wrong else f'WRONG: {wrong}'}",
            f"recovery within {written(_GOAL_S, 's')}: {'met' if longest <= _GOAL_S else 'MISSED'}",
            "recovery: from the kill until what the place had to do was dealt to others",
            f"{len(kills) - len(recovered)} places had nothing to do when they were killed",
            "a backup: the mean bytes of bags in a message to place 0; at place 0: the most that it has kept",
            *(f"{name} failed: {why}" for (_, name), why in self.failures.items()),
        ]

    def as_json(self) -> dict[str, object]:
        """Return all kills and computations of all jobs, too."""
        failures = [f"{name}: {why}" for (_, name), why in self.failures.items()]
        return super().as_json() | {"jobs": self.jobs, "failures": failures}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
