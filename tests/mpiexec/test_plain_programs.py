"""Programs without mpiexec: no other user reaches them, they grow from one place again and again, and leave nothing."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from support import SOON_S, Leftovers, Mpi, python_run, start_job
from support.doors import LOOPBACK, attack, listening
from support.leftovers import living

PROGRAMS = Path(__file__).with_name("programs")
PLAIN = PROGRAMS / "plain.py"
RESILIENT = {"APGAS_RESILIENT": "1"}


@pytest.mark.essential
def test_it_listens_only_where_its_places_prove_themselves(mpi: Mpi, leftovers: Leftovers) -> None:
    """MPI listened from the start, and from the first grow on mpiexec, too, which twelve bytes ended with the job."""
    reading, writing = os.pipe()
    with start_job([*mpi.start(0), PROGRAMS / "listening.py"], mpi=mpi, stdin=reading) as job:
        ports = {int(word) for word in re.findall(r"ports (.*)", job.expect("pids"))[0].split()}
        pids = list(job.processes())
        assert len(pids) >= 3  # two places, and what would end the second one after the first
        assert listening(pids) == {(LOOPBACK, port) for port in ports}
        attack(ports)
        os.write(writing, b"\n")
        done = job.wait(SOON_S)
    os.close(reading)
    os.close(writing)
    assert (done.rc, done.err) == (0, "")
    assert done.out.splitlines()[-1].startswith("alive")
    leftovers.check(done.mark)


@pytest.mark.essential
@pytest.mark.parametrize(
    ("what", "env"),
    [
        ("shrinks_to_one", {}),
        ("on_names", {}),
        ("executors", {}),
        ("goes_on", RESILIENT),
        ("goes_on resilient", {}),
    ],
)
def test_it_works(what: str, env: dict[str, str], mpi: Mpi, leftovers: Leftovers) -> None:
    job = python_run([PLAIN, *what.split()], env=env, mpi=mpi)
    assert (job.rc, job.out) == (0, "fine\n"), job.err
    assert job.err.count("died") == what.startswith("goes_on"), job.err
    leftovers.check(job.mark)


@pytest.mark.parametrize(("start", "more", "less"), [(20, 12, 8), pytest.param(256, 128, 128, marks=pytest.mark.slow)])
def test_a_job_has_more_places_than_a_place_has_children(
    start: int, more: int, less: int, leftovers: Leftovers
) -> None:
    """Reports, results and the news of the members go by way of others, while these come and go."""
    job = python_run([PROGRAMS / "many.py", str(start), str(more), str(less)], timeout=1500)
    assert job.rc == 0, job.err
    said = re.fullmatch(r"(\d+) places: at most (\d+) sockets and on average \d+ MiB each; exact\n", job.out)
    assert said, job.out
    assert int(said[1]) == start + more - less
    leftovers.check(job.mark)


def test_a_kill_takes_along_what_hears_of_nothing(leftovers: Leftovers) -> None:
    with start_job([sys.executable, PLAIN, "busy"]) as job:
        forked = int(re.findall(r"forked (\d+)", job.expect("forked"))[0])
        job.process.kill()
        assert job.wait(SOON_S).rc == -signal.SIGKILL
        until = time.monotonic() + 60
        while set(living(job.mark)) != {forked} and time.monotonic() < until:
            time.sleep(0.01)
        assert set(living(job.mark)) == {forked}  # a process of the program's own, which is its affair
        os.kill(forked, signal.SIGKILL)
    leftovers.check(job.mark)


@pytest.mark.parametrize("launcher", [[], ["-m", "apgas.launch", "-n", "1"]], ids=["plain", "launched"])
def test_later_newcomers_are_forks_and_like_the_first(launcher: list[str], leftovers: Leftovers) -> None:
    job = python_run([*launcher, PROGRAMS / "regrown.py"], env={"REMOVED": "1"})
    assert (job.rc, job.out, job.err) == (0, "fine\n", "")
    leftovers.check(job.mark)
