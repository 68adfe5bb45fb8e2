"""What a user sees of errors in real jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import Leftovers, mpirun

PROGRAM = Path(__file__).parent / "programs" / "erring.py"


def lines_of_ours(text: str) -> list[str]:
    return [line for line in text.splitlines() if "/apgas/" in line or "contextlib.py" in line]


@pytest.mark.parametrize("what", ["here", "there"])
def test_tracebacks_show_the_program(what: str, leftovers: Leftovers) -> None:
    job = mpirun(2, [PROGRAM, what])
    assert job.rc != 0
    assert not lines_of_ours(job.err), job.err
    assert "MyError: on purpose: 7" in job.err
    assert job.err.count("in fails") >= 1
    leftovers.check(job.mark)


def test_all_frames_are_shown_on_demand(leftovers: Leftovers) -> None:
    job = mpirun(2, [PROGRAM, "there"], env={"APGAS_TRACEBACK": "full"})
    assert "runtime/api.py" in job.err
    assert "runtime/driver.py" in job.err
    leftovers.check(job.mark)


def test_except_works_with_a_class_of_the_program(leftovers: Leftovers) -> None:
    job = mpirun(2, [PROGRAM, "caught"])
    assert job.out == "caught True 7 ('on purpose: 7',)\n", job.err
    leftovers.check(job.mark)


def test_a_program_that_cannot_begin_gets_the_reason_without_a_traceback() -> None:
    job = mpirun(1, [PROGRAM, "here"], env={"APGAS_TRANSPORT": "pigeons"})
    assert job.rc != 0
    assert job.err.startswith("apgas.errors.UsageError: APGAS_TRANSPORT=pigeons: places talk over tcp or mpi\n"), (
        job.err
    )
