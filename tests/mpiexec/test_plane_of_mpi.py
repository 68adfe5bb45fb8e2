"""What only the mpi plane has: buffers that travel by MPI, a communicator per epoch, communicators for programs."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from support import ROOT, Leftovers, mpirun, python_run, start_job
from support.mpi import MPI_PLANE

PROGRAMS = Path(__file__).parent / "programs"
BY_MPI = {"APGAS_TRANSPORT": "mpi"}


def test_frames_of_all_sizes_survive_twenty_resizes(leftovers: Leftovers) -> None:
    job = mpirun(3, [PROGRAMS / "cycles.py", "1", "20"], env=BY_MPI)
    assert job.rc == 0, job.err
    result = json.loads(job.out)
    assert len(result["outcomes"]) == 20
    assert all(outcome.endswith(": done ") for outcome in result["outcomes"]), result
    assert result["sent"] == result["came_back"] > 0
    leftovers.check(job.mark)


def test_programs_get_communicators_of_the_places_of_one_moment(leftovers: Leftovers) -> None:
    job = mpirun(3, [PROGRAMS / "allreduce.py"], env=BY_MPI)
    assert (job.rc, job.out) == (0, "fine\n"), job.err
    leftovers.check(job.mark)


def test_plain_python_has_communicators_too(leftovers: Leftovers) -> None:
    job = python_run([PROGRAMS / "allreduce.py"], env=BY_MPI)
    assert (job.rc, job.out) == (0, "fine\n"), job.err
    leftovers.check(job.mark)


@pytest.mark.parametrize("what", ["example", "objects", "keeping"])
@pytest.mark.parametrize("places", [2, 3, 4, 6])
def test_the_first_operation_on_a_communicator_does_not_hang(what: str, places: int, leftovers: Leftovers) -> None:
    """Its own example hung in 7 of 10 jobs: mpi4py kept the interpreter before others had been asked to take part."""
    for _ in range(3):
        job = mpirun(places, [PROGRAMS / "by_object.py", what], env=BY_MPI)
        assert (job.rc, job.out) == (0, "fine\n"), job.err
        leftovers.check(job.mark)


@pytest.mark.parametrize("how", ["letting_go", "keeping"])
@pytest.mark.parametrize("where", ["main", "activity", "elsewhere"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_job_that_waits_within_mpi(
    where: str, how: str, number: signal.Signals, code: int, leftovers: Leftovers
) -> None:
    with start_job([*MPI_PLANE.start(2), PROGRAMS / "by_object.py", where, how], mpi=MPI_PLANE) as job:
        job.expect("waits")
        job.process.send_signal(number)
        done = job.wait(30.0)
        leftovers.check(job.mark)
    assert (done.rc, "Traceback" in done.err, done.err.count("the job ends")) == (code, False, 1), done.err


def test_a_program_may_take_signals_itself(leftovers: Leftovers) -> None:
    """The job was ended after three seconds, as if the signal had not been taken."""
    job = mpirun(2, [PROGRAMS / "by_object.py", "taking"], env=BY_MPI)
    assert (job.rc, job.out, job.err) == (0, "fine\n", "")
    leftovers.check(job.mark)


def test_a_job_ends_though_its_end_loses_the_interpreter(leftovers: Leftovers) -> None:
    """One in twenty of the jobs above hung: Python had taken the signal, and the other thread went into MPI then."""
    job = mpirun(2, [PROGRAMS / "by_object.py", "losing"], env=BY_MPI)
    assert (job.rc, job.err.splitlines()[0]) == (143, "apgas: terminated; the job ends")
    leftovers.check(job.mark)


def test_a_benchmark_resizes_over_mpi(leftovers: Leftovers, tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    orders = ["--orders", "0:+2,0:-1,0:-2", "--transport", "mpi", "--rate", "2e6", "--workers", "1"]
    job = mpirun(2, ["-m", "benchmarks.pi", "--samples", "2e7", *orders, "--json", target], cwd=ROOT)
    assert job.rc == 0, job.err
    result = json.loads(target.read_text(encoding="utf-8"))
    assert result["provenance"]["transport"] == "mpi"
    assert [record["outcome"] for record in result["resizes"]] == ["done"] * 3
    leftovers.check(job.mark)


def test_a_failing_job_says_why_even_if_a_place_cannot_build_its_communicator(leftovers: Leftovers) -> None:
    job = mpirun(2, [ROOT / "tests" / "support" / "programs" / "waiting.py", "busy", "raise"], env=BY_MPI)
    assert (job.rc, job.err.count("Traceback"), "RuntimeError: on purpose" in job.err) == (1, 1, True), job.err
    leftovers.check(job.mark)


@pytest.mark.parametrize(
    ("code", "env", "says"),
    [
        (
            "import apgas; apgas.run(print)",
            {"APGAS_TRANSPORT": "pigeon"},
            "APGAS_TRANSPORT=pigeon: places talk over tcp",
        ),
        ("from mpi4py import MPI; import apgas; apgas.run(print)", BY_MPI, "import it in the functions that use it"),
        (
            "import apgas; apgas.run(apgas.comm)",
            {"APGAS_TRANSPORT": "tcp"},
            "start the program with APGAS_TRANSPORT=mpi",
        ),
    ],
)
def test_what_cannot_work_is_explained(code: str, env: dict[str, str], says: str, leftovers: Leftovers) -> None:
    job = python_run(["-c", code], env=env)
    assert job.rc == 1
    assert says in job.err
    leftovers.check(job.mark)
