"""A sweep on simulated places: every row once, whichever places come, leave or fail."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import PATIENCE_S

import apgas
import glb
from apgas.testing.pytest_plugin import MakeJob
from glb.testing import check_bag
from scheduler_bridge.experiments.simulations import Done, Simulations, start_places
from scheduler_bridge.experiments.sweep import Cell, Figures, Row, Standing, origin, sweep

CELLS = [Cell("trace", "easy", share, seed) for share in range(5) for seed in range(8)]
COLUMNS = ("wait_s",)


def _figures(cell: Cell) -> Figures:
    return {"wait_s": 1 / (1 + cell.share + 7 * cell.seed)}


def _found(cell: Cell) -> Row:
    return Row(cell, _figures(cell), origin(0.0))


def _nowhere(_row: Row) -> None:
    """Takes a row."""


class _Resized(apgas.MalleableHandler):
    """Knows when a resize is over."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        return []

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None:
        self.over.set()

    def preGrow(self, nb_places: int) -> None:
        """Nothing to do."""

    def postGrow(
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        self.over.set()


class _Stage:
    """What threads of the simulated places share; functions of this module are sent by name."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.resized = _Resized()
        self.runs: Counter[Cell] = Counter()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> _Stage:
    monkeypatch.setattr(f"{__name__}._stage", made := _Stage())
    return made


_stage = _Stage()


def test_the_bag_keeps_the_rules() -> None:
    check_bag(
        lambda: Simulations(list(enumerate(CELLS)), _found, _nowhere),
        Done,
        lambda done: sorted(done.numbers),
        expected=list(range(len(CELLS))),
    )


def test_all_places_begin_with_the_first_simulations() -> None:
    bag = Simulations(list(enumerate(CELLS[:8])), _found, _nowhere)
    other = bag.split(False)
    assert other is not None
    assert [number for number, _ in bag.__getstate__()["_tasks"]] == [0, 2, 4, 6]  # type: ignore[attr-defined]  # a list
    bag.merge(other)
    assert [number for number, _ in bag.__getstate__()["_tasks"]] == list(range(8))  # type: ignore[attr-defined]  # likewise


def test_rows_are_those_of_a_plain_loop_while_places_come_and_go(apgas_job: MakeJob, tmp_path: Path) -> None:
    reported: list[Standing] = []

    def main() -> list[Row]:
        return sweep(CELLS, _figures, COLUMNS, file=tmp_path / "cells.csv", reporter=reported.append)

    job = apgas_job(main, places=2)
    job.grow(2, at_progress=5)
    job.shrink(1, at_progress=15)
    assert job.run() == sweep(CELLS, _figures, COLUMNS)
    assert [standing.done for standing in reported] == list(range(len(CELLS) + 1))
    assert reported[-1].left_s == 0
    lines = (tmp_path / "cells.csv").read_text().splitlines()
    assert [line.split(",")[:4] for line in lines[1:]] == [
        [cell.trace, cell.policy, str(cell.share), str(cell.seed)] for cell in CELLS
    ]


def _last_waits(cell: Cell) -> Figures:
    if cell == CELLS[-1]:
        assert _stage.resized.over.wait(PATIENCE_S)
    return _figures(cell)


def test_a_sweep_begins_by_growing_to_the_places_that_are_asked_for(apgas_job: MakeJob, stage: _Stage) -> None:
    def main() -> int:
        glb.set_user_handler(stage.resized)
        start_places(3)
        sweep(CELLS, _last_waits, COLUMNS)
        return len(apgas.places())

    assert apgas_job(main, places=1).run() == 3


def _second_takes_long(cell: Cell) -> Figures:
    _stage.runs[cell] += 1
    if cell == CELLS[0]:  # on place 0
        assert _stage.started.wait(PATIENCE_S)
    elif cell == CELLS[2]:  # likewise, next
        assert _stage.resized.over.wait(PATIENCE_S)
    elif _stage.runs[cell] == 1:  # on place 1, for longer than it is there
        _stage.started.set()
        _stage.resized.over.wait(PATIENCE_S)
    return _figures(cell)


def test_a_place_that_leaves_does_not_wait_for_its_simulation(apgas_job: MakeJob, stage: _Stage) -> None:
    def main() -> list[Row]:
        glb.set_user_handler(stage.resized)
        return sweep(CELLS[:3], _second_takes_long, COLUMNS)

    job = apgas_job(main, places=2)
    job.shrink(1, at_progress=1)
    assert [row.figures for row in job.run()] == [_figures(cell) for cell in CELLS[:3]]
    assert job.outcomes == ["done"]
    assert stage.runs == Counter({CELLS[0]: 1, CELLS[1]: 2, CELLS[2]: 1})


def test_what_fails_is_named_and_ends_the_sweep(apgas_job: MakeJob, tmp_path: Path) -> None:
    def simulate(cell: Cell) -> Figures:
        if cell == CELLS[20]:
            raise ValueError("no such trace")
        return _figures(cell)

    def main() -> None:
        with pytest.raises(ValueError, match="no such trace") as caught:
            sweep(CELLS, simulate, COLUMNS, file=tmp_path / "cells.csv")
        assert any(f"in the simulation of {CELLS[20]}" in note for note in caught.value.__notes__)
        kept = len((tmp_path / "cells.csv").read_text().splitlines()) - 1
        reported: list[Standing] = []
        sweep(CELLS, _figures, COLUMNS, file=tmp_path / "cells.csv", reporter=reported.append)
        assert reported[0].done == kept

    apgas_job(main, places=2).run()


def test_a_row_that_cannot_be_kept_ends_the_sweep(apgas_job: MakeJob) -> None:
    def full(standing: Standing) -> None:
        if standing.done == 7:
            raise OSError(28, "No space left on device")

    def main() -> None:
        with pytest.raises(OSError, match="No space left"):
            sweep(CELLS, _figures, COLUMNS, reporter=full)

    apgas_job(main, places=2).run()
