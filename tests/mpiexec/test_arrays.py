"""Arrays of real places."""

from __future__ import annotations

import random
import re
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


def random_orders(count: int, seed: str) -> list[str]:
    """Grows and shrinks of 1 to 3 places, such that a program that begins with 2 has 1 to 6."""
    rng, size, orders = random.Random(seed), 2, []
    for _ in range(count):
        change = rng.choice([by for by in (-3, -2, -1, 1, 2, 3) if 1 <= size + by <= 6])
        size += change
        orders.append(f"{change:+d}")
    return orders


def values_in(text: str) -> list[float]:
    """The numbers that a program prints."""
    return [float(value) for value in re.findall(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", text)]


@pytest.mark.parametrize("count", [12, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compute_what_their_rigid_twins_compute_however_often_they_are_resized(
    leftovers: Leftovers, name: str, count: int
) -> None:
    orders, steps = random_orders(count, name), str(2 * count + 14)
    rigid_main = f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); import {name}_rigid as program; "
    rigid_main += f"program.STEPS = {steps}; program.main()"
    with start_job(["mpiexec", "-n", "2", sys.executable, "-c", rigid_main]) as job:
        rigid = job.wait()
    command: list[str | Path] = [sys.executable, "-m", "apgas.launch", "-n", "2", sys.executable]
    with start_job([*command, PROGRAM, name, steps, *orders]) as job:
        done = job.wait()
    leftovers.check(done.mark)
    assert (rigid.rc, rigid.err) == (0, "")
    assert (done.rc, done.err) == (0, "")
    result, resized, outcomes = done.out.splitlines()
    assert (resized.split(), outcomes) == (orders, "done")
    if name == "jacobi":
        assert result == rigid.out.strip()  # a hash of all bits
    else:
        assert values_in(result) == pytest.approx(values_in(rigid.out), rel=1e-9)


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_have_hardly_more_lines(name: str) -> None:
    lines = [
        len((EXAMPLES / f"{each}.py").read_text(encoding="utf-8").splitlines()) for each in (name, f"{name}_rigid")
    ]
    assert lines[0] <= lines[1] + 20
