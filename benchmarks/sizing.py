"""Jobs that size themselves beside jobs of fixed sizes: ``python -m benchmarks.sizing``.

Each program runs at some fixed sizes, side by side, and then with ``--target-efficiency`` from half of the largest one.
The best fixed size is the largest one that takes no more node-seconds than the target allows, beside the smallest one.
Places share one machine, so each is held to a rate, or its tasks sleep: how busy a place is does not depend on the
cores then, as long as the machine is not overloaded.
"""

from __future__ import annotations

import json as json_text
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from importlib import import_module
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import apgas
import glb
from apgas import arrays
from apgas.arrays.stepping import sizing_of_loops
from apgas.errors import extras_named
from apgas.runtime.program import program as program_of_job

with extras_named():
    import msgspec
    import typer

    from .balance.naps import NapBag, Naps
    from .compare import command_line, display
    from .compare.child import environment
    from .harness.errors import BadUsage
    from .harness.measurement import ResultFile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PROGRAM: Final = "python -m benchmarks.sizing"
_NAP_S: Final = 0.02
_START_S: Final = 300.0
"""A run that lasts so much longer than its node-seconds is given up."""
_LOADING_S: Final = 8.0
"""While the runs at fixed sizes load, which takes all cores of a small machine, no run sizes itself beside them."""
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
    "bc": Program(("bc", "--scale", "14"), 16_384),
    "pi": Program(("pi", "--samples", "1e7"), 10_000_000),
    **{name: Program(("sizing", "--arrays", name)) for name in ("jacobi", "conjugate_gradient", "k_means", "n_body")},
    "synthetic": Program(("synthetic", "--work", "0.2", "--tasks", "4e3", "--dynamic"), 4_000),
    "phases": Program(("sizing", "--phases", "many,few,many")),
    "narrowing": Program(("sizing", "--phases", "many,few")),
    "widening": Program(("sizing", "--phases", "few,many")),
}


# Programs with phases: many tasks, or work for two nodes only -------------------------------------------------------

FEW_SHARE: Final = 0.2
"""The share of the work that is in a phase with few tasks."""


def _phases(phases: str, work_s: float, sizing: apgas.Sizing | None, file: str) -> None:
    """Compute in phases, and write down how that went."""
    config = glb.Config(workers=1, granularity=1, target_efficiency=sizing)
    names = phases.split(",")
    many_s = (1 - FEW_SHARE) * work_s / names.count("many")
    lengths_s = {"many": [_NAP_S] * round(many_s / _NAP_S), "few": [FEW_SHARE / 2 * work_s] * 2}
    began_s = time.monotonic()
    run = Run(0.0, 0.0, verified=True)
    for name in names:
        from_s = time.monotonic() - began_s
        lasting = list(lengths_s[name])
        outcome = glb.compute(NapBag.whole(len(lasting), lasting), Naps, config)
        run.verified = run.verified and len(outcome.result.numbers) == len(lasting)
        run.held += [(at_s + from_s, nodes) for at_s, nodes in outcome.held]
        run.looks += [(look.at_s + from_s, look.nodes, look.efficiency, look.wanted) for look in outcome.looks]
    run.end(time.monotonic() - began_s)
    run.write(file)


# Programs with arrays: those of the examples, whose functions take as long as their rows are many -------------------

EXAMPLES: Final = Path(__file__).parents[1] / "docs" / "examples"


@dataclass(frozen=True)
class ArrayProgram:
    """An example of arrays: how large it is, on how many rows its functions work, and how many it runs in each step."""

    constants: Mapping[str, int]
    rows: int
    functions: int = 1


_SIDE: Final = 16
ARRAY_PROGRAMS: Final = {
    "jacobi": ArrayProgram({"HEIGHT": 480, "WIDTH": 200, "STEPS": 300}, 480),
    "conjugate_gradient": ArrayProgram(
        {"SIDE": _SIDE, "ROWS": _SIDE**3, "REACH": _SIDE**2 + _SIDE + 1, "STEPS": 100}, _SIDE**3, functions=2
    ),
    "k_means": ArrayProgram({"POINTS": 4800, "STEPS": 200}, 4800),
    "n_body": ArrayProgram({"BODIES": 240, "STEPS": 300}, 240),
}


class Slowed:
    """Stands for ``apgas.arrays`` in an example: functions take ``row_s`` for each row, and loops size themselves."""

    def __init__(self, name: str, row_s: float, sizing: apgas.Sizing | None) -> None:
        self._name = name
        self._row_s = row_s
        self._sizing = sizing

    def __getattr__(self, name: str) -> object:
        return getattr(arrays, name)

    def steps(self, count: int) -> Iterator[int]:
        """Number the steps of a loop."""
        return arrays.steps(count, target_efficiency=self._sizing)

    def update_blocks(self, fn: Callable[..., object], *args: object) -> None:
        """Run a function of the example, slowly."""
        arrays.update_blocks(partial(_slowly, self._name, fn.__name__, self._row_s), *args)

    def reduce_blocks(self, fn: Callable[..., object], *args: object, wait: bool = True) -> object:
        """Run a function of the example, slowly, and reduce what it returns."""
        slow = fn.__name__ != "<lambda>"  # which prepares the loop
        return arrays.reduce_blocks(
            partial(_slowly, self._name, fn.__name__, self._row_s) if slow else fn, *args, wait=wait
        )


def _slowly(name: str, fn: str, row_s: float, block: Any, *args: object) -> object:
    until_s = time.monotonic() + row_s * len(block.rows)
    value = getattr(_example(name), fn)(block, *args)
    time.sleep(max(0.0, until_s - time.monotonic()))
    return value


@cache
def _example(name: str) -> Any:
    """The module of an example, on any place, with the constants with which it is measured."""
    module = import_module(name)
    vars(module).update(ARRAY_PROGRAMS[name].constants)
    return module


def _prepare(name: str) -> None:
    """Functions that make arrays are found by name, and constants with them."""
    _example(name)


def _arrays(name: str, work_s: float, sizing: apgas.Sizing | None, file: str) -> None:
    """Run an example, and write down how that went."""
    program, example, resizing = ARRAY_PROGRAMS[name], _example(name), program_of_job().resizing
    apgas.gather(_prepare, name)
    row_s = work_s / (program.constants["STEPS"] * program.functions * program.rows)
    example.arrays = Slowed(name, row_s, sizing)
    printed, nodes = StringIO(), len(apgas.nodes())
    began_s = time.monotonic()
    with redirect_stdout(printed):
        example.main("")
    run = Run(0.0, 0.0, verified=None, printed=printed.getvalue(), held=[(0.0, nodes)])
    ended_s = time.monotonic()
    # nodes are held from the beginning of a grow to the end of a shrink, as in glb
    changes = [
        (zero_ns / 1e9 + record.at_s + (record.seconds if record.kind == "shrink" else 0.0), record)
        for record, zero_ns in zip(resizing.records, resizing.records_zero_ns, strict=True)
        if record.outcome == "done"
    ]
    for at_s, record in sorted(changes, key=lambda change: change[0]):
        if at_s < ended_s:
            nodes += record.n if record.kind == "grow" else -record.n
            run.held.append((at_s - began_s, nodes))
    run.end(ended_s - began_s)
    if (sized := sizing_of_loops()) is not None:
        run.looks = [(each.at_s, each.nodes, each.efficiency, each.wanted) for each in sized.looks_since(began_s)]
    run.write(file)


# The measurement -----------------------------------------------------------------------------------------------------


@dataclass
class Run:
    """One run: its seconds and node-seconds, since when it held how many nodes, and what it measured."""

    seconds: float
    node_seconds: float
    verified: bool | None
    held: list[tuple[float, int]] = field(default_factory=list)
    looks: list[tuple[float, int, float, int]] = field(default_factory=list)
    printed: str = ""

    def end(self, seconds: float) -> None:
        """It has ended after ``seconds``."""
        self.seconds = seconds
        ends_s = [*(at_s for at_s, _ in self.held[1:]), seconds]
        self.node_seconds = sum(nodes * (end_s - at_s) for (at_s, nodes), end_s in zip(self.held, ends_s, strict=True))

    def write(self, file: str) -> None:
        """Write it down."""
        Path(file).write_bytes(msgspec.json.encode(self))

    @classmethod
    def read(cls, file: Path) -> Run:
        """Read what a run, or a benchmark, has written; benchmarks write more."""
        return msgspec.json.decode(file.read_bytes(), type=cls)

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
        runs = (*self.fixed.values(), self.sized)
        wrong = [run for run in runs if run.verified is False or run.printed != self.sized.printed]
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
    """Where programs run; at its end, none does.

    Each has ``work_s`` node-seconds. The largest of ``sizes``, which ascend, bounds jobs that size themselves.
    """

    def __init__(self, folder: Path, work_s: float, target: float, sizes: Sequence[int]) -> None:
        self._folder = folder
        self._work_s = work_s
        self._target = target
        self._sizes = sizes
        self._running: list[subprocess.Popen[str]] = []
        self._starting = threading.Lock()
        self._sizing = threading.Lock()
        self._over = False
        self._env = environment(folder)
        self._env["PYTHONPATH"] += f"{os.pathsep}{EXAMPLES}"

    def end(self) -> None:
        """End what still runs, and let nothing begin."""
        with self._starting:
            self._over = True
        for process in self._running:
            process.terminate()

    def run(self, name: str, nodes: int, *, fixed: bool) -> Run:
        """Run a program from a size on, or at it; raise ``RuntimeError`` if it fails, or does not end."""
        program, file = PROGRAMS[name], self._folder / f"{name}-{nodes}-{fixed}.json"
        module, *words = program.words
        if program.tasks:
            words += ["--workers", "1", "--quiet", "--json", str(file), "--rate", str(program.tasks / self._work_s)]
            words += [] if fixed else ["--target-efficiency", str(self._target), "--max-nodes", str(self._sizes[-1])]
        else:
            words += [str(self._work_s), str(0 if fixed else self._target), str(self._sizes[-1]), str(file)]
        command = ["mpiexec", "-n", str(nodes), sys.executable, "-m", f"{__package__}.{module}", *words]
        with self._starting:
            if self._over:
                raise RuntimeError(f"{name} on {nodes} nodes does not begin any more")
            to = subprocess.PIPE
            process = subprocess.Popen(command, text=True, env=self._env, stdout=to, stderr=to)
            self._running.append(process)
        try:
            errors = process.communicate(timeout=self._work_s + _START_S)[1]
        except subprocess.TimeoutExpired:
            process.terminate()
            raise RuntimeError(f"{name} on {nodes} nodes does not end") from None
        if process.returncode:
            raise RuntimeError(f"{name} on {nodes} nodes ended with {process.returncode}: {errors[-2000:]}")
        return Run.read(file)

    def compare(self, name: str) -> Found:
        """Run a program at all sizes at once, and then sizing itself, as ``run`` does."""
        with ThreadPoolExecutor(len(self._sizes)) as pool:
            with self._sizing:
                runs = [pool.submit(self.run, name, size, fixed=True) for size in self._sizes]
                wait(runs, _LOADING_S)
            fixed = [run.result() for run in runs]
        with self._sizing:
            sized = self.run(name, max(1, self._sizes[-1] // 2), fixed=False)
        return Found(name, dict(zip(self._sizes, fixed, strict=True)), sized, self._target)


# The picture ---------------------------------------------------------------------------------------------------------


def draw(found: Found) -> Figure:
    """Draw the nodes of the run that sizes itself over time, and how busy they were."""
    run, facts = found.sized, found.summary()
    red = display.COLOURS[1]
    times_s = [at_s for at_s, _ in run.held] + [run.seconds]
    figure, above, below = display.draw_sizes(times_s, [nodes for _, nodes in run.held], "nodes held")
    above.axhline(found.best, color=display.GREY, linewidth=0.8, linestyle="--")
    above.text(run.seconds, found.best, f" best fixed: {found.best}", color=display.GREY, fontsize=8, va="center")
    wishes = [(at_s, nodes, wanted) for at_s, nodes, _, wanted in run.looks if wanted]
    for at_s, nodes, wanted in wishes:
        above.plot([at_s], [nodes], "^" if wanted > 0 else "v", color=red, markersize=5, clip_on=False)
    above.set_title(
        f"{found.name}: {facts['node-seconds beside it']} times the node-seconds of the best fixed size in "
        f"{facts['seconds beside it']} times its runtime; marks: what the job asked for",
        loc="left", fontsize=10,
    )  # fmt: skip
    below.plot([look[0] for look in run.looks], [100 * look[2] for look in run.looks], color=red, linewidth=1.0)
    below.axhline(100 * found.target, color=display.GREY, linewidth=0.8, linestyle="--")
    below.text(run.seconds, 100 * found.target, " target", color=display.GREY, fontsize=8, va="center")
    below.set(ylim=(0, 104), ylabel="busy, %")
    return figure


# The command line ----------------------------------------------------------------------------------------------------


def _command(
    programs: Annotated[str, typer.Option(help="Which, separated by commas.")] = ",".join(PROGRAMS),
    sizes: Annotated[
        str, typer.Option(help="Fixed sizes; the largest one bounds the job that sizes itself.")
    ] = "2,4,6,8",
    work_s: Annotated[float, typer.Option("--work", min=1, help="Node-seconds of each program.")] = 280.0,
    at_once: Annotated[int, typer.Option(min=1, help="How many programs run at once.")] = 2,
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
    display.check_picture(figure)
    ResultFile(json).reserve()
    results: list[Found] = []
    with (
        command_line.interruptible(),
        tempfile.TemporaryDirectory(prefix="malleable-sizing-") as folder,
        command_line.RunProgress(len(chosen), quiet) as progress,
        ThreadPoolExecutor(at_once) as pool,
    ):
        stage = Stage(Path(folder), work_s, target, fixed)
        try:
            progress.begin("sizing", f"{work_s:g} node-seconds each")
            for found in pool.map(stage.compare, chosen):
                results.append(found)
                progress.step(found.name)
                typer.echo(f"{found.name}: " + ", ".join(f"{key} {value}" for key, value in found.summary().items()))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stage.end()
            raise
        reached = sum(found.summary()["goal"] is True for found in results)
        typer.echo(f"{reached} of {len(results)} programs reach the goal")
    if json is not None:
        kept = [{"summary": found.summary(), **asdict(found)} for found in results]
        json.write_text(json_text.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if figure is not None:
        draw(results[-1]).savefig(figure)
    return 0 if all(found.summary()["exact"] for found in results) else 1


if __name__ == "__main__":
    if sys.argv[1:2] in (["--phases"], ["--arrays"]):
        what, name, work_s, target, most, file = sys.argv[1:]
        sizing = apgas.Sizing(target=float(target), max_nodes=int(most)) if float(target) else None
        apgas.run(_phases if what == "--phases" else _arrays, name, float(work_s), sizing, file)
    else:
        sys.exit(command_line.main(_PROGRAM, _command, sys.argv[1:]))
