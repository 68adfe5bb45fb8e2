"""Every simulated experiment at small scale, whole, as people call it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from support import Leftovers, python_run
from support.outlines import fetches

from scheduler_bridge.cli.experiment import EXPERIMENTS

REAL = {"real-runs", "sd-real"}
"""They take longer than this, for their jobs are real; tiny ones are run elsewhere."""


@pytest.mark.parametrize("name", sorted(EXPERIMENTS.keys() - REAL))
def test_an_experiment_comes_to_its_end(name: str, data_folder: Path, tmp_path: Path, leftovers: Leftovers) -> None:
    out = tmp_path / "out"
    words: list[str | Path] = ["experiment", name, "--scale", "small", "--data", data_folder, "--out", out, "--json"]
    job = python_run(["-m", "scheduler_bridge.cli", *words])
    assert job.rc == 0, job.err
    leftovers.check(job.mark)
    printed = json.loads(job.out)
    assert printed["tables"]
    for table, rows in printed["tables"].items():
        assert rows, table
        with (out / f"{table}.csv").open(encoding="utf-8", newline="") as file:
            assert len(list(csv.DictReader(file))) == len(rows), table
    page = (out / "report.html").read_text(encoding="utf-8")
    pictures = {path.stem for path in out.glob("*.png")}
    assert page.count("<svg") == len(pictures) > 0
    assert fetches(page) == []
    assert page.count("<h2") >= len(printed["tables"])
