"""Arrays of real places."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support import ROOT, Leftovers, start_job

EXAMPLES = ROOT / "docs" / "examples"
HEATED = ROOT / "tests" / "mpiexec" / "programs" / "heated.py"
PROGRAM = ROOT / "tests" / "mpiexec" / "programs" / "resized.py"


@pytest.mark.essential
def test_rows_follow_real_places(leftovers: Leftovers) -> None:
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "apgas.launch",
        "-n",
        "2",
        sys.executable,
        HEATED,
        "0:+2,0:-3,0:+1",
    ]
    with start_job(command) as job:
        done = job.wait()
    leftovers.check(done.mark)
    assert (done.rc, done.out, done.err) == (0, "2 4 1 2 True done done done\n", "")


@pytest.mark.essential
def test_rows_of_a_killed_place_come_back(leftovers: Leftovers) -> None:
    bereaved = ROOT / "tests" / "mpiexec" / "programs" / "bereaved.py"
    command: list[str | Path] = [sys.executable, "-m", "apgas.survive", "-n", "4", sys.executable, bereaved]
    with start_job(command) as job:
        done = job.wait()
    leftovers.check(done.mark)
    assert (done.rc, done.out) == (0, "[0, 3] True\n"), done.err


def test_glb_and_an_executor_work_in_the_same_job(leftovers: Leftovers) -> None:
    together = ROOT / "tests" / "mpiexec" / "programs" / "arrays_beside_tasks.py"
    orders = "0:+2,0:-1,0:+1,0:-2"
    command: list[str | Path] = [sys.executable, "-m", "apgas.launch", "-n", "2", sys.executable, together, orders]
    with start_job(command) as job:
        done = job.wait()
    leftovers.check(done.mark)
    assert (done.rc, done.out, done.err) == (0, "True 2 True\ndone done done done\n", "")


PROGRAMS = ("jacobi", "conjugate_gradient", "k_means", "n_body")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_print_what_their_rigid_twins_print_however_often_they_are_resized(
    leftovers: Leftovers, name: str
) -> None:
    orders = "0:+2,0:-1,0:+1,0:-2,0:+1,0:-1,0:+3"
    with start_job(["mpiexec", "-n", "2", sys.executable, EXAMPLES / f"{name}_rigid.py"]) as job:
        rigid = job.wait()
    with start_job(["mpiexec", "-n", "2", sys.executable, PROGRAM, name, orders]) as job:
        done = job.wait()
    leftovers.check(done.mark)
    assert (rigid.rc, rigid.err) == (0, "")
    assert (done.rc, done.err) == (0, "")
    assert done.out == rigid.out + "done done done done done done done\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_have_hardly_more_lines(name: str) -> None:
    lines = [
        len((EXAMPLES / f"{each}.py").read_text(encoding="utf-8").splitlines()) for each in (name, f"{name}_rigid")
    ]
    assert lines[0] <= lines[1] + 20
