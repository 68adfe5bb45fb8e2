"""The Parquet form of a sweep's rows: exact, one file, gone on with from either form."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_bridge.experiments.sweep import (
    Cell,
    Figures,
    Form,
    SweepFileError,
    Sweeping,
    default_form,
    origin,
    sweep,
)

CELLS = [Cell("a", "easy", 0, 1), Cell("a", "min", 60, 1), Cell("b", "easy", 0, 1)]
COLUMNS = ("wait_s", "jobs", "shrinks")


def _figures(cell: Cell) -> Figures:
    return {"wait_s": None if cell.trace == "b" else 0.1 + 0.2 * cell.share, "jobs": cell.share, "shrinks": None}


def _not_again(cell: Cell) -> Figures:
    pytest.fail(f"{cell} is simulated again")


def test_a_finished_sweep_is_one_parquet_file(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    file = tmp_path / "cells.parquet"
    first = sweep(CELLS, _figures, COLUMNS, file=file)
    assert [path.name for path in tmp_path.iterdir()] == ["cells.parquet"]
    assert sweep(CELLS, _not_again, COLUMNS, file=file) == first
    table = pd.read_parquet(file)
    assert list(table.columns) == [*("trace", "policy", "share", "seed"), *COLUMNS, *origin(0).__slots__]
    assert [str(table.dtypes[name]) for name in ("wait_s", "jobs", "seconds")] == ["Float64", "Int64", "Float64"]
    assert [type(value) for value in sweep(CELLS, _not_again, COLUMNS, file=file)[0].figures.values()] == [
        float, int, type(None),
    ]  # fmt: skip


def test_a_parquet_file_is_gone_on_with(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    file = tmp_path / "cells.parquet"
    sweep(CELLS[1:], _figures, COLUMNS, file=file)
    simulated: list[Cell] = []

    def interrupted(cell: Cell) -> Figures:
        simulated.append(cell)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(CELLS, interrupted, COLUMNS, file=file)
    assert simulated == CELLS[:1]
    found = sweep(CELLS, _figures, COLUMNS, file=file.with_suffix(".csv"))
    assert [row.cell for row in found] == CELLS
    assert [path.name for path in tmp_path.iterdir()] == ["cells.csv"]
    assert sweep(CELLS, _not_again, COLUMNS, file=file) == found
    assert [path.name for path in tmp_path.iterdir()] == ["cells.parquet"]


def test_rows_that_this_sweep_does_not_ask_for_stay(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    file = tmp_path / "cells.parquet"
    sweep(CELLS, _figures, COLUMNS, file=file)
    assert [row.cell for row in sweep(CELLS[2:], _not_again, COLUMNS, file=file)] == CELLS[2:]
    assert len(sweep(CELLS, _not_again, COLUMNS, file=file)) == 3


def test_a_file_that_is_no_parquet_is_not_overwritten(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    file = tmp_path / "cells.parquet"
    file.write_bytes(b"something else")
    with pytest.raises(SweepFileError, match="cannot be read"):
        sweep(CELLS, _figures, COLUMNS, file=file)
    assert file.read_bytes() == b"something else"


def test_without_pyarrow_rows_are_a_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_bridge.experiments.sweep._PARQUET_NEEDS", ("pandas", "no_such_package"))
    assert default_form() == "csv"
    Sweeping("small", tmp_path).rows(CELLS, _figures, COLUMNS)
    assert [path.name for path in tmp_path.iterdir()] == ["cells-small.csv"]
    (tmp_path / "cells-small.parquet").touch()
    with pytest.raises(SweepFileError, match="pandas and no_such_package are not installed"):
        Sweeping("small", tmp_path).rows(CELLS, _figures, COLUMNS)
    with pytest.raises(SweepFileError, match="pandas and no_such_package are not installed"):
        Sweeping("full", tmp_path, form="parquet").rows(CELLS, _figures, COLUMNS)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_what_is_kept_is_reported_without_a_simulation(form: Form, tmp_path: Path) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    Sweeping("small", tmp_path, form=form).rows(CELLS[:2], _figures, COLUMNS)
    kept = Sweeping("small", tmp_path, form=form, report_only=True).rows(CELLS, _not_again, COLUMNS)
    assert [row.cell for row in kept] == CELLS[:2]
    assert [path.name for path in tmp_path.iterdir()] == [f"cells-small.{form}"]
    for out in (None, tmp_path / "elsewhere"):
        with pytest.raises(SweepFileError, match="to report"):
            Sweeping("small", out, form=form, report_only=True).rows(CELLS, _not_again, COLUMNS)
    assert not (tmp_path / "elsewhere").exists()
