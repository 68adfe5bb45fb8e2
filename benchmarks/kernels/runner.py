"""Runs measures: prepares the contenders, and lets them work in turn in this thread."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..harness.goals import OURS
from .contender import Absent, Measure, Setting, Work
from .results import Results

if TYPE_CHECKING:
    from ..harness.display import Display


def run(measures: Sequence[Measure], rounds: int, quick: bool, display: Display) -> Results:
    """Measure everything: A B C A B C ..., so that what else happens on the machine disturbs all alike."""
    results = Results(rounds, quick, measures)
    with tempfile.TemporaryDirectory(prefix="kernels-", ignore_cleanup_errors=True) as folder:
        setting = Setting(quick, Path(folder))
        for measure in measures:
            display.begin(measure.name, f"{measure.title(quick)}, rounds: {rounds}")
            _run_measure(measure, setting, results, display)
    results.ended = True
    return results


def _run_measure(measure: Measure, setting: Setting, results: Results, display: Display) -> None:
    works = _prepared(measure, setting, results, display)
    labels = {contender.name: contender.label for contender in measure.contenders}
    for number in range(results.rounds):
        for name, work in tuple(works.items()):
            display.step(f"round {number + 1} of {results.rounds}, {labels[name]}")
            began_s = time.thread_time()
            try:
                amounts = work()
            except Exception as error:  # noqa: BLE001 - whatever failed, the others go on
                results.missing[measure.name, name] = _told(error)
                del works[name]
            else:
                results.add(measure, name, amounts, time.thread_time() - began_s)


def _prepared(measure: Measure, setting: Setting, results: Results, display: Display) -> dict[str, Work]:
    """Return the work of all who can take part; each has done a small one, so that nothing is compiled later."""
    works: dict[str, Work] = {}
    for contender in measure.contenders:
        display.note(f"preparing {contender.label}")
        try:
            if contender.name == OURS:  # what is compiled at the first call is compiled in a small one
                contender.prepare(Setting(True, setting.folder))()
            works[contender.name] = contender.prepare(setting)
        except Absent as reason:
            results.missing[measure.name, contender.name] = str(reason)
        except Exception as error:  # noqa: BLE001 - whatever failed, the others go on
            results.missing[measure.name, contender.name] = _told(error)
    return works


def _told(error: Exception) -> str:
    return f"FAILED: {type(error).__name__}: {error}"
