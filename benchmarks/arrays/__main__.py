"""Programs with arrays beside their rigid twins, and how fast rows move: ``python -m benchmarks.arrays``."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Final, NamedTuple

from apgas.errors import extras_named

with extras_named():
    import typer

    from ..compare import command_line
    from ..compare.child import Child, ContenderFailed, environment
    from ..compare.display import Sheet, ratio_written, written
    from ..compare.engine import OURS, Comparison, Contenders, Goal, Line, Quantity, Stage, Turn, carry_out, medians_of
    from ..harness.errors import BadUsage
    from .contenders import EXAMPLES

RIGID: Final = "rigid"
ECHO: Final = "echo"
STILL: Final = "still"
BARE: Final = "bare"
DASK: Final = "dask"
LABELS: Final = {
    OURS: "arrays",
    RIGID: "rigid twin",
    ECHO: "echo",
    STILL: "normal step",
    BARE: "bare processes",
    DASK: "Dask",
}
READY_S: Final = 60.0
LIMIT_S: Final = 600.0


@dataclass(frozen=True)
class Problem:
    """A program: its constants when it is measured, and for a look."""

    title: str
    constants: Mapping[str, int]
    small: Mapping[str, int]


def _grid(side: int, steps: int) -> dict[str, int]:
    return {"SIDE": side, "ROWS": side**3, "REACH": side**2 + side + 1, "STEPS": steps}


PROBLEMS: Final = {
    "jacobi": Problem("Jacobi", {"HEIGHT": 3000, "WIDTH": 3000, "STEPS": 150}, {"HEIGHT": 60, "WIDTH": 60, "STEPS": 9}),
    "conjugate_gradient": Problem("conjugate gradient", _grid(112, 50), _grid(12, 20)),
    "k_means": Problem("k-means", {"POINTS": 500_000, "STEPS": 20}, {"POINTS": 1000, "STEPS": 20}),
    "n_body": Problem("N-body", {"BODIES": 2000, "STEPS": 20}, {"BODIES": 60, "STEPS": 20}),
}
MOVE: Final = "move"
FRESH: Final = "move_fresh"
REST_S: Final = {MOVE: 0.0, FRESH: 4.0}
"""How long all rest before rows move: the host of a virtual machine takes memory back that was free for so long."""
BACKGROUND: Final = "background"
WITH_DASK: Final = importlib.util.find_spec("distributed") is not None
MEASURES: Final = (*PROBLEMS, MOVE, FRESH, BACKGROUND, *[DASK] * WITH_DASK)
"""Dask is beside Jacobi, once more and by itself: its idle processes look around many times a second."""
MOVE_PLACES: Final = 4
MOVE_BYTES: Final = 1 << 30
SMALL_BYTES: Final = 1 << 22
ECHO_BYTES: Final = 64 << 20
BACKGROUND_BYTES: Final = 256 << 20


def _command(
    rounds: command_line.Rounds = 5,
    measures: Annotated[str, typer.Option(help="What to measure, as a,b.", show_default=",".join(MEASURES))] = "",
    places: Annotated[int, typer.Option(help="Places, and ranks of the twins.")] = 2,
    json: command_line.Json = None,
    quick: command_line.Quick = False,
    quiet: command_line.Quiet = False,
) -> int:
    """Measure steps a second of programs with arrays beside those of their rigid twins, and how fast rows move.

    Example: python -m benchmarks.arrays --measures jacobi,move
    """
    if places < 1:
        raise BadUsage(f"--places {places}", "there must be at least 1 place", "give --places 1 or more")
    if not EXAMPLES.is_dir():
        raise BadUsage(
            f"{EXAMPLES}: no such folder", "the programs are those of docs/examples", "run it in the sources"
        )
    names = command_line.chosen("--measures", measures, MEASURES) or MEASURES
    return carry_out(Arrays(rounds=rounds, names=names, places=places, quick=quick), json, quiet)


main = partial(command_line.main, f"python -m {__package__}", _command)


class Asked(NamedTuple):
    """What a contender is asked: its program, on how many processes, and the command."""

    program: str
    processes: int
    command: Mapping[str, object]


def measure_of(name: str, places: int, quick: bool) -> tuple[Quantity, Mapping[str, Asked]]:
    """Return what is measured, and what each contender is asked for that; ``places``: those of the programs."""
    if name in REST_S:
        moved, echoed = (SMALL_BYTES, SMALL_BYTES) if quick else (MOVE_BYTES, ECHO_BYTES)
        move = {"measure": "move", "bytes": moved, "pairs": MOVE_PLACES // 2, "rest_s": REST_S[name] * (not quick)}
        echo = {"measure": "echo", "bytes": echoed, "n": 20, "limit_s": 2.0}
        beside = {ECHO: Asked(OURS, MOVE_PLACES, echo), BARE: Asked(BARE, 1, move)}
        if name == FRESH:
            del beside[ECHO]
        fresh = ", into memory not used before" if REST_S[name] else ""
        goals = tuple(Goal(">=", 0.7, who) for who in beside)
        quantity = Quantity("bytes_per_s", f"bytes of an array that move in a grow{fresh}", "B/s", goals)
        return quantity, {OURS: Asked(OURS, MOVE_PLACES, move), **beside}
    if name == BACKGROUND:
        size = SMALL_BYTES if quick else BACKGROUND_BYTES
        during, still = ({"measure": what, "bytes": size} for what in ("steps_during", "steps_still"))
        quantity = Quantity("step_s", "a step during a copy in the background", "s", (Goal("<=", 1.1, STILL),))
        return quantity, {OURS: Asked(OURS, MOVE_PLACES, during), STILL: Asked(OURS, MOVE_PLACES, still)}
    program = "jacobi" if name == DASK else name
    constants = PROBLEMS[program].small if quick else PROBLEMS[program].constants
    command = {"measure": "steps", "program": program, "constants": constants}
    ours = Asked(OURS, places, command)
    if name == DASK:
        quantity = Quantity("per_s", "Jacobi, steps", "1/s", (Goal(">=", 1.0, DASK),))
        return quantity, {OURS: ours, DASK: Asked(DASK, 1, command)}
    quantity = Quantity("per_s", f"{PROBLEMS[name].title}, steps", "1/s", (Goal(">=", 0.95, RIGID),))
    return quantity, {OURS: ours, RIGID: Asked(RIGID, places, command)}


@dataclass(kw_only=True)
class Arrays(Comparison):
    """Programs and their twins, asked in turn; and rows that move, beside the echo of the same places."""

    name = "arrays"
    title = "Arrays that move beside rigid twins"
    essential: ClassVar[tuple[str, ...]] = (OURS, RIGID, ECHO, STILL, BARE)

    names: Sequence[str]
    places: int
    quick: bool

    def __post_init__(self) -> None:
        self._measures = {name: measure_of(name, self.places, self.quick) for name in self.names}
        for name, (quantity, asked) in self._measures.items():
            self.expect(name, [quantity], {who: LABELS[who] for who in asked})

    @property
    def steps(self) -> int:
        """All contenders of a measure are asked in each round."""
        return self.rounds * sum(len(asked) for _, asked in self._measures.values())

    def measure(self, stage: Stage) -> None:
        """Measure everything."""
        for name in self.names:
            stage.progress.begin(name, f"rounds: {self.rounds}")
            with Contenders(stage) as running:
                try:
                    self.take_turns(stage, name, self._turns(stage, running, name))
                except ContenderFailed as error:
                    self.failures[name, OURS] = f"it did not start: {error}"

    def _turns(self, stage: Stage, running: Contenders, name: str) -> list[Turn]:
        quantity, asked = self._measures[name]
        children: dict[str, Child] = {}
        turns = []
        for who, (program, processes, command) in asked.items():
            if program not in children:
                bound = ["-bind-to", "core"] * (name in PROBLEMS and processes <= len(os.sched_getaffinity(0)))
                words = ["mpiexec", *bound, "-n", str(processes), sys.executable, "-m", f"{__package__}.contenders"]
                words += [program, *[str(self.places)] * (program == DASK)]
                children[program] = running.start(words, environment(stage.folder), READY_S)
            ask = partial(running.ask, children[program], command, LIMIT_S)
            turns.append(Turn(who, LABELS[who], ask, [quantity]))
        return turns

    def sheets(self) -> list[Sheet]:
        """Return one table: what, ours, what it is compared with, goal, verdict."""
        return [Sheet(("what", "arrays", "beside", "goal", "reached"), "lrrll", [[_row(line) for line in self.lines]])]

    def remarks(self) -> list[str]:
        """Say how to read the table, and what failed."""
        look = ["a look at small problems: these are no figures"] if self.quick else []
        return [
            f"{medians_of(self.rounds)}, {self.places} places and ranks; in brackets: ours over theirs",
            "programs and twins: each place and rank is bound to a core, where there are as many",
            f"{MOVE}: from {MOVE_PLACES // 2} to {MOVE_PLACES} places; echo: of one array, there and back",
            f"{FRESH}: the same into memory that the system has not used for {REST_S[FRESH]:g} s",
            "bare processes: the same number of pairs, which copy the same rows through shared memory",
            f"{BACKGROUND}: a step on {MOVE_PLACES // 2} places while an array is copied to {MOVE_PLACES}, and without",
            *([] if WITH_DASK else ['Dask is not installed: pip install -e ".[peers]"']),
            *look,
            *(f"{LABELS[who]} FAILED in {measure}: {reason}" for (measure, who), reason in self.failures.items()),
        ]

    def as_json(self) -> dict[str, object]:
        """Return the content of the JSON file."""
        return super().as_json() | {"places": self.places, "quick": self.quick, "failures": self.failures_as_json()}


def _row(line: Line) -> list[str]:
    unit, medians = line.quantity.unit, line.medians
    beside = []
    for who in line.rounds:
        if who != OURS and who in medians:
            share = f" ({ratio_written(line.ratios[who])})" if who in line.ratios else ""
            beside.append(f"{written(medians[who], unit)} {LABELS[who]}{share}")
    ours = written(medians[OURS], unit) if OURS in medians else "-"
    return [line.quantity.title, ours, "\n".join(beside) or "-", *line.goal_cells()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
