"""Take nodes back from a run that harvests them, again and again: ``python -m benchmarks.harvest``, within a Slurm.

launch/emulated-cluster --slurm --preemption --hosts 5 -- python -m benchmarks.harvest --preemptions 100

One program computes on a node of its own and on those that it harvests from a partition. Jobs of another partition want
nodes, at random, one or two at a time, each briefly: Slurm warns the program, which has 10 s to leave. Emulated
nodes share one machine, so each computes at a fixed rate: what the program should have done by its end is known from
how many nodes computed when.
"""

from __future__ import annotations

import json as json_text
import math
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import apgas
import glb
from apgas.errors import extras_named
from apgas.testing.handlers import ReleaseNewest

with extras_named():
    import typer

    from scheduler_bridge.backends.slurm import Loan, read_loans
    from scheduler_bridge.backends.slurm.harvest import LOANS

    from .compare import command_line, display
    from .harness.errors import BadUsage
    from .harness.measurement import ResultFile
    from .harness.ranges import RangeBag

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PROGRAM: Final = "python -m benchmarks.harvest"
_RATE: Final = 2000.0
"""Tasks a second of each node."""
_CALL_S: Final = 0.02
_LOOK_S: Final = 0.05


# The program: adds numbers up, at a fixed rate -----------------------------------------------------------------------


class Sums:
    """How many numbers there were, their sum, and that of their squares."""

    def __init__(self) -> None:
        self.found = [0, 0, 0]

    def merge(self, other: Sums) -> None:
        """Fold ``other`` into this result."""
        self.found = [mine + its for mine, its in zip(self.found, other.found, strict=True)]

    @classmethod
    def of(cls, count: int) -> list[int]:
        """What comes out for the numbers below ``count``."""
        return [count, count * (count - 1) // 2, (count - 1) * count * (2 * count - 1) // 6]


class Numbers(RangeBag[Sums, None]):
    """Numbers to be added up."""

    releases_gil = False
    result = Sums

    def _compute(self, first: int, last: int, partial: Sums) -> None:
        numbers = range(first, last)
        sums = (len(numbers), sum(numbers), sum(number * number for number in numbers))
        partial.found = [mine + its for mine, its in zip(partial.found, sums, strict=True)]


class Watch(ReleaseNewest):
    """Notes how many places compute, and since when. A place that is to leave does not from then on."""

    def __init__(self) -> None:
        self.sizes: list[tuple[float, int]] = []

    def note(self, *_: object, leaving: int = 0) -> None:
        """The members have changed, are about to, or stay."""
        self.sizes.append((time.time(), len(apgas.places()) - leaving))

    postShrink = postGrow = shrinkAborted = note  # type: ignore[assignment]  # they are called by position

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        """The balancer chooses."""
        self.note(leaving=nb_places)
        return ()


def _program(count: int, file: str) -> None:
    """Add ``count`` numbers up, and write down how that went."""
    watch = Watch()
    glb.set_user_handler(watch)
    apgas.on_place_failure(watch.note)
    began_s = time.time()
    watch.note()
    config = glb.Config(workers=1, rate=_RATE, granularity=int(_RATE * _CALL_S))
    outcome = glb.compute(Numbers.whole(count, None), Sums, config)
    ended_s = time.time()
    exact = outcome.result.found == Sums.of(count) and outcome.statistics.tasks == count
    run = {"began_s": began_s, "ended_s": ended_s, "sizes": watch.sizes, "exact": exact, "tasks": count}
    Path(file).write_text(json_text.dumps(run), encoding="utf-8")


# The measurement -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One run of the program."""

    began_s: float
    ended_s: float
    sizes: list[tuple[float, int]]
    exact: bool
    tasks: int

    @property
    def used_s(self) -> float:
        """The node-seconds in which nodes computed."""
        ends = [*(at_s for at_s, _ in self.sizes[1:]), self.ended_s]
        return sum(nodes * (end_s - at_s) for (at_s, nodes), end_s in zip(self.sizes, ends, strict=True))

    @property
    def over(self) -> float:
        """How much longer it took than the nodes that computed need for it."""
        return self.used_s / (self.tasks / _RATE) - 1


@dataclass
class Found:
    """What came out."""

    plain: Run
    taken: Run
    loans: list[Loan] = field(default_factory=list)
    free_s: list[float] = field(default_factory=list)

    @property
    def preemptions(self) -> list[Loan]:
        """The loans that Slurm has ended."""
        return [loan for loan in self.loans if loan.warned_s is not None or loan.lost]

    @property
    def left_s(self) -> list[float]:
        """The seconds from each warning until nothing of the program was on the node."""
        return sorted(
            loan.left_s - loan.warned_s
            for loan in self.preemptions
            if loan.left_s is not None and loan.warned_s is not None
        )

    @property
    def over(self) -> float:
        """How much longer the run took than the nodes that computed need for it, beside a plain run."""
        return (1 + self.taken.over) / (1 + self.plain.over) - 1

    def summary(self) -> dict[str, Any]:
        """The figures."""
        return {
            "exact": self.plain.exact and self.taken.exact,
            "preemptions": len(self.preemptions),
            "lost": sum(loan.lost for loan in self.preemptions),
            "seconds": round(self.taken.ended_s - self.taken.began_s, 1),
            "left_p50_s": round(quantile(self.left_s, 0.5), 3),
            "left_p95_s": round(quantile(self.left_s, 0.95), 3),
            "free_p95_s": round(quantile(sorted(self.free_s), 0.95), 3),
            "node_seconds": round(self.taken.used_s, 1),
            "over": round(self.over, 4),
            "over_plain_run": round(self.plain.over, 4),
        }


def quantile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of the sorted ``values`` do not exceed; not a number if there are none."""
    return values[max(0, math.ceil(share * len(values)) - 1)] if values else math.nan


class Site:
    """A Slurm, and a folder for what is run.

    Args:
        folder: For scripts, output and state.
        harvest: The partition whose nodes are harvested.
        wanted: The partition whose jobs take them back.
        nodes: How many nodes the program may have.
    """

    def __init__(self, folder: Path, harvest: str, wanted: str, nodes: int) -> None:
        self._folder = folder
        self._harvest = harvest
        self._wanted = wanted
        self._nodes = nodes

    def run(self, name: str, tasks: int, meanwhile: Callable[[Path, int], None]) -> tuple[Run, list[Loan]]:
        """Run the program; ``meanwhile`` is called with its books and the number of its job."""
        file, state = self._folder / f"{name}.json", self._folder / name
        compute = [sys.executable, "-m", "benchmarks.harvest", "--program", str(tasks), str(file)]
        harvest = ["--harvest", self._harvest, "--harvest-every", "0.1", "--max-nodes", str(self._nodes)]
        words = [sys.executable, "-m", "scheduler_bridge.cli", "slurm", "run", *harvest, "--state", str(state)]
        job = self._submit(f"exec {shlex.join([*words, '--', *compute])}", f"--output={self._folder / name}.out")
        meanwhile(state / LOANS, job)
        self.until_over(job)
        if not file.exists():
            said = (self._folder / f"{name}.out").read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"the program has not ended well: {said[-2000:]}")
        run = Run(**json_text.loads(file.read_text(encoding="utf-8")))
        return run, list(read_loans(state / LOANS))

    def want(self, node: str, hold_s: float, number: int) -> int:
        """Have a job take ``node`` for a short time; it writes down when it has it."""
        script = f"date +%s.%N > {self._folder}/free-{number}; sleep {hold_s}"
        return self._submit(script, f"--nodelist={node}", "--output=/dev/null")

    def free_s(self, number: int) -> float:
        """When that job had it."""
        return float((self._folder / f"free-{number}").read_text(encoding="utf-8"))

    def until_over(self, job: int) -> None:
        """Wait for the end of a job."""
        while self.lives(job):
            time.sleep(4 * _LOOK_S)

    def lives(self, job: int) -> bool:
        """Whether a job has not ended."""
        return self._ask("squeue", "--noheader", f"--jobs={job}", "--states=all", "--format=%T").strip() in _ALIVE

    def _submit(self, script: str, *options: str) -> int:
        like = ("--parsable", "--nodes=1", "--exclusive", f"--partition={self._wanted}")
        return int(self._ask("sbatch", *like, *options, text=f"#!/bin/sh\ncd {Path.cwd()}\n{script}\n"))

    def _ask(self, *words: str, text: str = "") -> str:
        return subprocess.run(words, input=text, capture_output=True, text=True, check=True, timeout=60).stdout


_ALIVE: Final = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING")


def measure(site: Site, preemptions: int, nodes: int, hold_s: float, seed: int) -> Found:
    """Run the program without preemptions, then with them."""
    chance = random.Random(seed)
    jobs: list[tuple[str, int]] = []
    plain, _ = site.run("plain", int(_RATE * nodes * min(20, 4 + preemptions)), lambda *_: None)

    def held(books: Path) -> list[str]:
        return [loan.node for loan in read_loans(books) if loan.to_s is None and loan.warned_s is None]

    def preempt(books: Path, program: int) -> None:
        while len(jobs) < preemptions and site.lives(program):
            while len(held(books)) < nodes - 1 and site.lives(program):
                time.sleep(4 * _LOOK_S)
            time.sleep(chance.uniform(0.5, 2.0))
            candidates = held(books)
            now = [
                (node, site.want(node, hold_s, len(jobs) + number))
                for number, node in enumerate(chance.sample(candidates, min(len(candidates), chance.choice((1, 2)))))
            ]
            jobs.extend(now)
            for _, job in now:
                site.until_over(job)
            if sys.stderr.isatty():
                typer.echo(f"harvest: {len(jobs)} of {preemptions}", err=True)

    # as often as not two happen at once, and on two cores it takes some seconds until all nodes are there again
    tasks = int(_RATE * (nodes - 1) * (10 + 4.0 * preemptions))
    taken, loans = site.run("taken", tasks, preempt)
    found = Found(plain, taken, loans)
    for number, (node, _) in enumerate(jobs):
        free_s = site.free_s(number)
        warned = [loan.warned_s for loan in loans if loan.node == node and loan.warned_s is not None]
        if before := [at_s for at_s in warned if at_s <= free_s]:
            found.free_s.append(free_s - max(before))
    return found


# The picture ---------------------------------------------------------------------------------------------------------


def draw(found: Found) -> Figure:
    """Draw the size over time, the preemptions, and how soon each node was left."""
    run, zero_s = found.taken, found.taken.began_s
    times_s = [at_s - zero_s for at_s, _ in run.sizes] + [run.ended_s - zero_s]
    sizes = [nodes for _, nodes in run.sizes]
    figure, above, below = display.draw_sizes(times_s, sizes, "nodes that compute")
    marks = [loan.warned_s - zero_s for loan in found.preemptions if loan.warned_s is not None]
    above.plot(marks, [max(sizes) + 0.35] * len(marks), "v", color=display.COLOURS[1], markersize=4, clip_on=False)
    facts = found.summary()
    above.set_title(
        f"{facts['preemptions']} preemptions (marks), {facts['lost']} nodes lost; one node is the program's own; "
        f"runtime {100 * facts['over']:+.1f} % beside what the nodes that computed need",
        loc="left", fontsize=10,
    )  # fmt: skip
    pairs = [(loan.warned_s, loan.left_s) for loan in found.preemptions]
    left = [(at_s - zero_s, left_s - at_s) for at_s, left_s in pairs if at_s is not None and left_s is not None]
    below.plot(*zip(*left, strict=True), "o", color=display.COLOURS[1], markersize=3)
    below.axhline(1.0, color=display.GREY, linewidth=0.8)
    below.set(ylim=(0, None), ylabel="left after, s")
    below.set_title(
        f"from the warning until the node is left: {facts['left_p95_s']:.2f} s (95 %)", loc="left", fontsize=10
    )
    return figure


# The command line ----------------------------------------------------------------------------------------------------


def _command(
    preemptions: Annotated[int, typer.Option(min=1, help="How many.")] = 100,
    nodes: Annotated[int, typer.Option(min=2, help="The most that the program may have, its own among them.")] = 5,
    hold_s: Annotated[float, typer.Option("--hold", min=0.1, help="For so long, in s, others have a node.")] = 1.0,
    harvest: Annotated[str, typer.Option(help="The partition that is preempted.")] = "spare",
    wanted: Annotated[
        str, typer.Option(help="The partition of those who preempt, and of the program itself.")
    ] = "main",
    seed: Annotated[int, typer.Option(help="Of what is taken when.")] = 1,
    json: command_line.Json = None,
    figure: command_line.Figure = None,
) -> int:
    """Take nodes back from a run that harvests them. Exit code 1: the result was not exact."""
    try:
        subprocess.run(("scontrol", "ping"), capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise BadUsage(
            _PROGRAM, "there is no Slurm here", f"launch/emulated-cluster --slurm --preemption -- {_PROGRAM}"
        ) from None
    display.check_picture(figure)
    ResultFile(json).reserve()
    with tempfile.TemporaryDirectory(prefix="malleable-harvest-") as folder:
        found = measure(Site(Path(folder), harvest, wanted, nodes), preemptions, nodes, hold_s, seed)
    facts = found.summary()
    for name, value in facts.items():
        typer.echo(f"{name:16}{value}")
    if json is not None:
        json.write_text(json_text.dumps({"summary": facts, **asdict(found)}, indent=1) + "\n", encoding="utf-8")
    if figure is not None:
        draw(found).savefig(figure)
    return 0 if facts["exact"] else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--program"]:
        apgas.run(_program, int(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(command_line.main(_PROGRAM, _command, sys.argv[1:]))
