"""The costs of balancing: the balancer's rates beside those of the bare kernel: ``python -m benchmarks.balance``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Annotated, Final

from apgas.errors import extras_named

with extras_named():
    import typer

    from ..compare import command_line
    from ..compare.child import Child, ContenderFailed, cpu_s, environment
    from ..compare.display import Sheet, written
    from ..compare.engine import OURS, Comparison, Contenders, Line, Stage, Turn, carry_out, medians_of
    from ..harness.errors import BadUsage
    from ..uts.tree import MAX_DEPTH
    from .catalogue import MEASURES, PACED_DEPTH, PACED_ORDERS, PACED_RATE, Measure

MAX_NAP_S: Final = 10.0
READY_S: Final = 120.0
WARM_UP_DEPTH: Final = 11
_PROGRAM: Final = (sys.executable, "-m", f"{__package__}.programs")


def _command(
    rounds: command_line.Rounds = 5,
    measures: Annotated[str, typer.Option(help="What to measure, as a,b.", show_default=",".join(MEASURES))] = "",
    depth: Annotated[int, typer.Option(help="Depth of the UTS tree that is searched.")] = 15,
    nap: Annotated[float, typer.Option(help="Seconds of a long task, which sleeps.")] = 2.0,
    json: command_line.Json = None,
    quiet: command_line.Quiet = False,
) -> int:
    """Measure what balancing costs: the balancer's rates beside those of the bare kernel.

    Example: python -m benchmarks.balance --measures one,workers
    """
    if not 1 <= depth <= MAX_DEPTH:
        raise BadUsage(f"--depth {depth}", f"a tree has 1 to {MAX_DEPTH} levels", "give another --depth")
    if not 0 < nap <= MAX_NAP_S:
        raise BadUsage(f"--nap {nap:g}", f"a nap lasts up to {MAX_NAP_S:g} s", "give another --nap")
    names = command_line.chosen("--measures", measures, MEASURES) or MEASURES
    asked = Balance(rounds=rounds, measures=[MEASURES[name] for name in names], depth=depth, nap_s=nap)
    return carry_out(asked, json, quiet)


main = partial(command_line.main, f"python -m {__package__}", _command)


@dataclass(kw_only=True)
class Balance(Comparison):
    """The balancer beside bare kernels. Within a round both are asked in turn, and the figure is their ratio."""

    name = "balance"
    title = "What balancing costs"

    measures: Sequence[Measure]
    depth: int = 15
    nap_s: float = 2.0

    def __post_init__(self) -> None:
        for measure in self.measures:
            self.expect(measure.name, measure.quantities, {OURS: "the balancer"})

    @property
    def steps(self) -> int:
        """One for each measure and round."""
        return self.rounds * len(self.measures)

    def measure(self, stage: Stage) -> None:
        """Measure everything."""
        env = environment(stage.folder)
        for measure in self.measures:
            stage.progress.begin(measure.name, f"rounds: {self.rounds}")
            with Contenders(stage) as running:
                ask = partial(self._anew, stage, measure, env)
                if measure.naps is None or measure.naps.order is None:
                    try:
                        # one after the other, so that only the first one compiles
                        kernels = [running.start([*_PROGRAM, "bare"], env, READY_S) for _ in measure.kernels]
                        balancer = running.start(_balancer(measure), env, READY_S)
                        if kernels:
                            self._ours(measure, running, balancer, WARM_UP_DEPTH)
                    except ContenderFailed as error:
                        self.failures[measure.name, OURS] = str(error)
                        continue
                    ask = partial(self._round, measure, running, balancer, kernels)
                self.take_turns(stage, measure.name, [Turn(OURS, "the balancer", ask, measure.quantities)])

    def _anew(self, stage: Stage, measure: Measure, env: Mapping[str, str]) -> dict[str, float]:
        """Ask a balancer that was started for this round: one that was resized has other places."""
        with Contenders(stage) as running:
            return self._round(measure, running, running.start(_balancer(measure), env, READY_S), ())

    def _round(
        self, measure: Measure, running: Contenders, balancer: Child, kernels: Sequence[Child]
    ) -> dict[str, float]:
        if measure.naps is not None:
            naps = {"measure": "naps", **asdict(measure.naps), "nap_s": self.nap_s}
            return running.ask(balancer, naps, measure.limit_s)
        if not measure.kernels:
            command = {"measure": "paced", "orders": PACED_ORDERS, "rate": PACED_RATE, "depth": PACED_DEPTH}
            return running.ask(balancer, command, measure.limit_s)
        commands = {
            kernel: {"measure": "kernels", "processes": processes, "depth": self.depth}
            for kernel, processes in zip(kernels, measure.kernels, strict=True)
        }
        answers = running.ask_together(commands, measure.limit_s)
        bare = {key: sum(answer[key] for answer in answers) for key in ("tasks", "rate", "cpu_s")}
        ours = self._ours(measure, running, balancer, self.depth)
        found = {}
        if any(quantity.key == "twin" for quantity in measure.quantities):
            twin = running.ask(kernels[0], {"measure": "twin", "depth": self.depth}, measure.limit_s)
            if "absent" not in twin:
                found = {"twin": ours["rate"] / twin["rate"], "twin_cpu": _per_cpu_s(ours) / _per_cpu_s(twin)}
        return {
            **found,
            "rate": ours["rate"] / bare["rate"],
            "cpu": _per_cpu_s(ours) / _per_cpu_s(bare),
            **{key: ours[key] for key in ("tail_s", "starving")},
        }

    def _ours(self, measure: Measure, running: Contenders, balancer: Child, depth: int) -> dict[str, float]:
        """Let the balancer compute; the CPU seconds are those of all its processes, mpiexec included."""
        processes = balancer.processes()
        before_s = cpu_s(processes)
        command = {"measure": "compute", "workers": measure.workers, "depth": depth}
        answer = running.ask(balancer, command, measure.limit_s)
        return {**answer, "cpu_s": cpu_s(processes) - before_s}

    def sheets(self) -> list[Sheet]:
        """Return one table: what, median, from lowest to highest, goal, verdict."""
        return [Sheet(("what", "median", "rounds", "goal", ""), "lrrrl", [[_row(line) for line in self.lines]])]

    def remarks(self) -> list[str]:
        """Say how to read the table, and what failed."""
        rounds = medians_of(self.rounds, "") + (", the bare kernels interleaved" if self.rounds > 1 else "")
        return [
            f"{rounds}; rates of a machine that does other things, too, say little: see CPU",
            *(f"{measure} FAILED: {reason}" for (measure, _), reason in self.failures.items()),
        ]

    def as_json(self) -> dict[str, object]:
        """Return the content of the JSON file; there is one contender, and a goal at the most."""
        return super().as_json() | {
            "lines": [_line_as_json(line) for line in self.lines],
            "failures": {measure: reason for (measure, _), reason in self.failures.items()},
        }


def _balancer(measure: Measure) -> list[str]:
    return ["mpiexec", "-n", str(measure.places), *_PROGRAM, "glb"]


def _per_cpu_s(found: Mapping[str, float]) -> float:
    return found["tasks"] / found["cpu_s"]


def _row(line: Line) -> list[str]:
    figures, unit = line.rounds[OURS], line.quantity.unit
    verdict = next((verdict.met for verdict in line.verdicts), None)
    return [
        line.quantity.title,
        written(median(figures), unit) if figures else "-",
        f"{written(min(figures), unit)} to {written(max(figures), unit)}" if figures else "",
        "".join(line.goals_spoken()),
        "" if verdict is None else "met" if verdict else "MISSED",
    ]


def _line_as_json(line: Line) -> dict[str, object]:
    figures = line.rounds[OURS]
    return {
        "measure": line.measure,
        "key": line.quantity.key,
        "what": line.quantity.title,
        "unit": line.quantity.unit,
        "median": median(figures) if figures else None,
        "goal": next(iter(line.goals_spoken()), None),
        "met": next((verdict.met for verdict in line.verdicts), None),
        "runs": figures,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
