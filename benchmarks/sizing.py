"""Jobs that size themselves beside jobs of fixed sizes: ``python -m benchmarks.sizing``.

Each program runs at some fixed sizes, and then with ``--target-efficiency`` from half of the largest one. The best
fixed size is the largest one that takes no more node-seconds than the target allows, beside the smallest one. Places
share one machine, so each is held to a rate, or its tasks sleep: how busy a place is does not depend on the cores then,
as long as the machine is not overloaded.
"""

from __future__ import annotations

import json as json_text
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import apgas
import glb
from apgas.errors import extras_named

with extras_named():
    import typer

    from .balance.bags import NapBag, Naps
    from .compare import command_line
    from .harness.errors import BadUsage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PROGRAM: Final = "python -m benchmarks.sizing"
_NAP_S: Final = 0.02
_START_S: Final = 300.0
"""A run that lasts so much longer than its node-seconds is given up."""
GOAL: Final = (1.05, 1.1, 2)
"""Node-seconds and seconds beside the best fixed size, and changes of direction: at most."""


@dataclass(frozen=True)
class Program:
    """What is run.

    Attributes:
        words: The benchmark's name and options.
        tasks: How many tasks it has, from which the rate follows; 0: it takes the node-seconds itself.
    """

    words: tuple[str, ...]
    tasks: int = 0


PROGRAMS: Final[Mapping[str, Program]] = {
    "uts": Program(("uts", "--depth", "10"), 4_130_071),
    "nqueens": Program(("nqueens", "-n", "11"), 33_409),
    "bc": Program(("bc", "--scale", "9"), 512),
    "pi": Program(("pi", "--samples", "1e7"), 10_000_000),
    "synthetic": Program(("synthetic", "--work", "0.2", "--tasks", "4e3", "--dynamic"), 4_000),
    "phases": Program(("sizing", "--phases")),
}


# A program with phases: many tasks, few tasks, many tasks ------------------------------------------------------------


def _phases(work_s: float, target: float | None, most: int, file: str) -> None:
    """Compute in three phases, of which the second one has work for two nodes only, and write down how that went."""
    sizing = None if target is None else apgas.Sizing(target=target, max_nodes=most)
    config = glb.Config(workers=1, granularity=1, target_efficiency=sizing)
    many, few = [_NAP_S] * round(0.4 * work_s / _NAP_S), [0.1 * work_s] * 2
    began_s = time.monotonic()
    run = Run(0.0, 0.0, verified=True)
    for lengths_s in (many, few, many):
        from_s = time.monotonic() - began_s
        outcome = glb.compute(NapBag.whole(lengths_s), Naps, config)
        run.verified = run.verified and len(outcome.result.numbers) == len(lengths_s)
        run.held += [(at_s + from_s, nodes) for at_s, nodes in outcome.held]
        run.looks += [(look.at_s + from_s, look.nodes, look.efficiency, look.wanted) for look in outcome.looks]
    run.seconds = time.monotonic() - began_s
    ends_s = [*(at_s for at_s, _ in run.held[1:]), run.seconds]
    run.node_seconds = sum(nodes * (end_s - at_s) for (at_s, nodes), end_s in zip(run.held, ends_s, strict=True))
    Path(file).write_text(json_text.dumps(asdict(run)), encoding="utf-8")


# The measurement -----------------------------------------------------------------------------------------------------


@dataclass
class Run:
    """One run: its seconds and node-seconds, since when it held how many nodes, and what it measured."""

    seconds: float
    node_seconds: float
    verified: bool | None
    held: list[tuple[float, int]] = field(default_factory=list)
    looks: list[tuple[float, int, float, int]] = field(default_factory=list)

    @classmethod
    def read(cls, file: Path) -> Run:
        """Read what a run has written."""
        found = json_text.loads(file.read_text(encoding="utf-8"))
        known = {name: found[name] for name in ("seconds", "node_seconds", "verified")}
        return cls(**known, held=[*map(tuple, found["held"])], looks=[*map(tuple, found["looks"])])

    @property
    def turns(self) -> int:
        """How often it changed from growing to shrinking, or back."""
        signs = [after > before for (_, before), (_, after) in pairwise(self.held) if after != before]
        return sum(one != other for one, other in pairwise(signs))


@dataclass(frozen=True)
class Found:
    """What came out for one program."""

    name: str
    fixed: Mapping[int, Run]
    sized: Run
    target: float

    @property
    def best(self) -> int:
        """The best fixed size."""
        least = self.fixed[min(self.fixed)].node_seconds
        return max(size for size, run in self.fixed.items() if least >= self.target * run.node_seconds)

    def summary(self) -> dict[str, object]:
        """The figures."""
        best = self.fixed[self.best]
        used, took = self.sized.node_seconds / best.node_seconds, self.sized.seconds / best.seconds
        wrong = [run for run in (*self.fixed.values(), self.sized) if run.verified is False]
        return {
            "best fixed size": self.best,
            "its seconds": round(best.seconds, 2),
            "its node-seconds": round(best.node_seconds, 1),
            "node-seconds beside it": round(used, 3),
            "seconds beside it": round(took, 3),
            "turns": self.sized.turns,
            "goal": used <= GOAL[0] and took <= GOAL[1] and self.sized.turns <= GOAL[2],
            "exact": not wrong,
        }


class Stage:
    """Where programs run.

    Args:
        folder: For what they write.
        work_s: Node-seconds of each.
        target: The efficiency.
        most: The largest size.
    """

    def __init__(self, folder: Path, work_s: float, target: float, most: int) -> None:
        self._folder = folder
        self._work_s = work_s
        self._target = target
        self._most = most

    def run(self, name: str, nodes: int, *, fixed: bool) -> Run:
        """Run a program from a size on, or at it.

        Raises:
            RuntimeError: It fails, or does not end.
        """
        program, file = PROGRAMS[name], self._folder / f"{name}-{nodes}-{fixed}.json"
        module, *words = program.words
        if program.tasks:
            words += ["--workers", "1", "--quiet", "--json", str(file), "--rate", str(program.tasks / self._work_s)]
            words += [] if fixed else ["--target-efficiency", str(self._target), "--max-nodes", str(self._most)]
        else:
            words += [str(self._work_s), str(0 if fixed else self._target), str(self._most), str(file)]
        command = ["mpiexec", "-n", str(nodes), sys.executable, "-m", f"{__package__}.{module}", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=self._work_s + _START_S, check=False)
        if done.returncode:
            raise RuntimeError(f"{name} on {nodes} nodes ended with {done.returncode}: {done.stderr[-2000:]}")
        return Run.read(file)

    def compare(self, name: str, sizes: Sequence[int]) -> Iterator[tuple[str, Run]]:
        """Run a program at all ``sizes``, and then sizing itself."""
        for size in sizes:
            yield str(size), self.run(name, size, fixed=True)
        yield "", self.run(name, max(1, self._most // 2), fixed=False)


# The picture ---------------------------------------------------------------------------------------------------------


def draw(found: Found) -> Figure:
    """Draw the nodes of the run that sizes itself over time, and how busy they were."""
    from scheduler_bridge.report import charts
    from scheduler_bridge.report.looks import OKABE_ITO

    figure = charts.sheet(5.4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1.2))
    run, facts = found.sized, found.summary()
    blue, red = OKABE_ITO[4], OKABE_ITO[5]
    times = [at_s for at_s, _ in run.held] + [run.seconds]
    sizes = [nodes for _, nodes in run.held]
    above.stairs(sizes, times, fill=True, color=blue, alpha=0.35)
    above.stairs(sizes, times, color=blue, linewidth=0.8, baseline=None)
    above.axhline(found.best, color=charts.GREY, linewidth=0.8, linestyle="--")
    above.text(run.seconds, found.best, f" best fixed: {found.best}", color=charts.GREY, fontsize=8, va="center")
    wishes = [(at_s, nodes, wanted) for at_s, nodes, _, wanted in run.looks if wanted]
    for at_s, nodes, wanted in wishes:
        above.plot([at_s], [nodes], "^" if wanted > 0 else "v", color=red, markersize=5, clip_on=False)
    above.set(ylim=(0, max(sizes) + 0.7), ylabel="nodes held", yticks=range(max(sizes) + 1))
    above.set_title(
        f"{found.name}: {facts['node-seconds beside it']} times the node-seconds of the best fixed size in "
        f"{facts['seconds beside it']} times its runtime; marks: what the job asked for",
        loc="left", fontsize=10,
    )  # fmt: skip
    below.plot([look[0] for look in run.looks], [100 * look[2] for look in run.looks], color=red, linewidth=1.0)
    below.axhline(100 * found.target, color=charts.GREY, linewidth=0.8, linestyle="--")
    below.text(run.seconds, 100 * found.target, " target", color=charts.GREY, fontsize=8, va="center")
    below.set(xlim=(0, run.seconds), ylim=(0, 104), xlabel="seconds", ylabel="busy, %")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


# The command line ----------------------------------------------------------------------------------------------------


def _command(
    programs: Annotated[str, typer.Option(help="Which, separated by commas.")] = ",".join(PROGRAMS),
    sizes: Annotated[
        str, typer.Option(help="Fixed sizes; the largest one bounds the job that sizes itself.")
    ] = "1,2,4,6,8",
    work_s: Annotated[float, typer.Option("--work", min=1, help="Node-seconds of each program.")] = 240.0,
    target: Annotated[float, typer.Option("--target-efficiency", help="What jobs hold.")] = 0.9,
    json: command_line.Json = None,
    figure: command_line.Figure = None,
    quiet: command_line.Quiet = False,
) -> int:
    """Compare jobs that size themselves with the best fixed size. Exit code 1: a result was wrong.

    The figure shows the last program.

    Example: python -m benchmarks.sizing --programs uts,phases --figure sizing.png
    """
    chosen = command_line.chosen("--programs", programs, PROGRAMS)
    try:
        fixed = sorted({int(size) for size in sizes.split(",")})
    except ValueError:
        fixed = []
    if not fixed or fixed[0] < 1:
        raise BadUsage(f"--sizes {sizes}", "sizes are numbers of nodes", "give them like --sizes 1,2,4,8")
    if not 0 < target < 1 or not chosen:
        raise BadUsage(f"--target-efficiency {target:g}", "it is a share of 1, and a program is needed", "give 0.9")
    results = []
    with (
        tempfile.TemporaryDirectory(prefix="malleable-sizing-") as folder,
        command_line.RunProgress(len(chosen) * (len(fixed) + 1), quiet) as progress,
    ):
        stage = Stage(Path(folder), work_s, target, fixed[-1])
        for name in chosen:
            progress.begin(name, f"{work_s:g} node-seconds")
            runs = {}
            for size, run in stage.compare(name, fixed):
                progress.step(f"on {size} nodes" if size else "sizing itself")
                runs[size] = run
            sized = runs.pop("")
            results.append(Found(name, {int(size): run for size, run in runs.items()}, sized, target))
            typer.echo(f"{name}: " + ", ".join(f"{key} {value}" for key, value in results[-1].summary().items()))
    if json is not None:
        kept = [{"summary": found.summary(), **asdict(found)} for found in results]
        json.write_text(json_text.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if figure is not None:
        draw(results[-1]).savefig(figure)
    return 0 if all(found.summary()["exact"] for found in results) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--phases"]:
        of_phases = (float(sys.argv[2]), float(sys.argv[3]) or None, int(sys.argv[4]), sys.argv[5])
        apgas.run(_phases, *of_phases)
    else:
        sys.exit(command_line.main(_PROGRAM, _command, sys.argv[1:]))
