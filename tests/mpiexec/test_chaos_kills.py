"""kill -9 of anything at any moment: the job ends soon, with a reason and a code, and nothing of it runs on."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from support import Leftovers, mpirun
from support.chaos import SOON_S, Storm, moment_s, start_storm

from apgas.runtime import segments

HELLO = Path(__file__).resolve().parents[2] / "docs" / "examples" / "hello.py"
SEEDS = 6
SEEDS_SLOW = 60


def _strike(storm: Storm, rng: random.Random) -> str:
    """Kill something; returns what it was."""
    time.sleep(moment_s(rng))
    found = storm.by_role()
    role = rng.choice(sorted(found))
    with suppress(ProcessLookupError):
        os.kill(rng.choice(found[role]), signal.SIGKILL)
    return role


def _swept_by_the_next_job(watch: Leftovers) -> None:
    """What MPI leaves when it is killed within its initialisation goes with the next job, once it is old."""
    for name in watch.files():
        then = time.time() - segments.OLD_S - 10
        os.utime(name, (then, then))
    if watch.files():
        mpirun(1, [HELLO])


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
    if role != "mpiexec":  # whose words nobody hears
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
