"""However a job ends, it ends soon, with a message and a code, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from support import ROOT, SOON_S, Completed, Leftovers, Mpi, Running, mpirun, python_run, start_job
from support.mpi import LAUNCH, MPICH, OPEN_MPI

from apgas.runtime.environment import node_name

PROGRAMS = Path(__file__).parent / "programs"
WAITING = ROOT / "tests" / "support" / "programs" / "waiting.py"
HELLO = ROOT / "docs" / "examples" / "hello.py"
MPIEXEC = Path(sys.prefix) / "bin" / "mpiexec"
MPIEXEC_TRIPPED = 2
ENDED_BY_OPEN_MPI = 1  # its mpiexec reports any signal so, and passes on no more of what is said


@contextmanager
def waiting(places: int, mpi: Mpi) -> Iterator[tuple[Running, list[int]]]:
    """A job of that many first places (0: started without mpiexec) and one more that joined, and all their pids."""
    with start_job([*mpi.start(places), WAITING], mpi=mpi) as job:
        said = job.expect("pids")
        yield job, [int(word) for word in said.split("pids", 1)[1].split()]


def ended(job: Running, leftovers: Leftovers) -> Completed:
    done = job.wait(SOON_S)
    leftovers.check(job.mark)
    return done


@pytest.mark.parametrize("places", [3, 0])
@pytest.mark.parametrize("victim", ["first", "spawned"])
def test_a_killed_place_ends_the_job(places: int, victim: str, mpi: Mpi, leftovers: Leftovers) -> None:
    with waiting(places, mpi) as (job, pids):
        assert len(pids) == max(places, 1) + 1
        pid = pids[-1] if victim == "spawned" else pids[-2]
        os.kill(pid, signal.SIGKILL)
        done = ended(job, leftovers)
    assert done.rc != 0
    # Open MPI's mpiexec may swallow what is said. Killing the only first place of a plain program kills the one that
    # could speak.
    if (places or victim == "spawned") and mpi is not OPEN_MPI:
        assert f"pid {pid}) died" in done.err


@pytest.mark.parametrize(("how", "code"), [("quit", 1), ("term", 143), ("kill", 137)])
def test_the_script_that_started_a_plain_program_goes_on(how: str, code: int, leftovers: Leftovers) -> None:
    """Hydra killed the process group of such a program, and so the script, too."""
    program = f"{sys.executable} {WAITING}" + (" quit 1 & " if how == "quit" else " & ")
    with start_job(["sh", "-c", program + "echo program $!; wait $!; echo afterwards $?"]) as job:
        pid = int(job.expect("program").split("program", 1)[1])
        job.expect("pids")
        if how != "quit":
            os.kill(pid, signal.SIGTERM if how == "term" else signal.SIGKILL)
        done = ended(job, leftovers)
    assert (done.rc, done.out.splitlines()[-1]) == (0, f"afterwards {code}"), done.err


@pytest.mark.parametrize("victim", [0, 1, 2, 3])
@pytest.mark.parametrize("places", [2, 3])
def test_a_place_that_ends_by_itself_fails_the_job_and_is_named(places: int, victim: int, leftovers: Leftovers) -> None:
    """The job's code was 0 in a third of such jobs, and no line said what had happened."""
    if victim > places:
        pytest.skip("there is no such place")
    for _ in range(3):
        done = mpirun(places, [WAITING, "quit", str(victim)])
        leftovers.check(done.mark)
        pid = done.out.split()[1 + victim]
        assert (done.rc, f"apgas: place {victim} ({node_name()}, pid {pid}) died" in done.err) == (1, True), done.err


@pytest.mark.parametrize("transport", ["tcp", "mpi"])
@pytest.mark.parametrize("how", ["exit3", "kill"])
def test_a_plain_program_says_once_that_a_place_has_died(how: str, transport: str, leftovers: Leftovers) -> None:
    """Both place 0 and what stands beside the other one said it, for place 0 is not ended before it can."""
    for _ in range(3):
        with start_job([sys.executable, PROGRAMS / "losing.py", how, "1"], {"APGAS_TRANSPORT": transport}) as job:
            done = job.wait()
        leftovers.check(done.mark)
        pid = done.out.split("pids", 1)[1].split()[1]
        assert (done.rc, done.err.count(f"apgas: place 1 ({node_name()}, pid {pid}) died: ")) == (1, 1), done.err


@pytest.mark.parametrize("places", [2, 0])
def test_a_killed_place_0_ends_the_job(places: int, mpi: Mpi, leftovers: Leftovers) -> None:
    with waiting(places, mpi) as (job, pids):
        os.kill(pids[0], signal.SIGKILL)
        done = ended(job, leftovers)
    assert done.rc != 0
    if places and mpi is not OPEN_MPI:
        assert f"apgas: place 0 ({node_name()}, pid {pids[0]}) died" in done.err


@pytest.mark.parametrize("places", [2, 0])
def test_ctrl_c_ends_the_job_with_one_line(places: int, mpi: Mpi, leftovers: Leftovers) -> None:
    with waiting(places, mpi) as (job, _):
        job.interrupt()
        done = ended(job, leftovers)
    assert "Traceback" not in done.err
    if places and mpi is OPEN_MPI:
        assert done.rc == ENDED_BY_OPEN_MPI
        return
    # mpiexec has the signal as well; rarely, its own end comes first, with a code of its own
    assert done.rc in ((130, MPIEXEC_TRIPPED) if places else (130,)), done.err
    assert "interrupted" in done.err


@pytest.mark.parametrize("places", [2, 0])
def test_a_signal_that_arrives_again_and_again_is_one(places: int, mpi: Mpi, leftovers: Leftovers) -> None:
    with waiting(places, mpi) as (job, pids):
        with suppress(ProcessLookupError):  # it has ended
            for _ in range(500):
                os.kill(pids[0], signal.SIGINT)
        done = ended(job, leftovers)
    assert (done.rc, done.err.count("interrupted"), "Traceback" in done.err) == (130, 1, False), done.err


@pytest.mark.parametrize("places", [2, 0])
def test_term_ends_the_job(places: int, mpi: Mpi, leftovers: Leftovers) -> None:
    with waiting(places, mpi) as (job, _):
        job.process.terminate()
        done = ended(job, leftovers)
    assert "Traceback" not in done.err
    if places and mpi is OPEN_MPI:
        assert done.rc == ENDED_BY_OPEN_MPI
        return
    assert done.rc == 143, done.err
    assert "terminated" in done.err


@pytest.mark.parametrize(
    ("what", "code", "says"),
    [
        ("cleans_up_and_exits", 3, ""),
        ("goes_on_and_fails", 1, "LookupError: afterwards, on purpose"),
        ("fails_to_clean_up", 143, "apgas: terminated; the job ends (LookupError: within, on purpose)"),
        ("ends", -signal.SIGTERM, ""),
    ],
)
def test_what_a_program_does_about_its_interrupt_counts(what: str, code: int, says: str, leftovers: Leftovers) -> None:
    with start_job([*MPICH.start(0), ROOT / "tests" / "mpiexec" / "programs" / "interrupted.py", what]) as job:
        job.expect("waiting")
        job.process.terminate()
        done = ended(job, leftovers)
    assert (done.rc, "Traceback" in done.err) == (code, code == 1), done.err
    assert says in done.err.splitlines() if says else not done.err


def test_term_after_the_program_has_ended_has_the_same_code(leftovers: Leftovers) -> None:
    with start_job([*MPICH.start(2), ROOT / "tests" / "mpiexec" / "programs" / "interrupted.py", "ends"]) as job:
        job.expect("waiting")
        job.process.terminate()
        done = ended(job, leftovers)
    assert done.rc == 143, done.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("mpi", [MPICH, LAUNCH])
def test_a_place_that_has_not_begun_dies_of_no_signal(mpi: Mpi, number: signal.Signals, leftovers: Leftovers) -> None:
    with start_job([*mpi.start(2), PROGRAMS / "interrupted.py", "is_ahead"], mpi=mpi) as job:
        job.expect("waiting")
        job.process.send_signal(number)
        done = ended(job, leftovers)
    assert (done.rc, "Traceback" in done.err) == (128 + number, False), done.err


def test_an_interrupt_waits_for_the_end_of_what_it_would_leave_half_done(leftovers: Leftovers) -> None:
    job = python_run([PROGRAMS / "interrupted.py", "in_the_middle"])
    assert (job.rc, job.err) == (143, "apgas: terminated; the job ends\n")
    assert job.out.startswith("changed\n")
    leftovers.check(job.mark)


def test_an_interrupt_within_a_destructor_is_not_lost(leftovers: Leftovers) -> None:
    job = python_run([PROGRAMS / "interrupted.py", "in_a_destructor"])
    assert (job.rc, job.err, job.out) == (143, "apgas: terminated; the job ends\n", "waiting\n")
    leftovers.check(job.mark)


def test_a_killed_mpiexec_takes_its_job_along(mpi: Mpi, leftovers: Leftovers) -> None:
    with waiting(2, mpi) as (job, _):
        job.process.kill()
        done = ended(job, leftovers)
    assert done.rc == -signal.SIGKILL


@pytest.mark.parametrize("places", [2, 0])
def test_an_uncaught_error_ends_the_job_with_its_traceback(places: int, mpi: Mpi, leftovers: Leftovers) -> None:
    done = mpirun(places, [WAITING, "raise"], mpi=mpi) if places else python_run([WAITING, "raise"], mpi=mpi)
    leftovers.check(done.mark)
    assert done.rc == 1, done.err
    assert done.err.count("RuntimeError: on purpose") == 1
    assert "BAD TERMINATION" not in done.err


@pytest.mark.parametrize("places", [2, 0])
@pytest.mark.parametrize(("how", "code", "says"), [("raise", 1, "RuntimeError: on purpose"), ("exit", 3, "")])
def test_a_place_that_holds_on_to_its_interpreter_cannot_keep_the_job(
    places: int, how: str, code: int, says: str, mpi: Mpi, leftovers: Leftovers
) -> None:
    done = mpirun(places, [WAITING, "busy", how], mpi=mpi) if places else python_run([WAITING, "busy", how], mpi=mpi)
    leftovers.check(done.mark)
    assert (done.rc, done.err.count("Traceback"), says in done.err) == (code, how == "raise", True), done.err


@pytest.mark.parametrize("places", [2, 0])
def test_an_error_of_an_activity_ends_the_job_with_its_remote_traceback(
    places: int, mpi: Mpi, leftovers: Leftovers
) -> None:
    done = mpirun(places, [WAITING, "fail"], mpi=mpi) if places else python_run([WAITING, "fail"], mpi=mpi)
    leftovers.check(done.mark)
    assert done.rc == 1, done.err
    assert "LookupError: elsewhere, on purpose" in done.err
    assert f"raised on place {max(places, 1)} (" in done.err
    assert "in fail" in done.err


@pytest.mark.parametrize("places", [2, 0])
def test_the_code_of_the_program_is_the_code_of_the_job(places: int, mpi: Mpi, leftovers: Leftovers) -> None:
    done = mpirun(places, [WAITING, "exit"], mpi=mpi) if places else python_run([WAITING, "exit"], mpi=mpi)
    leftovers.check(done.mark)
    assert (done.rc, "Traceback" in done.err) == (3, False), done.err


@pytest.mark.parametrize("places", [3, 0])
def test_the_first_example_says_hello_from_every_place(places: int, mpi: Mpi, leftovers: Leftovers) -> None:
    done = mpirun(places, [HELLO], mpi=mpi) if places else python_run([HELLO], mpi=mpi)
    leftovers.check(done.mark)
    assert done.rc == 0, done.err
    assert sorted(done.out.splitlines()) == [f"hello from place({i})" for i in range(max(places, 1))]


def test_places_know_the_emulated_node_they_are_on(leftovers: Leftovers) -> None:
    code = "import apgas; apgas.run(lambda: print([apgas.at(p, lambda: apgas.here().node) for p in apgas.places()]))"
    done = mpirun(2, ["-c", code], options=["-launcher", "fork", "-hosts", "nodeA,nodeB"])
    leftovers.check(done.mark)
    assert done.out.strip() == "['nodeA', 'nodeB']", done.err


def test_a_foreign_mpiexec_is_explained(leftovers: Leftovers) -> None:
    # What Open MPI's mpiexec leaves in the environment of a process.
    done = python_run([HELLO], env={"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0"})
    leftovers.check(done.mark)
    assert done.rc != 0
    assert "hello" not in done.out
    assert "started by the mpiexec of Open MPI" in done.err
    assert str(MPIEXEC) in done.err


@pytest.mark.parametrize("newcomer", ["outside", "inside"])
@pytest.mark.parametrize("how", ["well", "badly"])
def test_a_spawn_that_hangs_cannot_keep_the_job(how: str, newcomer: str, leftovers: Leftovers) -> None:
    """Whether the newcomer has not come to MPI yet or does not speak after it."""
    done = mpirun(2, [ROOT / "tests" / "mpiexec" / "programs" / "hung_spawn.py", how, newcomer])
    leftovers.check(done.mark)
    well = how == "well"
    assert (done.rc == 0) == well, done
    assert done.out.splitlines() == ["aborted [0, 1]", *(["result"] if well else [])]
    assert done.err.count("RuntimeError: on purpose") == (not well)


FORKING = ROOT / "tests" / "mpiexec" / "programs" / "forking.py"


@pytest.mark.parametrize("how", ["returns", "fails", "exits", "often", "uncounted", "immediate", "main", "bag"])
def test_a_forked_child_that_comes_back_is_ended(how: str, leftovers: Leftovers) -> None:
    """It waited for threads that it did not have, and mpiexec for its output, also after TERM."""
    done = mpirun(2, [FORKING, how])
    leftovers.check(done.mark)
    assert (done.rc, done.out.count("finished")) == (0, 1), done.err
    assert how == "bag" or "came back to the runtime and is ended" in done.err


def test_term_ends_a_job_that_has_forked(leftovers: Leftovers) -> None:
    with start_job([*MPICH.start(2), FORKING, "often", "stay"]) as job:
        job.expect("finished")
        job.process.terminate()
        done = ended(job, leftovers)
    assert done.rc == 143, done.err


@pytest.mark.parametrize("end", ["well", "term"])
@pytest.mark.parametrize("child", ["", "exec", "popen", "twice deaf", "setsid", "setsid exec"])
def test_what_is_left_behind_holds_no_mpiexec(child: str, end: str, leftovers: Leftovers) -> None:
    """It held the output of its place, and mpiexec waited until it was killed."""
    with start_job([*MPICH.start(2), FORKING, f"leaves {child}", *(["stay"] if end == "term" else [])]) as job:
        job.expect("finished")
        if end == "term":
            job.process.terminate()
        done = ended(job, leftovers)
    assert done.rc == (143 if end == "term" else 0), done.err
    assert done.err.count("left processes behind, which are ended") == (2 if end == "well" else 0)


@pytest.mark.parametrize("end", ["well", "term"])
def test_a_child_that_detaches_itself_lives_on(end: str, leftovers: Leftovers) -> None:
    with start_job([*MPICH.start(2), FORKING, "leaves popen alone", *(["stay"] if end == "term" else [])]) as job:
        job.expect("finished")
        if end == "term":
            job.process.terminate()
        done = job.wait(SOON_S)
    left = [int(line.split()[1]) for line in done.out.splitlines() if line.startswith("left")]
    assert done.rc == (143 if end == "term" else 0), done.err
    assert "left processes behind" not in done.err
    assert len(left) == 2
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    leftovers.check(done.mark)


@pytest.mark.parametrize("places", [2, 0])
def test_a_signal_is_taken_that_arrived_just_before_the_main_thread_began_to_wait(
    places: int, leftovers: Leftovers
) -> None:
    with start_job([*MPICH.start(places), PROGRAMS / "interrupted.py", "wakes_nobody"]) as job:
        done = ended(job, leftovers)
    assert (done.rc, done.err) == (143, "apgas: terminated; the job ends\n")


def test_a_handler_of_the_program_is_called_once_for_a_signal(leftovers: Leftovers) -> None:
    with start_job([*MPICH.start(0), PROGRAMS / "interrupted.py", "hears_by_itself"]) as job:
        job.expect("waiting")
        job.process.terminate()
        done = ended(job, leftovers)
    assert done.out.splitlines()[-1] == "heard 1", done
