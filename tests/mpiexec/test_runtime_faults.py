"""Faults of machines that end by themselves lose nothing: a place that stands still, a link that is cut for a while.

And one that does not: the kernel ends a place for want of memory.
"""

from __future__ import annotations

import ast
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import Leftovers, Running, start_job
from support.hosts import need_hosts, place_on, start_launched
from support.mpi import BIN

PROGRAMS = Path(__file__).with_name("programs")
AGAIN = PROGRAMS / "uts_again.py"
STILL_S = 60.0
CUT_S = 10.0
LAUNCHER = [sys.executable, "-m", "apgas.launch", "--resilient", "-n", "3", sys.executable]


def finish(job: Running, end: Path, leftovers: Leftovers) -> None:
    """Let a job that counts again and again end; it has counted right."""
    end.touch()
    done = job.wait()
    leftovers.check(job.mark)
    assert done.rc == 0, done.err
    assert "wrong counts []" in done.out


def test_places_that_stand_still_for_a_minute_are_waited_for(tmp_path: Path, leftovers: Leftovers) -> None:
    """Place 0, too; and also in a resilient job a place that does not answer is not taken for a dead one."""
    end = tmp_path / "end"
    with (
        start_job([BIN / "mpiexec", "-n", "3", sys.executable, AGAIN, "0", end]) as plain,
        start_job([*LAUNCHER, AGAIN, "0", end]) as resilient,
    ):
        jobs = (plain, resilient)
        places = [ast.literal_eval(job.expect("]").removeprefix("up ")) for job in jobs]
        still = [place for first, _, last in places for place in (first, last)]
        for pid in still:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(STILL_S)
        for pid in still:
            os.kill(pid, signal.SIGCONT)
        for job in jobs:
            finish(job, end, leftovers)


def test_a_link_that_is_cut_for_a_while_loses_nothing(tmp_path: Path, leftovers: Leftovers) -> None:
    need_hosts()
    end = tmp_path / "end"
    with start_launched(["host1", "host2"], [AGAIN, "0", end], options=["--resilient"]) as job:
        job.expect("up")
        link = ["nsenter", "--net", "--target", str(place_on(job, "host2")), "ip", "link", "set", "eth0"]
        cut = shlex.join([*link, "down"]) + f" && sleep {CUT_S}; " + shlex.join([*link, "up"])
        subprocess.run(["sh", "-c", cut], check=True, timeout=60)
        finish(job, end, leftovers)


@contextlib.contextmanager
def memory_group(bytes_: int) -> Iterator[Path]:
    """A control group whose processes may have so much memory; skips the test where none can be made."""
    v1 = Path("/sys/fs/cgroup/memory")
    group = (v1 if v1.is_dir() else Path("/sys/fs/cgroup")) / f"malleable-test-{os.getpid()}"
    limit = "memory.limit_in_bytes" if v1.is_dir() else "memory.max"
    try:
        group.mkdir()
        (group / limit).write_text(str(bytes_))
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    try:
        yield group
    finally:
        group.rmdir()


def test_a_place_that_the_kernel_ends_for_want_of_memory_is_named(tmp_path: Path, leftovers: Leftovers) -> None:
    with memory_group(512 * 2**20) as group, start_job([*LAUNCHER, PROGRAMS / "greedy.py", str(group)]) as job:
        done = job.wait()
        leftovers.check(job.mark)
    assert done.rc == 0, done.err
    assert done.err.startswith("apgas: place(2) on ")
    assert done.err.endswith("; the job goes on\n")
    assert done.out.splitlines()[-1] == "DeadPlaceError of place 2, left [0, 1]"
