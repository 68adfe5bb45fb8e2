"""Runs a plan: starts the contenders of each measure together, asks them in turn, and ends them."""

from __future__ import annotations

import itertools
import os
import tempfile
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..harness import procfs
from ..harness.child import END_S, TERM_S, Child, ContenderFailed, kill_marked
from . import contenders
from .catalogue import LABELS, Case, Measure, Plan
from .results import Results

if TYPE_CHECKING:
    from ..harness.measuring import Display

READY_S: Final = 60.0
SETTLE_S: Final = 1.0
"""Between the start of idle contenders and the look at them: their last work of starting is done."""


class Runner:
    """Carries a plan out.

    Args:
        plan: What to do.
        display: Where progress is shown.
    """

    def __init__(self, plan: Plan, display: Display) -> None:
        self._plan = plan
        self._display = display
        self.results = Results(plan.rounds)
        self._children: dict[str, Child] = {}
        self._env: Mapping[str, str] = {}
        self._mark = uuid.uuid4().hex
        self._numbers = itertools.count()
        self._cpus = tuple(sorted(os.sched_getaffinity(0))[:2])

    def run(self) -> Results:
        """Measure everything; what is measured when this is interrupted is in ``results``."""
        asked = [name for measure in self._plan.measures for name in measure.contenders]
        for name in dict.fromkeys(asked):
            reason = "left out" if name not in self._plan.contenders else contenders.missing(name)
            if reason:
                self.results.missing[name] = reason
        contenders.keep_bytecode()
        if len(self._cpus) < 2:
            self.results.notes.append("one core only: nothing was pinned")
        with tempfile.TemporaryDirectory(prefix="overheads-", ignore_cleanup_errors=True) as folder:
            self._env = contenders.environment(Path(folder))
            try:
                for measure in self._plan.measures:
                    self.results.expect(measure)
                    self._measure(measure)
            finally:
                # an interrupt may have come between a start and our taking note of it
                kill_marked(self._mark)
        self.results.ended = True
        return self.results

    def _measure(self, measure: Measure) -> None:
        present = tuple(name for name in measure.contenders if name not in self.results.missing)
        steps = self._plan.steps(measure, present)
        rounds = self._plan.rounds_of(measure)
        self._display.begin(measure.name, f"{', '.join(LABELS[name] for name in present)}, rounds: {rounds}")
        with ExitStack() as stack:
            stack.push(self._end_all)
            if measure.kind != "start":
                self._start(measure, present)
            if measure.kind == "idle":
                self._idle(measure)
                return
            for number, case, name in steps:
                self._display.step(f"round {number + 1} of {rounds}, {LABELS[name]}")
                if (measure.name, name) not in self.results.failures:
                    self._step(measure, case, name)

    def _start(self, measure: Measure, names: tuple[str, ...]) -> None:
        """Start contenders one after another, so that none disturbs another's start."""
        cpus = self._cpus if len(self._cpus) == 2 else ()
        for name in names:
            self._display.note(f"starting {LABELS[name]}")
            child = self._children[name] = self._child(measure, contenders.command(name, measure, cpus))
            try:
                child.answer(READY_S)
            except ContenderFailed as error:
                self._fail(measure, name, error)

    def _child(self, measure: Measure, command: list[str]) -> Child:
        return Child(command, {**self._env, **measure.environment}, f"{self._mark}.{next(self._numbers)}.")

    def _step(self, measure: Measure, case: Case, name: str) -> None:
        try:
            if measure.kind == "start":
                answer: Mapping[str, object] = self._start_time(measure, name)
            else:
                answer = self._children[name].ask(case.command, case.limit_s)
        except ContenderFailed as error:
            self._fail(measure, name, error)
        else:
            self.results.add(measure, case, name, answer)

    def _start_time(self, measure: Measure, name: str) -> dict[str, float]:
        child = self._children[name] = self._child(measure, contenders.hello(name, measure))
        try:
            while True:
                words = child.line(READY_S).split()
                if words[:1] == ["at"]:
                    return {"start_s": float(words[1]) - child.began_s}
        finally:
            self._children.pop(name).end()

    def _idle(self, measure: Measure) -> None:
        """Watch all contenders at once."""
        (case,) = measure.cases
        seconds = float(str(case.command["seconds"]))
        self._display.step(f"watching for {seconds:g} s")
        time.sleep(SETTLE_S)
        processes = {name: child.processes() for name, child in self._children.items()}
        before = {name: procfs.cpu_s(pids) for name, pids in processes.items()}
        began_s = time.monotonic()
        time.sleep(seconds)
        for name, pids in processes.items():
            if len(pids) < measure.places:
                self._fail(measure, name, ContenderFailed(f"{len(pids)} of its processes are to be seen"))
                continue
            used_s = procfs.cpu_s(pids) - before[name]
            share = used_s / (time.monotonic() - began_s) / measure.places
            self.results.add(measure, case, name, {"share": share})

    def _fail(self, measure: Measure, name: str, error: ContenderFailed) -> None:
        self.results.failures[measure.name, name] = str(error)
        child = self._children.pop(name, None)
        if child is not None:
            child.end(patience_s=0)

    def _end_all(self, kind: type[BaseException] | None, *_: object) -> None:
        """End all contenders, side by side; at once if this ends by an error."""
        for child in self._children.values():
            child.finish() if kind is None else child.terminate()
        for child in self._children.values():
            child.end(END_S if kind is None else TERM_S)
        self._children.clear()
