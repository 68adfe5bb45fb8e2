"""Programs on real places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import Leftovers, Mpi, mpirun, python_run
from support.mpi import LAUNCH, LAUNCH_MPI_PLANE, MPI_PLANE, MPICH, OPEN_MPI

pytestmark = pytest.mark.essential

PROGRAMS = Path(__file__).parent / "programs"


ON_MPICH = [MPICH, MPI_PLANE, LAUNCH, LAUNCH_MPI_PLANE]
on_every_plane = pytest.mark.parametrize("mpi", [*ON_MPICH, OPEN_MPI], indirect=True, ids=lambda mpi: mpi.name)
on_both_of_mpich = pytest.mark.parametrize("mpi", ON_MPICH, indirect=True, ids=lambda mpi: mpi.name)


@on_every_plane
@pytest.mark.parametrize("places", [1, 2, 4])
def test_basics_under_mpiexec(places: int, mpi: Mpi, leftovers: Leftovers) -> None:
    job = mpirun(places, [PROGRAMS / "basics.py"], mpi=mpi)
    assert (job.rc, job.out) == (0, "fine\n"), job.err
    leftovers.check(job.mark)


def test_basics_under_plain_python(mpi: Mpi, leftovers: Leftovers) -> None:
    job = python_run([PROGRAMS / "basics.py"], mpi=mpi)
    assert (job.rc, job.out) == (0, "fine\n"), job.err
    leftovers.check(job.mark)


@on_every_plane
def test_awkward_values_errors_and_waits(mpi: Mpi, leftovers: Leftovers) -> None:
    job = mpirun(2, [PROGRAMS / "awkward.py"], mpi=mpi)
    assert (job.rc, job.out) == (0, "fine\n"), job.err
    leftovers.check(job.mark)


def test_activities_that_no_finish_counts(leftovers: Leftovers) -> None:
    job = mpirun(3, [PROGRAMS / "loose.py"])
    assert (job.rc, job.out) == (0, "fine\n"), job.err
    for place in range(3):
        assert f"place {place}: fail, sent uncounted by place 0, failed" in job.err
        assert f"ValueError: no activity waits for place {place}" in job.err
    leftovers.check(job.mark)


@pytest.mark.parametrize("places", [1, 3])
def test_cancelled_finishes(places: int, leftovers: Leftovers) -> None:
    job = mpirun(places, [PROGRAMS / "cancelling.py"])
    assert (job.rc, job.out) == (0, "fine\n"), job.err
    leftovers.check(job.mark)


@pytest.mark.parametrize("places", [1, 2])
def test_limits_of_time(places: int, leftovers: Leftovers) -> None:
    job = mpirun(places, [PROGRAMS / "late.py"])
    assert (job.rc, job.out) == (0, "fine\n"), job.err
    leftovers.check(job.mark)


@on_both_of_mpich
@pytest.mark.parametrize("method", ["preGrow", "postGrow", "arrays"])
def test_a_program_ends_though_its_handler_waits(method: str, mpi: Mpi, leftovers: Leftovers) -> None:
    job = mpirun(2, [PROGRAMS / "ends_amid_an_order.py", method], mpi=mpi)
    assert (job.rc, job.out, job.err) == (0, "fine\n", "")
    leftovers.check(job.mark)


@on_both_of_mpich
def test_a_newcomer_that_still_loads_at_the_end_of_the_program_does_not_fail_it(mpi: Mpi, leftovers: Leftovers) -> None:
    slow = {"MALLEABLE_TEST_SLOW_NEWCOMERS": "3"}
    job = mpirun(2, [PROGRAMS / "ends_amid_an_order.py", "arrays"], mpi=mpi, env=slow)
    assert (job.rc, job.out, job.err) == (0, "fine\n", "")
    leftovers.check(job.mark)


def test_records_and_lines_tell_their_place(leftovers: Leftovers) -> None:
    job = mpirun(2, [PROGRAMS / "logging_places.py"], env={"APGAS_TAG_OUTPUT": "1"})
    assert job.rc == 0, job.err
    assert sorted(job.out.splitlines()) == [
        "[place 0] printed by place(0)",
        "[place 0] unfinished",
        "[place 1] printed by place(1)",
        "[place 2] printed by place(2)",
    ]
    said = [line for line in job.err.splitlines() if "|program|" in line]
    assert sorted(said) == [
        "[place 0] INFO|0|main|program|begins",
        "[place 0] INFO|0|pass_by|program|passes by",
        "[place 0] INFO|0|pass_by|program|passes by",
        "[place 0] INFO|0|preGrow|program|grows",
        "[place 0] INFO|0|speak|program|at work",
        "[place 1] INFO|1|speak|program|at work",
        "[place 2] INFO|2|speak|program|at work",
    ]
    leftovers.check(job.mark)


@on_every_plane
@pytest.mark.parametrize("places", [1, 3])
def test_collectives(places: int, mpi: Mpi, leftovers: Leftovers) -> None:
    job = mpirun(places, [PROGRAMS / "together.py"], mpi=mpi)
    assert (job.rc, job.out) == (0, "fine\n"), job.err
    leftovers.check(job.mark)


@on_every_plane
def test_references_are_let_go(mpi: Mpi, leftovers: Leftovers) -> None:
    job = mpirun(4, [PROGRAMS / "letting_go.py"], mpi=mpi)
    assert (job.rc, job.out) == (0, "fine\n"), job.err
    leftovers.check(job.mark)


EXAMPLES = (
    "GlobalRef PlaceLocal async_ async_at at attach broadcast cancel cancelled capture configure_logging deadline"
    " finish gather here immediate place places reduce statistics uncounted"
)


@pytest.mark.parametrize(("places", "transport"), [(None, "tcp"), (3, "tcp"), (2, "mpi")])
def test_the_examples_in_the_texts_of_public_names(places: int | None, transport: str, leftovers: Leftovers) -> None:
    program, env = [PROGRAMS / "documented.py"], {"APGAS_TRANSPORT": transport}
    job = python_run(program, env=env) if places is None else mpirun(places, program, env=env)
    assert (job.rc, job.err) == (0, "")
    counted, _, names = job.out.rstrip().partition(" went wrong in ")
    assert counted.startswith("0 of ")
    expected = set(EXAMPLES.split()) | ({"comm"} if transport == "mpi" else set())
    assert expected <= set(names.split())
    leftovers.check(job.mark)


@on_every_plane
def test_handlers_that_misbehave(mpi: Mpi, leftovers: Leftovers) -> None:
    job = mpirun(2, [PROGRAMS / "awkward_resizes.py"], mpi=mpi)
    assert (job.rc, job.out) == (0, "fine\n"), job.err
    leftovers.check(job.mark)


@on_every_plane
@pytest.mark.parametrize("start", [[PROGRAMS / "newcomers.py"], ["-m", "newcomers"]], ids=["script", "module"])
def test_newcomers_know_the_main_program(start: list[str | Path], mpi: Mpi, leftovers: Leftovers) -> None:
    job = mpirun(2, [*start, "once", "-v"], cwd=PROGRAMS, mpi=mpi)
    assert (job.rc, job.out) == (0, "fine\n"), job.err
    leftovers.check(job.mark)


@on_every_plane
@pytest.mark.parametrize("fails", ["nowhere", "on newcomers"])
def test_newcomers_are_set_up_like_the_first_places(fails: str, mpi: Mpi, leftovers: Leftovers) -> None:
    job = mpirun(1, [PROGRAMS / "set_up.py", fails], mpi=mpi, env={"REMOVED_BY_SCRIPT": "1"})
    assert (job.rc, job.out) == (0, "fine\n"), job.err
    assert ("ValueError: cannot be set up" in job.err) == (fails == "on newcomers")
    leftovers.check(job.mark)


@pytest.mark.parametrize("places", [0, 3])
def test_a_setup_that_fails_ends_the_job(places: int, leftovers: Leftovers) -> None:
    words: list[str | Path] = [PROGRAMS / "set_up.py", "everywhere"]
    job = mpirun(places, words) if places else python_run(words)
    assert job.rc == 1
    assert "ValueError: cannot be set up" in job.err
    assert "fine" not in job.out
    leftovers.check(job.mark)


@pytest.mark.parametrize("loop", ["plain", "asyncio"])
def test_one_interpreter_runs_program_after_program(loop: str, leftovers: Leftovers) -> None:
    job = python_run([PROGRAMS / "again.py", loop])
    assert (job.rc, job.out) == (0, "fine\n"), job.err
    leftovers.check(job.mark)


@pytest.mark.parametrize(("places", "transport"), [(2, "tcp"), (2, "mpi"), (0, "mpi")])
def test_elsewhere_a_second_program_is_refused(places: int, transport: str, leftovers: Leftovers) -> None:
    again = "apgas.run(int, setup=lambda: print('set up', flush=True))"  # which does not happen any more
    words = ["-c", f"import apgas; print(apgas.run(int), flush=True); {again}"]
    env = {"APGAS_TRANSPORT": transport}
    job = mpirun(places, words, env=env) if places else python_run(words, env=env)
    assert (job.rc, job.out) == (1, "0\n")
    assert "can call apgas.run once: MPI has ended with" in job.err
    leftovers.check(job.mark)


def _resized(text: str) -> Any:
    result = json.loads(text.splitlines()[-1])
    assert result["sent"] == result["arrived"] > 0, result
    return result


@on_every_plane
def test_places_come_and_go_under_traffic(mpi: Mpi, leftovers: Leftovers) -> None:
    job = mpirun(3, [PROGRAMS / "resizing.py", "0.2:+2,0.9:-2,1.4:-1,1.8:+1,2.0:-9", "5"], mpi=mpi)
    assert job.rc == 0, job.err
    result = _resized(job.out)
    outcomes = [(record["kind"], record["n"], record["outcome"]) for record in result["records"]]
    assert outcomes == [
        ("grow", 2, "done"),
        ("shrink", 2, "done"),
        ("shrink", 1, "done"),
        ("grow", 1, "done"),
        ("shrink", 9, "refused"),
    ]
    # the first world's places went first; their processes are gone, their ids are not used again
    assert result["places"] == [0, 4, 5]
    assert result["alive"] == [0]
    assert result["gone"].startswith("place 1 has left")
    assert [call.split(" [")[0] for call in result["calls"]] == [
        "preGrow 2",
        "postGrow",
        "preShrink 2",
        "postShrink",
        "preShrink 1",
        "postShrink",
        "preGrow 1",
        "postGrow",
    ]
    assert result["calls"][3] == "postShrink [1, 2]"
    leftovers.check(job.mark)


@on_both_of_mpich
def test_newcomers_start_on_the_nodes_that_were_named(mpi: Mpi, leftovers: Leftovers) -> None:
    dash = "--" if mpi.launch else "-"
    options = [f"{dash}launcher", "fork", f"{dash}hosts", "nodeA,nodeB"]
    job = mpirun(2, [PROGRAMS / "resizing.py", "0.1:+2,1.2:-2", "2", "nodeC,nodeD"], options=options, mpi=mpi)
    assert job.rc == 0, job.err
    result = _resized(job.out)
    assert result["calls"][1] == "postGrow [2, 3] ['nodeC', 'nodeD']"
    assert [record["nodes"] for record in result["records"]] == [["nodeC", "nodeD"], ["nodeB", "nodeC"]]
    assert result["places"] == [0, 3]
    leftovers.check(job.mark)


@pytest.mark.parametrize("mpi", [MPICH, MPI_PLANE, OPEN_MPI], indirect=True, ids=lambda mpi: mpi.name)
def test_plain_python_grows_and_shrinks(mpi: Mpi, leftovers: Leftovers) -> None:
    job = python_run([PROGRAMS / "resizing.py", "0.1:+2,1:-1,600:+1", "2"], mpi=mpi)
    assert job.rc == 0, job.err
    result = _resized(job.out)
    assert [record["outcome"] for record in result["records"]] == ["done", "done", "not_due"]
    assert result["places"] == [0, 2]
    leftovers.check(job.mark)


@pytest.mark.parametrize("mpi", [MPICH, OPEN_MPI], indirect=True, ids=lambda mpi: mpi.name)
@pytest.mark.parametrize("env", [{}, {"MPIR_CVAR_NO_COLLECTIVE_FINALIZE": "1"}], ids=["nothing set", "in part"])
def test_an_mpi_that_was_loaded_too_early_keeps_a_job_from_growing(
    mpi: Mpi, env: dict[str, str], leftovers: Leftovers
) -> None:
    job = mpirun(2, [PROGRAMS / "early_mpi.py"], mpi=mpi, env=env)
    assert job.rc == 0, job.err
    assert job.out.startswith("2 2 aborted mpi4py.MPI was imported before apgas.run")
    leftovers.check(job.mark)
