"""What is special under Open MPI; the core of the tests runs under both MPIs, see the fixture ``mpi``."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from support import ROOT, Leftovers, mpirun, python_run
from support.mpi import LAUNCH, OPEN_MPI, need_openmpi

PROGRAMS = Path(__file__).parent / "programs"
HELLO = ROOT / "docs" / "examples" / "hello.py"
CYCLES = 25
LAUNCHED = replace(LAUNCH, bin=OPEN_MPI.bin)


@pytest.fixture(autouse=True)
def installed() -> None:
    need_openmpi()


def test_a_benchmark_grows_and_shrinks_with_an_exact_result(tmp_path: Path, leftovers: Leftovers) -> None:
    file = tmp_path / "result.json"
    tasks = 1_022_427
    options = f"--depth 9 --workers 1 --rate {tasks / 8:.0f} --orders 0.2:+2,1:-2 --verify --json {file}".split()
    job = mpirun(2, ["-m", "benchmarks.uts", *options], cwd=ROOT, mpi=OPEN_MPI)
    leftovers.check(job.mark)
    assert job.rc == 0, job.err
    result = json.loads(file.read_text())
    assert [(resize["kind"], resize["outcome"]) for resize in result["resizes"]] == [
        ("grow", "done"),
        ("shrink", "done"),
    ]
    assert (result["verified"], result["places_start"], result["places_end"]) == (True, 2, 2)


def test_an_order_on_a_host_that_mpiexec_does_not_know_is_aborted_and_the_job_goes_on(leftovers: Leftovers) -> None:
    nodes = f"nowhere.invalid,{socket.gethostname()}"
    job = mpirun(2, [PROGRAMS / "resizing.py", "0.1:+2,0.2:-1", "2", nodes], mpi=OPEN_MPI)
    leftovers.check(job.mark)
    assert job.rc == 0, job.err
    result = json.loads(job.out.splitlines()[-1])
    assert result["sent"] == result["arrived"] > 0
    grow, shrink = result["records"]
    assert (grow["outcome"], shrink["outcome"]) == ("aborted", "done")
    assert "nowhere.invalid" in grow["reason"]


def test_newcomers_may_be_more_than_mpiexec_has_slots(leftovers: Leftovers) -> None:
    one_slot = replace(OPEN_MPI, options=("--host", "localhost:1"))
    job = mpirun(1, [PROGRAMS / "resizing.py", "0.1:+2,0.2:-2", "2"], mpi=one_slot)
    leftovers.check(job.mark)
    assert job.rc == 0, job.err
    result = json.loads(job.out.splitlines()[-1])
    assert [record["outcome"] for record in result["records"]] == ["done", "done"], result["records"]


def test_by_our_launcher_a_job_grows_onto_other_nodes_and_shrinks(leftovers: Leftovers) -> None:
    """It needs no MPI."""
    emulated = replace(LAUNCHED, options=("--launcher", "fork", "--hosts", "a,b"))
    job = mpirun(2, [PROGRAMS / "resizing.py", "0.1:+2,0.2:-2", "2", "c,d"], mpi=emulated)
    leftovers.check(job.mark)
    assert job.rc == 0, job.err
    result = json.loads(job.out.splitlines()[-1])
    assert result["sent"] == result["arrived"] > 0
    assert [record["outcome"] for record in result["records"]] == ["done", "done"], result["records"]


def test_the_doctor_finds_that_nodes_can_be_emulated() -> None:
    check = "from apgas.doctor import check_emulated_nodes as check; print(check().came_back)"
    done = python_run(["-c", check], mpi=OPEN_MPI)
    assert (done.rc, done.out) == (0, "nodeA and nodeB\n"), done.err


@pytest.mark.parametrize("places", [2, 0])
def test_the_mpi_plane_is_refused(places: int, leftovers: Leftovers) -> None:
    plane = {"APGAS_TRANSPORT": "mpi"}
    job = mpirun(places, [HELLO], env=plane, mpi=OPEN_MPI) if places else python_run([HELLO], env=plane, mpi=OPEN_MPI)
    leftovers.check(job.mark)
    assert job.rc != 0
    assert "hello" not in job.out
    assert "the mpi transport needs MPICH with MPI_THREAD_MULTIPLE, and this is Open MPI" in job.err


@pytest.mark.slow
def test_many_cycles(leftovers: Leftovers) -> None:
    orders = ",".join(f"{0.6 * cycle:.1f}:+2,{0.6 * cycle + 0.3:.1f}:-2" for cycle in range(CYCLES))
    job = mpirun(2, [PROGRAMS / "resizing.py", orders, str(2 * CYCLES)], mpi=OPEN_MPI)
    leftovers.check(job.mark)
    assert job.rc == 0, job.err
    result = json.loads(job.out.splitlines()[-1])
    assert result["sent"] == result["arrived"] > 0
    assert [record["outcome"] for record in result["records"]] == ["done"] * (2 * CYCLES)
    assert len(result["places"]) == 2
