"""The runtime's costs, beside the machine's floor and beside other runtimes: ``python -m benchmarks.overheads``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, ClassVar, Final

from apgas.errors import extras_named

with extras_named():
    import typer

    from ..compare import command_line
    from ..compare.child import Child, ContenderFailed, cpu_s
    from ..compare.display import Sheet, ratio_written, written
    from ..compare.engine import OURS, Comparison, Contenders, Line, Stage, Turn, carry_out, medians_of
    from .catalogue import (
        FLOORS,
        LABELS,
        MEASURES,
        PEERS,
        Case,
        Measure,
        contenders_environment,
        hello_command,
        keep_bytecode,
        start_command,
        why_missing,
    )

READY_S: Final = 120.0
_COMPUTE: Final = """
import select, sys
while not select.select([sys.stdin], [], [], 0)[0]:
    sum(range(100_000))
"""
"""A process of ``load``, until its input ends."""
_ASKED_FOR: Final = ", ".join(name for name, measure in MEASURES.items() if measure.asked_for)
SETTLE_S: Final = 1.0
"""Between the start of idle contenders and the look at them: their last work of starting is done."""


def _command(
    rounds: command_line.Rounds = 5,
    measures: Annotated[
        str,
        typer.Option(help=f"What to measure, as a,b, of {', '.join(MEASURES)}.", show_default=f"all but {_ASKED_FOR}"),
    ] = "",
    peers: Annotated[
        str | None, typer.Option(help="Which peers to measure beside us, as a,b.", show_default=",".join(PEERS))
    ] = None,
    load: Annotated[int, typer.Option(help="Processes that compute beside all of it, per core.", min=0, max=64)] = 0,
    json: command_line.Json = None,
    quiet: command_line.Quiet = False,
) -> int:
    """Measure what the runtime costs, beside the machine's floor and beside other runtimes.

    Example: python -m benchmarks.overheads --measures rtt,throughput
    """
    return carry_out(plan(rounds, measures, ",".join(PEERS) if peers is None else peers, load), json, quiet)


main = partial(command_line.main, f"python -m {__package__}", _command)


def plan(rounds: int, measures: str, peers: str, load: int = 0) -> Overheads:
    """Return the comparison that the options ask for.

    Raises:
        BadUsage: There is no such measure or peer, or nothing to do.
    """
    usual = [name for name, measure in MEASURES.items() if not measure.asked_for]
    names = command_line.chosen("--measures", measures, MEASURES) or usual
    taking_part = (OURS, *FLOORS, *command_line.chosen("--peers", peers, PEERS))
    return Overheads(rounds=rounds, measures=[MEASURES[name] for name in names], contenders=taking_part, load=load)


@dataclass(kw_only=True)
class Overheads(Comparison):
    """The costs of the runtime: the contenders of each measure are started together, asked in turn, and ended.

    Attributes:
        contenders: Who takes part if it is installed.
        load: How many processes per core compute beside them, from the first measure to the last.
        missing: Why a contender does not take part, by contender.
    """

    name = "overheads"
    title = "What the runtime costs"
    packages: ClassVar[tuple[str, ...]] = ("ray", "distributed")
    essential: ClassVar[tuple[str, ...]] = (OURS, *FLOORS)

    measures: Sequence[Measure]
    contenders: Sequence[str] = (OURS, *FLOORS, *PEERS)
    load: int = 0
    missing: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._cpus = tuple(sorted(os.sched_getaffinity(0))[:2])
        for measure in self.measures:
            for case in measure.cases:
                self.expect(measure.name, case.quantities, {name: LABELS[name] for name in case.contenders})
            if measure.note:
                self.notes.append(measure.note)
        if self.load:
            self.notes.append(f"processes that computed beside it, per core: {self.load}")

    @property
    def steps(self) -> int:
        """One for each contender, case and round."""
        return sum(self.rounds_of(measure) * len(asked(measure)) for measure in self.measures)

    def rounds_of(self, measure: Measure) -> int:
        """Return the number of rounds of one measure."""
        return self.rounds if measure.rounds is None else min(self.rounds, measure.rounds)

    def command(self, name: str, measure: Measure) -> list[str]:
        """Return the command line that starts a contender for a measure."""
        return start_command(name, measure, self._cpus if len(self._cpus) == 2 else ())

    def hello(self, name: str, measure: Measure) -> list[str]:
        """Return the command line whose start is measured."""
        return hello_command(name, measure)

    def measure(self, stage: Stage) -> None:
        """Measure everything."""
        for name in dict.fromkeys(name for measure in self.measures for name in measure.contenders):
            reason = "left out" if name not in self.contenders else why_missing(name)
            if reason:
                self.missing[name] = reason
        keep_bytecode()
        if len(self._cpus) < 2 and any(measure.pinned for measure in self.measures):
            self.notes.append("one core only: nothing was pinned")
        environment = contenders_environment(stage.folder)
        with Contenders(stage) as others:
            for _ in range(self.load * len(os.sched_getaffinity(0))):
                others.start([sys.executable, "-S", "-c", _COMPUTE], os.environ)
            for measure in self.measures:
                present = [name for name in measure.contenders if name not in self.missing]
                title = f"{', '.join(LABELS[name] for name in present)}, rounds: {self.rounds_of(measure)}"
                stage.progress.begin(measure.name, title)
                self._measure(stage, measure, present, {**environment, **measure.environment})

    def _measure(self, stage: Stage, measure: Measure, present: Sequence[str], env: Mapping[str, str]) -> None:
        if measure.kind == "start":
            asks = {name: partial(_start_time, stage, self.hello(name, measure), env) for name in present}
            (case,) = measure.cases
            turns = [Turn(name, LABELS[name], ask, case.quantities) for name, ask in asks.items()]
            self.take_turns(stage, measure.name, turns, self.rounds_of(measure))
            return
        with Contenders(stage) as running:
            children = self._started(stage, running, measure, present, env)
            if measure.kind == "idle":
                self._idle(stage, measure, children)
                return
            turns = [
                Turn(
                    name,
                    LABELS[name],
                    partial(running.ask, children[name], case.command, case.limit_s),
                    case.quantities,
                )
                for case, name in asked(measure)
                if name in children
            ]
            self.take_turns(stage, measure.name, turns, self.rounds_of(measure))

    def _started(
        self,
        stage: Stage,
        running: Contenders,
        measure: Measure,
        names: Sequence[str],
        env: Mapping[str, str],
    ) -> dict[str, Child]:
        """Start contenders one after another, so that none disturbs another's start."""
        children = {}
        for name in names:
            stage.progress.note(f"starting {LABELS[name]}")
            try:
                children[name] = running.start(self.command(name, measure), env, READY_S)
            except ContenderFailed as error:
                self.failures[measure.name, name] = str(error)
        return children

    def _idle(self, stage: Stage, measure: Measure, children: Mapping[str, Child]) -> None:
        """Watch all contenders at once."""
        (case,) = measure.cases
        seconds = float(str(case.command["seconds"]))
        stage.progress.step(f"watching for {seconds:g} s")
        time.sleep(SETTLE_S)
        processes = {name: child.processes() for name, child in children.items()}
        before = {name: cpu_s(pids) for name, pids in processes.items()}
        began_s = time.monotonic()
        time.sleep(seconds)
        for name, pids in processes.items():
            if len(pids) < measure.places:
                self.failures[measure.name, name] = f"{len(pids)} of its processes are to be seen"
                continue
            used_s = cpu_s(pids) - before[name]
            share = used_s / (time.monotonic() - began_s) / measure.places
            self.add(measure.name, case.quantities, name, {"share": share})

    @property
    def peers(self) -> list[str]:
        """The peers that have a figure somewhere, in the order of the catalogue."""
        others = (name for name in LABELS if name not in (OURS, *FLOORS))
        return [name for name in others if any(line.rounds.get(name) for line in self.lines)]

    def sheets(self) -> list[Sheet]:
        """Return one table: what, ours, the floor if there is one, each peer that has a figure, goals, verdicts."""
        floors = ["floor"] if any(map(_floor, self.lines)) else []
        columns = [*floors, *(LABELS[peer] for peer in self.peers)]
        heads = ("what", "ours", *columns, "goal", "reached")
        rows = [[_row(line, self.peers, floors)] for line in self.lines]
        return [Sheet(heads, "lr" + "r" * len(columns) + "ll", rows)]

    def remarks(self) -> list[str]:
        """Say who is missing, what failed, and how to read the table."""
        lines = [f"{medians_of(self.rounds)}; in brackets: ours over theirs", *self.notes]
        lines += [f"{LABELS[name]}: {reason}" for name, reason in self.missing.items()]
        failed: dict[tuple[str, str], list[str]] = {}
        for (measure, name), reason in self.failures.items():
            failed.setdefault((name, reason), []).append(measure)
        return lines + [
            f"{LABELS[name]} FAILED in {', '.join(measures)}: {reason}" for (name, reason), measures in failed.items()
        ]

    def as_json(self) -> dict[str, object]:
        """Return the content of the JSON file."""
        return super().as_json() | {
            "lines": [line.as_json() | {"floor": _floor(line)} for line in self.lines],
            "not_measured": dict(self.missing),
            "failures": self.failures_as_json(),
            "load": self.load,
            "notes": list(self.notes),
        }


def asked(measure: Measure) -> list[tuple[Case, str]]:
    """Return who is asked what in a round: the contenders take turns within each case."""
    return [(case, name) for case in measure.cases for name in case.contenders]


def _start_time(stage: Stage, command: Sequence[str], env: Mapping[str, str]) -> dict[str, float]:
    with Contenders(stage) as running:
        starting = running.start(command, env)
        while True:
            words = starting.line(READY_S).split()
            if words[:1] == ["at"]:
                return {"start_s": float(words[1]) - starting.began_s}


def _floor(line: Line) -> str | None:
    """Return the contender that stands for what the machine can do."""
    return next((name for name in line.rounds if name in FLOORS), None)


def _row(line: Line, peers: Sequence[str], floors: Sequence[str]) -> list[str]:
    floor = _floor(line)
    return [
        line.quantity.title,
        written(line.medians[OURS], line.quantity.unit) if OURS in line.medians else "-",
        *("" if floor is None else _cell(line, floor, f" {LABELS[floor]}") for _ in floors),
        *(_cell(line, name) for name in peers),
        *line.goal_cells(),
    ]


def _cell(line: Line, name: str, suffix: str = "") -> str:
    if name not in line.medians:
        return "-" if name in line.rounds else ""
    text = written(line.medians[name], line.quantity.unit) + suffix
    return f"{text}\n({ratio_written(line.ratios[name])})" if name in line.ratios else text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
