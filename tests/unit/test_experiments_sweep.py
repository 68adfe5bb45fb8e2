"""Sweeps: what is known is not simulated again, whatever an interruption left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler_bridge.experiments.study import ClaimVerdict, Judge, counted, together, word_for, word_for_times
from scheduler_bridge.experiments.sweep import Cell, Figures, Standing, SweepFileError, sweep

CELLS = [Cell("a", "easy", 0, 1), Cell("a", "min", 60, 1), Cell("b", "easy", 0, 1)]
COLUMNS = ("wait_s", "shrinks")


class _Simulated:
    def __init__(self) -> None:
        self.cells: list[Cell] = []

    def __call__(self, cell: Cell) -> Figures:
        self.cells.append(cell)
        return {"wait_s": 0.1 + cell.share, "shrinks": None if cell.share == 0 else 3.0}


def _steps(*moments: float) -> Callable[[], float]:
    left = iter(moments)
    return lambda: next(left)


def test_rows_are_kept_and_read_again(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "cells.csv"
    first, again = _Simulated(), _Simulated()
    rows = sweep(CELLS[:2], first, COLUMNS, file=file)
    assert [row.figures for row in rows] == [{"wait_s": 0.1, "shrinks": None}, {"wait_s": 60.1, "shrinks": 3.0}]
    assert sweep(CELLS, again, COLUMNS, file=file)[:2] == rows
    assert again.cells == CELLS[2:]
    header = "trace,policy,share,seed,wait_s,shrinks,seconds,version,commit,python,cpu"
    assert file.read_text().splitlines()[0] == header


def test_a_line_that_was_being_written_is_simulated_again(tmp_path: Path) -> None:
    file = tmp_path / "cells.csv"
    rows = sweep(CELLS, _Simulated(), COLUMNS, file=file)
    whole = file.read_text()
    file.write_text(whole[:-9])
    again = _Simulated()
    assert sweep(CELLS, again, COLUMNS, file=file) == rows
    assert again.cells == CELLS[2:]
    assert file.read_text().splitlines()[:3] == whole.splitlines()[:3]
    assert len(file.read_text().splitlines()) == len(whole.splitlines())
    assert [path.name for path in tmp_path.iterdir()] == ["cells.csv"]


def test_a_line_without_an_end_is_not_taken_for_one(tmp_path: Path) -> None:
    file = tmp_path / "cells.csv"
    rows = sweep(CELLS[:2], _Simulated(), COLUMNS, file=file)
    file.write_text(file.read_text()[:-1])  # the name of the processor may have been cut off
    again = _Simulated()
    assert sweep(CELLS[:2], again, COLUMNS, file=file) == rows
    assert again.cells == CELLS[1:2]


@pytest.mark.parametrize(
    "damage",
    [b"\xff" * 9, bytes(9), b"three,,,,", b"b,easy,x,1,0,0,0,,,,\n", b"\r" * 9, b"\x22" + b"a" * 8, b"a" * 140_000],
    ids=lambda damage: repr(damage[:9]),
)
def test_a_line_that_is_damaged_is_simulated_again(tmp_path: Path, damage: bytes) -> None:
    file = tmp_path / "cells.csv"
    rows = sweep(CELLS, _Simulated(), COLUMNS, file=file)
    first, second, *others = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join((first, damage + second[9:], *others)))
    again = _Simulated()
    assert sweep(CELLS, again, COLUMNS, file=file) == rows
    assert again.cells == CELLS[:1]


def test_a_line_that_was_cut_off_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    file = tmp_path / "cells.csv"
    sweep(CELLS[:2], _Simulated(), COLUMNS, file=file)
    file.write_text(file.read_text()[:-9])
    again = _Simulated()

    def interrupted(cell: Cell) -> Figures:
        if cell == CELLS[2]:
            raise KeyboardInterrupt
        return again(cell)

    with pytest.raises(KeyboardInterrupt):
        sweep(CELLS, interrupted, COLUMNS, file=file)
    sweep(CELLS, again, COLUMNS, file=file)
    assert again.cells == CELLS[1:]


def test_what_was_done_before_an_interruption_is_kept(tmp_path: Path) -> None:
    simulated = _Simulated()

    def interrupted(cell: Cell) -> Figures:
        if cell == CELLS[1]:
            raise KeyboardInterrupt
        return simulated(cell)

    with pytest.raises(KeyboardInterrupt):
        sweep(CELLS, interrupted, COLUMNS, file=tmp_path / "cells.csv")
    sweep(CELLS, simulated, COLUMNS, file=tmp_path / "cells.csv")
    assert simulated.cells == CELLS


def test_another_sweep_is_not_overwritten(tmp_path: Path) -> None:
    sweep(CELLS, _Simulated(), COLUMNS, file=tmp_path / "cells.csv")
    with pytest.raises(SweepFileError, match="another sweep"):
        sweep(CELLS, _Simulated(), ("wait_s",), file=tmp_path / "cells.csv")


def test_whole_numbers_stay_whole_and_others_are_exact(tmp_path: Path) -> None:
    file = tmp_path / "cells.csv"
    figures: Figures = {"wait_s": 0.1 + 0.2, "shrinks": -3}
    sweep(CELLS[:1], lambda _: figures, COLUMNS, file=file)
    [again] = sweep(CELLS[:1], lambda _: pytest.fail("again"), COLUMNS, file=file)
    assert again.figures == figures
    assert [type(value) for value in again.figures.values()] == [float, int]


def test_two_sweeps_do_not_write_one_file(tmp_path: Path) -> None:
    file = tmp_path / "cells.csv"

    def simulate(cell: Cell) -> Figures:
        sweep(CELLS, _Simulated(), COLUMNS, file=file)
        return {}

    with pytest.raises(SweepFileError, match="is being written"):
        sweep(CELLS, simulate, COLUMNS, file=file)


def test_the_time_left_follows_from_the_cells_of_the_same_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Standing] = []
    cells = [*CELLS, Cell("b", "min", 60, 1)]
    monkeypatch.setattr("scheduler_bridge.experiments.sweep.perf_counter", _steps(0, 2, 2, 6, 6, 16, 16, 20))
    sweep(cells, _Simulated(), COLUMNS, reporter=reported.append)
    assert [(standing.done, standing.cells, standing.left_s) for standing in reported] == [
        (0, 4, None),
        (1, 4, 6.0),
        (2, 4, 6.0),
        (3, 4, 10.0),
        (4, 4, 0.0),
    ]


def test_claims_are_judged_by_direction_and_distance() -> None:
    words = [word_for(found, -60.0) for found in (-55.0, -54.9, -30.0, -29.0, 1.0)]
    assert words == ["held", "right direction", "right direction", "differs", "differs"]
    assert (word_for(-1.0, 1.0), word_for(-1.0, 1.0, still=True), word_for(-1.0, 0.0)) == ("differs", "held", "held")
    assert word_for(-9.0, -4.0) == "held"
    assert word_for(-9.5, -4.0, still=True) == "differs"
    text = "1 of 5 claims of the paper are held, 2 more go in the right direction, 2 differ"
    assert counted(ClaimVerdict("", "", "", word) for word in (*words, "not judged")) == text


def test_a_number_of_times_has_to_be_near_by_itself() -> None:
    # 2.43 times less is -58.8 %; 4 times less -75 %, 100 times less -99 %
    words = [word_for_times(found, 2.43) for found in (2.2, 4.0, 100.0, 0.5)]
    assert words == ["held", "right direction", "differs", "differs"]


def test_forms_of_a_workload_count_once_by_the_one_on_which_a_claim_does_worst() -> None:
    real = ClaimVerdict("falls", "-10.0 %", "-9.0 %", "held", where=("Fig. 1", "real"))
    drawn = ClaimVerdict("falls", "-10.0 %", "-19.0 %", "right direction", "jobs are drawn", ("Fig. 1", "drawn"))
    both = together([real, drawn])
    assert (both.found, both.word, both.reason) == ("-9.0 %; -19.0 %", "right direction", "jobs are drawn")
    assert both.where == ("Fig. 1", "real; drawn")
    assert together([drawn]) == drawn


def test_a_claim_is_about_all_that_it_lists_and_that_is_there() -> None:
    found = {("real", "a", 20): 4.0, ("real", "b", 20): 8.0, ("real", "a", 60): 6.0, ("drawn", "a", 20): 1.0}
    by = Judge(
        lambda claim: found.get((claim["workload"], claim["policy"], claim["share"])),
        names={1: "real", 3: "drawn"},
        shares=(20, 60),
    )
    both = {"workload": [1, 2], "policy": ["a", "b"], "share": [20, 40], "than": {"policy": "a"}}
    assert by.means(both) == [4.0, 8.0]
    changes = "+0.0 to +100.0 %; not real, a at 20 % +0.0 %; real, b at 20 % +100.0 %"
    assert by.judged({"rule": "lower", **both}) == ("< 0 %", changes, "differs")
    assert by.mean({"workload": 1, "policy": "a", "share": [20, 60]}) == 5.0
    nothing = {"rule": "lower", "workload": 1, "policy": "a", "share": 20, "than": {"policy": "none"}}
    found["real", "none", 20] = 0.0
    assert by.judged(nothing) == ("< 0 %", "nothing to compare with", "not judged")
    level = {"rule": "level", "printed": 5.0, "share": 20}
    for missing in ({"workload": 3, "policy": "b"}, {"workload": [2], "policy": "a"}, {"workload": 2, "policy": "a"}):
        assert by.judged({**level, **missing}) == ("5.0 %", "-", "not judged")
