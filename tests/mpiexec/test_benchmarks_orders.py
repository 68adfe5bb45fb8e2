"""Benchmarks on real places that come and go: exact results, every order carried out, nothing left running.

Workers are held to a rate, so a run lasts long enough for its orders on any machine; no time is asserted. Schedules
are random; each test prints its seed. The default runs two schedules per benchmark, ``--runslow`` twenty.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest
from support import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
MPIEXEC = Path(sys.executable).with_name("mpiexec")
MARK = "BENCHMARK_TEST_MARK"
RUN_S = 5.0
"""Seconds that a run lasts at least: with all its places from the start to the end. An order in line when it ends is
refused, and where others compute a place may take some seconds to start."""


@dataclass(frozen=True)
class Case:
    """A small instance, and how many tasks it has."""

    name: str
    arguments: tuple[str, ...]
    tasks: int
    result: object = None

    @property
    def label(self) -> str:
        """Its name, and how it starts where there are two ways."""
        return f"{self.name} dynamic" if "--dynamic" in self.arguments else self.name


CASES = (
    Case("uts", ("--depth", "12"), 66_106_929, 66_106_929),
    Case("nqueens", ("-n", "13"), 884_686, 73_712),
    Case(
        "bc",
        ("--scale", "11"),
        2048,
        {"sum": 10802007.999999998, "maximum": 147504.81799634793, "digest": "af9545e53708fc64"},
    ),
    Case("synthetic", ("--work", "0.5", "--tasks", "4000"), 4000),
    Case("synthetic", ("--work", "0.5", "--tasks", "4000", "--dynamic"), 4000),
    Case("pi", ("--samples", "10000000"), 10_000_000, 4 * 7_853_412 / 10_000_000),
)


@dataclass(frozen=True)
class Finished:
    """How a job ended."""

    code: int
    output: str
    errors: str


def run_job(places: int, name: str, *arguments: str, timeout_s: float = 100) -> Finished:
    """Run a benchmark and check that no process of it is left."""
    mark = uuid.uuid4().hex
    environment = os.environ | {MARK: mark, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [str(MPIEXEC), "-n", str(places), sys.executable, "-m", f"benchmarks.{name}", *arguments]
    job = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = job.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        job.send_signal(signal.SIGTERM)
        output, errors = job.communicate(timeout=PATIENCE_S)
        pytest.fail(f"{' '.join(command)} did not end within {timeout_s} s\n{output}\n{errors}")
    assert not left_after(mark), f"processes are left\n{output}\n{errors}"
    return Finished(job.returncode, output, errors)


def left_after(mark: str, grace_s: float = 1.0) -> list[str]:
    """Return the processes of the job that are still there after ``grace_s``; kill them."""
    deadline = time.monotonic() + grace_s
    while (left := marked(mark)) and time.monotonic() < deadline:
        psutil.wait_procs(left, timeout=0.1)
    names = [f"{process.pid} {process.name()}" for process in left if process.is_running()]
    for process in left:
        process.kill()
    return names


def marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark:
                found.append(process)
        except psutil.Error:
            continue  # gone meanwhile, or another user's
    return found


def check_schedule(case: Case, seed: int, path: Path, *, brief: bool = False) -> None:
    """Grow and shrink at random times by random numbers, from a random number of places.

    A brief run keeps half of its places, so that the rest does not take them long.
    """
    rng = Random(f"{case.name} {seed}")
    places, added = rng.randint(1, 3), rng.randint(1, 2)
    removed = rng.randint(1, (places + added) // 2 if brief else places + added - 1)
    grow_s = rng.uniform(0.1, 0.6)
    orders = f"{grow_s:.2f}:+{added},{grow_s + rng.uniform(0.1, 0.6):.2f}:-{removed}"
    rate = case.tasks / (RUN_S * (places + added))
    print(f"seed {seed}: {case.name} on {places} places, orders {orders}")
    options = f"--workers 1 --rate {rate:.6g} --orders {orders} --verify --json {path}".split()
    job = run_job(places, case.name, *case.arguments, *options)
    assert job.code == 0, job.errors
    result: dict[str, Any] = json.loads(path.read_text())
    assert [(resize["kind"], resize["n"], resize["outcome"]) for resize in result["resizes"]] == [
        ("grow", added, "done"),
        ("shrink", removed, "done"),
    ], result["resizes"]
    assert (result["grows"], result["shrinks"]) == (1, 1)
    assert (result["places_start"], result["places_end"]) == (places, places + added - removed)
    assert set(result["resizes"][0]["phases"]) == {"pre", "spawn", "join", "commit", "post"}
    assert set(result["resizes"][1]["phases"]) == {"pre", "drain", "release", "commit", "post"}
    assert result["verified"] is True
    assert result["tasks"] == case.tasks
    if case.result is not None:
        assert result["result"] == case.result


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_results_are_exact_and_orders_carried_out(case: Case, seed: int, tmp_path: Path) -> None:
    check_schedule(case, seed, tmp_path / "result.json", brief=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 20))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_many_schedules_give_exact_results(case: Case, seed: int, tmp_path: Path) -> None:
    check_schedule(case, seed, tmp_path / "result.json")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_a_rigid_run_prints_its_result(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    job = run_job(2, case.name, *case.arguments, "--verify", "--json", str(path))
    assert job.code == 0, job.errors
    result = json.loads(path.read_text())
    assert (result["verified"], result["tasks"], result["resizes"]) == (True, case.tasks, [])
    assert "verified" in job.output
    if isinstance(result["result"], int):
        assert f"{result['result']:,}" in job.output
    assert "\x1b" not in job.output + job.errors


def test_orders_due_at_once_are_carried_out_as_slowly_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    options = ["--workers", "1", "--rate", "1e6", "--orders", "0:+1,0:-1", "--slow-resizes", "0.2,0.1"]
    job = run_job(2, "pi", "--samples", "1e7", *options, "--json", str(path))
    assert job.code == 0, job.errors
    result = json.loads(path.read_text())
    assert (result["grows"], result["shrinks"], result["verified"]) == (1, 1, True)
    grow, shrink = (resize["phases"] for resize in result["resizes"])
    assert grow["pre"] >= 0.2
    assert shrink["post"] >= 0.1
    assert min(result["startup"].values()) > 0


def test_workers_change_while_places_come_and_go(tmp_path: Path) -> None:
    case, path = CASES[0], tmp_path / "result.json"
    orders = "0.1:workers=3,0.3:+1,0.4:workers=1,0.6:-1,0.7:workers=2"
    options = ["--workers", "2", "--rate", f"{case.tasks / 18:.6g}", "--orders", orders, "--statistics", "--verify"]
    job = run_job(2, case.name, *case.arguments, *options, "--json", str(path))
    assert job.code == 0, job.errors
    result = json.loads(path.read_text())
    assert sorted((each["kind"], each["n"], each["outcome"]) for each in result["resizes"]) == [
        ("grow", 1, "done"),
        ("shrink", 1, "done"),
        *(("workers", count, "done") for count in (1, 2, 3)),
    ]
    assert (result["result"], result["tasks"], result["verified"]) == (case.result, case.tasks, True)
    assert "workers=3 at" in job.output
    assert "Workers were busy" in job.output


def test_orders_that_are_not_due_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    job = run_job(2, "pi", "--samples", "1e6", "--orders", "900:+1,901:-1", "--json", str(path))
    assert job.code == 0, job.errors
    result = json.loads(path.read_text())
    assert [resize["outcome"] for resize in result["resizes"]] == ["not_due", "not_due"]
    assert all(resize["reason"] for resize in result["resizes"])
    assert (result["grows"], result["shrinks"], result["places_end"]) == (0, 0, 2)


def test_an_impossible_order_is_refused_and_the_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    orders = ["--workers", "1", "--rate", "1e6", "--orders", "0.2:-5,0.4:-1"]
    job = run_job(2, "pi", "--samples", "1e7", *orders, "--json", str(path))
    assert job.code == 0, job.errors
    result = json.loads(path.read_text())
    assert [resize["outcome"] for resize in result["resizes"]] == ["refused", "done"]
    assert result["resizes"][0]["reason"]
    assert (result["verified"], result["shrinks"], result["places_end"]) == (True, 1, 1)


def test_repetitions_all_count(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    job = run_job(2, "pi", "--samples", "1e6", "--repeat", "3", "--json", str(path))
    assert job.code == 0, job.errors
    result = json.loads(path.read_text())
    assert (result["verified"], len(result["runs_s"]), result["tasks"]) == (True, 3, 1_000_000)
