"""Sweeps on real places: they grow, shrink, are killed and go on, and their rows are those of a plain loop."""

from __future__ import annotations

import csv
import json
import os
import signal
import time
from pathlib import Path

import pandas as pd
import pytest
from support import PATIENCE_S, ROOT, Leftovers, mpirun, python_run, start_job
from support.mpi import MPICH

from scheduler_bridge import Workload
from scheduler_bridge.experiments.penalty.cells import COLUMNS, cells, simulated
from scheduler_bridge.experiments.sweep import sweep
from scheduler_bridge.workloads import write_swf

PROGRAM = Path(__file__).parent / "programs" / "sweeping.py"
JOBS, SEEDS = 60, range(1, 9)  # as in the program
ORIGIN = 5
"""The last columns of a row, which say where it comes from."""
MALLEABLE = ["-m", "scheduler_bridge.cli", "experiment", "penalty", "--rows", "csv", "--out"]


def rows(file: Path) -> list[list[str]]:
    return [line[:-ORIGIN] for line in csv.reader(file.read_text().splitlines())]


@pytest.fixture(scope="module")
def in_a_loop(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    file = tmp_path_factory.mktemp("loop") / "cells.csv"
    sweep(cells(SEEDS), lambda cell: simulated(cell, JOBS), COLUMNS, file=file)
    return rows(file)


@pytest.mark.parametrize(
    ("start", "orders", "places"),
    [(2, "0:+2,0:-1,0:+1,0:-2", 2), (0, "0:+2,0:-1", 2)],
    ids=["mpiexec", "plain"],
)
def test_a_sweep_that_grows_and_shrinks_has_the_rows_of_a_loop(
    start: int, orders: str, places: int, tmp_path: Path, in_a_loop: list[list[str]], leftovers: Leftovers
) -> None:
    words: list[str | Path] = [PROGRAM, tmp_path / "cells.csv", orders]
    job = mpirun(start, words) if start else python_run(words)
    assert job.rc == 0, job.err
    leftovers.check(job.mark)
    printed = json.loads(job.out.splitlines()[-1])
    assert [outcome for _, _, outcome, _ in printed["resizes"]] == ["done"] * orders.count(":"), printed
    assert printed["places"] == places
    assert len(printed["counts"]) > 1, printed
    assert rows(tmp_path / "cells.csv") == in_a_loop


def test_a_sweep_that_was_killed_goes_on_with_what_is_missing(
    tmp_path: Path, in_a_loop: list[list[str]], leftovers: Leftovers
) -> None:
    file = tmp_path / "cells.csv"
    with start_job([*MPICH.start(2), PROGRAM, file, ""]) as job:
        pid = int(job.expect("\n").split()[1])
        until = time.monotonic() + PATIENCE_S
        while not file.exists() or len(file.read_text().splitlines()) < 1 + 20:
            assert job.process.poll() is None, job.text(job.err)
            assert time.monotonic() < until
            time.sleep(0.005)
        os.kill(pid, signal.SIGKILL)
        leftovers.check(job.wait().mark)
    before = file.read_text().splitlines(keepends=True)
    whole = [line for line in before if line.endswith("\n")]
    assert 20 < len(whole) < len(in_a_loop)
    again = python_run([PROGRAM, file, "0:+1"])
    assert again.rc == 0, again.err
    assert rows(file) == in_a_loop
    after = file.read_text().splitlines(keepends=True)
    assert set(whole) <= set(after)  # with the times that their simulations took then
    leftovers.check(again.mark)


@pytest.mark.parametrize("start", [0, pytest.param(2, marks=pytest.mark.slow)], ids=["plain", "mpiexec"])
def test_the_command_simulates_on_places(start: int, tmp_path: Path, leftovers: Leftovers) -> None:
    words: list[str | Path] = [*MALLEABLE, tmp_path / "out", "--json"]
    job = mpirun(start, words) if start else python_run([*words, "--places", "2"])
    assert job.rc == 0, job.err
    leftovers.check(job.mark)
    assert set(json.loads(job.out)["tables"]) == {"table-3", "claims", "workloads"}
    assert len(rows(tmp_path / "out" / "cells-small.csv")) == 1 + 72


def test_the_places_of_mpiexec_are_those_that_it_starts(tmp_path: Path) -> None:
    job = mpirun(1, [*MALLEABLE, tmp_path, "--places", "2"])
    assert job.rc == 2
    assert "give mpiexec -n instead" in job.err


def test_a_comparison_on_two_places_has_the_rows_of_one(tmp_path: Path, leftovers: Leftovers) -> None:
    write_swf(Workload.generate("lublin", seed=3, jobs=30, nodes=16, load=1.2), tmp_path / "w.swf")
    policy = ROOT / "docs" / "examples" / "shortest_first.py"
    words: list[str | Path] = ["-m", "scheduler_bridge.cli", "compare", "--workload", tmp_path / "w.swf"]
    words += ["--load", policy, "--policies", "easy,shortest-first patience=0.2", "--malleable", "0.5", "--seeds", "3"]
    found = []
    for jobs in ("1", "2"):
        job = python_run([*words, "--jobs", jobs, "--out", tmp_path / jobs])
        assert job.rc == 0, job.err
        leftovers.check(job.mark)
        table = pd.read_parquet(tmp_path / jobs / "simulations.parquet")
        found.append(table.drop(columns="seconds"))
        assert len(table) == 6
    assert found[0].equals(found[1])


def test_one_place_reads_what_comes_on_standard_input(tmp_path: Path, leftovers: Leftovers) -> None:
    write_swf(Workload.generate("lublin", seed=3, jobs=30, nodes=16, load=1.2), tmp_path / "w.swf")
    words: list[str | Path] = ["-m", "scheduler_bridge.cli", "compare", "--workload", "-", "--policies", "easy,min"]
    command = [*words, "--malleable", "0.5", "--seeds", "3", "--out", tmp_path / "out"]
    with (tmp_path / "w.swf").open() as jobs, start_job([*MPICH.start(2), *command], stdin=jobs.fileno()) as running:
        job = running.wait(PATIENCE_S)
        assert job.rc == 0, job.err
        leftovers.check(job.mark)
    assert len(pd.read_parquet(tmp_path / "out" / "simulations.parquet")) == 6
    job = mpirun(2, command)
    assert job.rc == 2
    assert job.err.count("standard input: unknown form") == 1, "of two places, one reads"
    leftovers.check(job.mark)
