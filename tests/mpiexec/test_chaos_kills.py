"""kill -9 of anything at any moment: the job ends soon, with a reason and a code, and nothing of it runs on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from support import PATIENCE_S, SOON_S, Leftovers, mpirun, start_job
from support.chaos import Storm, moment_s, start_storm, storm_command
from support.leftovers import Patience, living

from apgas.runtime import environment

HELLO = Path(__file__).resolve().parents[2] / "docs" / "examples" / "hello.py"
SEEDS = 4
SCHEDULERS = 2
SEEDS_SLOW = 60


def _strike(storm: Storm, rng: random.Random) -> str:
    """Kill something; returns what it was."""
    time.sleep(moment_s(rng))
    found = storm.by_role()
    role = rng.choice(sorted(found))
    with suppress(ProcessLookupError):  # it has just ended
        os.kill(rng.choice(found[role]), signal.SIGKILL)
    return role


def _swept_by_the_next_job(watch: Leftovers) -> None:
    """What MPI leaves when it is killed within its initialisation goes with the next job, once it is old."""
    killed = watch.files()
    for name in killed:
        then = time.time() - environment.OLD_S - 10
        os.utime(name, (then, then))
    if killed:
        mpirun(1, [HELLO])
    assert not [name for name in killed if Path(name).exists()]


def _break(seed: int, transport: str, leftovers: Leftovers) -> None:
    rng = random.Random(f"{seed} {transport}")
    storm = start_storm(seed, {"APGAS_TRANSPORT": transport})
    with storm.job as job:
        role = _strike(storm, rng)
        struck = time.monotonic()
        done = job.wait(SOON_S)
        seconds = time.monotonic() - struck
    print(f"seed {seed}, {transport}: {role} killed, ended with {done.rc} in {seconds:.2f} s")
    assert done.rc != 0, role
    if role != "mpiexec":  # whose output is not read
        assert "died" in done.err or "BAD TERMINATION" in done.out or "mpiexec" in done.err, (role, done)
    assert "Traceback" not in done.err, (role, done.err)
    _swept_by_the_next_job(leftovers)
    leftovers.check(job.mark)


@pytest.mark.parametrize("transport", ["tcp", "mpi"], ids="over_{}".format)
def test_the_process_manager_of_a_node_takes_its_places_along(transport: str, leftovers: Leftovers) -> None:
    storm = start_storm(0, {"APGAS_TRANSPORT": transport})
    with storm.job as job:
        os.kill(storm.by_role()["proxy"][0], signal.SIGKILL)
        done = job.wait(SOON_S)
    assert done.rc != 0
    _swept_by_the_next_job(leftovers)
    leftovers.check(job.mark)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_is_killed_the_job_ends(seed: int, leftovers: Leftovers) -> None:
    _break(seed, "tcp" if seed % 3 else "mpi", leftovers)


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["tcp", "mpi"], ids="over_{}".format)
@pytest.mark.parametrize("seed", range(SEEDS, SEEDS + SEEDS_SLOW))
def test_whatever_is_killed_the_job_ends_many_times(seed: int, transport: str, leftovers: Leftovers) -> None:
    _break(seed, transport, leftovers)


def _lose_the_scheduler(seed: int, folder: Path, leftovers: Leftovers) -> None:
    rng = random.Random(seed)
    malleable = [sys.executable, "-m", "scheduler_bridge.cli"]
    state = ["--state", str(folder / "state")]
    errors, output = folder / "state" / "job-1.err", folder / "state" / "job-1.out"
    with start_job([*malleable, "serve", "--nodes", "2", *state], {"TMPDIR": str(folder)}) as daemon:
        daemon.expect("ready")
        sizes = ["--min", "2", "--max", "2", "--env", "APGAS_ON_SCHEDULER_LOSS=end"]
        job = [*malleable, "submit", *state, *sizes, "--", *storm_command(seed)[3:]]
        subprocess.run(job, check=True, capture_output=True, timeout=PATIENCE_S)
        until = time.monotonic() + PATIENCE_S
        while "witness" not in (output.read_text() if output.exists() else "") and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(moment_s(rng))
        daemon.process.kill()
        patience = Patience(SOON_S)
        while living(daemon.mark) and not patience.over():
            time.sleep(0.01)
        assert not living(daemon.mark)
        _swept_by_the_next_job(leftovers)
        leftovers.check(daemon.mark)
    assert "apgas: the scheduler is lost" in errors.read_text(), errors.read_text()
    assert "Traceback" not in errors.read_text()


@pytest.mark.parametrize("seed", range(SCHEDULERS))
def test_a_job_that_loses_its_scheduler_at_any_moment_ends(seed: int, tmp_path: Path, leftovers: Leftovers) -> None:
    _lose_the_scheduler(seed, tmp_path, leftovers)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SCHEDULERS, SCHEDULERS + 20))
def test_many_jobs_that_lose_their_scheduler_end(seed: int, tmp_path: Path, leftovers: Leftovers) -> None:
    _lose_the_scheduler(seed, tmp_path, leftovers)
