"""Jobs that `apgas.launch` starts: no other user reaches them, they leave nothing behind, and their code is right."""

from __future__ import annotations

import ast
import os
import re
import signal
import time
from pathlib import Path

import pytest
from support import ROOT, SOON_S, Leftovers, mpirun, start_job
from support.doors import LOOPBACK, attack, listening
from support.mpi import LAUNCH, MPICH

PROGRAMS = Path(__file__).with_name("programs")
WAITING = ROOT / "tests" / "support" / "programs" / "waiting.py"
SURVIVING = ROOT / "docs" / "examples" / "surviving.py"


BEGUN = """
import os
from pathlib import Path
import apgas, heavy

def begun():
    forked = "forkserver" in Path("/proc/self/cmdline").read_text()
    return forked, heavy.loaded_in != os.getpid(), os.getppid()

def main():
    print([apgas.at(place, begun) for place in apgas.places()])

if __name__ == "__main__":
    apgas.run(main)
"""


PATIENT = """
from apgas.launch import __main__, processes
from apgas.runtime import forkserver
forkserver.ANSWER_S = processes.ANSWER_S = processes.PRELOAD_S = processes.BEGINNING_S = 600.0
__main__.main()
"""


def patient(places: int, options: list[str]) -> list[str | Path]:
    """The words that start a launcher for which nothing comes too late, as some of it may on a busy machine."""
    python, _, _, *rest = LAUNCH.start(places, options)
    return [python, "-c", PATIENT, *rest]


@pytest.mark.essential
@pytest.mark.parametrize("plane", ["tcp", "mpi"], ids=["tcp_plane", "mpi_plane"])
def test_a_job_listens_only_where_its_places_prove_themselves(plane: str, leftovers: Leftovers) -> None:
    words = [*LAUNCH.start(2), PROGRAMS / "listening.py"]
    reading, writing = os.pipe()
    with start_job(words, env={"APGAS_TRANSPORT": plane}, stdin=reading) as job:
        said = job.expect("pids")
        ports = {int(word) for word in re.findall(r"ports (.*)", said)[0].split()}
        pids = list(job.processes())
        assert len(pids) >= 5  # the launcher and its keeper, two places, one that joined, and what watches place 0
        assert listening(pids) == {(LOOPBACK, port) for port in ports}
        attack(ports)
        os.write(writing, b"\n")
        done = job.wait(SOON_S)
    os.close(reading)
    os.close(writing)
    assert (done.rc, done.err) == (0, "")
    assert done.out.splitlines()[-1].startswith("alive")
    leftovers.check(done.mark)


def test_under_mpiexec_there_are_others_to_attack() -> None:
    """What the launcher is for; when this fails, mpiexec has become better."""
    reading, writing = os.pipe()
    with start_job([*MPICH.start(2), PROGRAMS / "listening.py"], stdin=reading) as job:
        job.expect("pids")
        addresses = {address for address, _ in listening(list(job.processes()))}
        os.write(writing, b"\n")
        job.wait(SOON_S)
    os.close(reading)
    os.close(writing)
    assert addresses - {LOOPBACK}


@pytest.mark.parametrize("how", ["kill", "exit 0", "exit 7", "abort"])
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_job_that_lost_a_place_fails_and_says_which(how: str, victim: int, leftovers: Leftovers) -> None:
    """``victim`` 2 has been spawned."""
    code, says = {"kill": (137, "signal 9"), "exit 0": (1, "exit code 0"), "exit 7": (7, "exit code 7")}.get(
        how, (134, "signal 6")
    )
    done = mpirun(2, [PROGRAMS / "losing.py", how, str(victim)], mpi=LAUNCH)
    leftovers.check(done.mark)
    pid = done.out.split()[1 + victim]
    assert done.rc == code, done.err
    assert re.fullmatch(rf"apgas: place {victim} \(.*, pid {pid}\) died: {says}; the job ends\n", done.err)


def test_a_resilient_job_goes_on(leftovers: Leftovers) -> None:
    """The program asks for that itself."""
    done = mpirun(3, [SURVIVING], mpi=LAUNCH)
    leftovers.check(done.mark)
    assert done.rc == 0, done.err
    assert "without place(2) there are 2" in done.out
    assert done.err.count("died: ") == 1


def test_a_resilient_job_loses_a_spawned_place_and_grows_again(leftovers: Leftovers) -> None:
    done = mpirun(3, [PROGRAMS / "survivor.py", "shrink"], mpi=LAUNCH, options=["--resilient"])
    leftovers.check(done.mark)
    assert (done.rc, done.out.splitlines()[-1]) == (0, "fine"), done.err
    assert done.err.count("the job goes on") == 3


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5])
def test_term_ends_the_job_at_any_time(after_s: float, leftovers: Leftovers) -> None:
    with start_job([*LAUNCH.start(2), WAITING]) as job:
        time.sleep(after_s)
        job.process.terminate()
        done = job.wait(SOON_S)
    assert done.rc in (143, -signal.SIGTERM), done.err
    assert "Traceback" not in done.err or after_s < 0.5
    leftovers.check(done.mark)


@pytest.mark.parametrize("options", [[], ["--preload", "json"]], ids=["executed", "forked"])
def test_of_processes_that_begin_only_the_first_says_that_it_was_interrupted(
    options: list[str], leftovers: Leftovers
) -> None:
    program = "import time; print('begun', flush=True); time.sleep(600)"
    with start_job([*patient(2, options), "-c", program]) as job:
        while job.text(job.out).count("begun") < 2:
            time.sleep(0.01)
        job.process.send_signal(signal.SIGINT)
        done = job.wait(SOON_S)
    assert (done.rc, done.err.count("KeyboardInterrupt")) == (130, 1), done.err
    leftovers.check(done.mark)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_job_amid_its_start_disturbs_no_other_and_leaves_no_memory(how: signal.Signals, leftovers: Leftovers) -> None:
    """MPICH names a world's shared memory after the store; one of two processes has made it and waits for the other."""
    program = "import os, time; os.environ['PMI_RANK'] == '1' and time.sleep(600); from mpi4py import MPI"
    together = "from mpi4py import MPI; print(MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.rank + 1), flush=True)"
    with start_job([*LAUNCH.start(2), "-c", program]) as job:
        while not any("mpich_shm_" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8") for pid in job.processes()):
            time.sleep(0.01)
        beside = mpirun(2, ["-c", together], mpi=LAUNCH)
        assert (beside.rc, beside.out.split()) == (0, ["3", "3"]), beside.err
        job.process.send_signal(how)
        done = job.wait(SOON_S)
    leftovers.check(done.mark, beside.mark)


def test_a_signal_that_is_ignored_ends_the_job_when_it_comes_again(leftovers: Leftovers) -> None:
    program = (
        "import signal, time; signal.signal(15, lambda *_: print('heard', flush=True)); print('deaf', flush=True)\n"
        "while True: time.sleep(600)"
    )
    with start_job([*LAUNCH.start(2), "-c", program]) as job:
        while job.text(job.out).count("deaf") < 2:
            time.sleep(0.01)
        job.process.terminate()
        while job.text(job.out).count("heard") < 2:
            time.sleep(0.01)
        time.sleep(1.5)
        assert job.process.poll() is None
        job.process.terminate()
        done = job.wait(SOON_S)
    assert done.rc == 143
    leftovers.check(done.mark)


def test_a_job_has_the_time_that_it_was_given_to_end(leftovers: Leftovers) -> None:
    """As a scheduler gives it, which asks several times."""
    program = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    with start_job([*LAUNCH.start(1, ["--grace", "2.5"]), "-c", program]) as job:
        job.expect("deaf")
        begin = time.monotonic()
        while job.process.poll() is None:
            job.process.terminate()
            time.sleep(0.1)
        took_s = time.monotonic() - begin
        done = job.wait(SOON_S)
    assert done.rc == 143
    assert 2.4 < took_s < 2.5 + SOON_S
    leftovers.check(done.mark)


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "soon"])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    with start_job([*LAUNCH.start(1, [f"--grace={text}"]), "-c", ""]) as job:
        done = job.wait(SOON_S)
    assert (done.rc, done.err.splitlines()[-1]) == (
        2,
        f"python -m apgas.launch: error: argument --grace: '{text}' is not a number of seconds",
    )


def test_a_program_is_executed_by_its_own_interpreter_if_that_is_wanted(tmp_path: Path) -> None:
    script = tmp_path / "prog.py"
    script.write_text("#!/bin/sh\necho shell\n", encoding="ascii")
    script.chmod(0o755)
    with start_job([*LAUNCH.start(1, ["--as-is"])[:-1], script]) as job:
        done = job.wait(SOON_S)
    assert (done.rc, done.out) == (0, "shell\n"), done.err


def test_a_killed_launcher_takes_along_what_never_heard_of_it(leftovers: Leftovers) -> None:
    with start_job([*LAUNCH.start(3)[:-1], "sleep", "600"]) as job:
        while len(job.processes()) < 4:
            time.sleep(0.01)
        job.process.kill()
        job.wait(SOON_S)
    leftovers.check(job.mark)


def test_what_cannot_be_started_is_said(leftovers: Leftovers) -> None:
    with start_job([*LAUNCH.start(2)[:-1], "/nowhere/prog"]) as job:
        done = job.wait(SOON_S)
    assert (done.rc, done.err) == (127, "apgas: /nowhere/prog cannot be started: No such file or directory\n")
    leftovers.check(done.mark)


def test_a_spawn_of_what_is_not_there_is_an_error_and_not_the_end(leftovers: Leftovers) -> None:
    program = """
from mpi4py import MPI
try:
    MPI.COMM_SELF.Spawn("/nowhere/prog", maxprocs=2)
except MPI.Exception:
    print("refused")
"""
    done = mpirun(1, ["-c", program], mpi=LAUNCH)
    assert (done.rc, done.out) == (0, "refused\n"), done.err
    leftovers.check(done.mark)


def test_the_arguments_of_a_spawned_program_arrive_as_they_are(tmp_path: Path, leftovers: Leftovers) -> None:
    """Mpiexec takes backslashes out."""
    script = tmp_path / "spawns.py"
    script.write_text(r"""
import sys
from mpi4py import MPI
parent = MPI.Comm.Get_parent()
if parent == MPI.COMM_NULL:
    child = MPI.COMM_SELF.Spawn(sys.executable, [__file__, r"a b\c", "endcmd", "x=y"])
    print("|".join(child.recv(source=0)))
    child.Disconnect()
else:
    parent.send(sys.argv[1:], dest=0)
    parent.Disconnect()
""")
    done = mpirun(1, [script], mpi=LAUNCH)
    assert (done.rc, done.out) == (0, "a b\\c|endcmd|x=y\n"), done.err
    leftovers.check(done.mark)


def test_the_first_process_reads_what_comes_in_and_all_write_what_they_write(leftovers: Leftovers) -> None:
    program = "import sys; sys.stdout.write(f'<{sys.stdin.readline()}>'); sys.stderr.write('!')"
    reading, writing = os.pipe()
    os.write(writing, b"hello")
    os.close(writing)
    with start_job([*LAUNCH.start(2), "-c", program], stdin=reading) as job:
        done = job.wait(SOON_S)
    os.close(reading)
    assert (done.rc, done.err) == (0, "!!")
    assert done.out in ("<hello><>", "<><hello>")
    leftovers.check(done.mark)


def test_places_begin_without_mpi() -> None:
    program = """
import sys, apgas
def loads_mpi():
    return "mpi4py.MPI" in sys.modules
def main():
    print(*(apgas.at(place, loads_mpi) for place in apgas.places()))
apgas.run(main)
"""
    done = mpirun(3, ["-c", program], mpi=LAUNCH)
    assert (done.rc, done.out) == (0, "False False False\n"), done.err


LAST_NUMBER = Path("/proc/sys/kernel/ns_last_pid")


def may_choose_numbers() -> bool:
    """Whether this user may say which number the next process gets."""
    try:
        LAST_NUMBER.write_text(LAST_NUMBER.read_text())
    except OSError:
        return False
    return True


@pytest.mark.parametrize("how", [["begun.py"], ["-m", "begun"]], ids=["file", "module"])
@pytest.mark.parametrize("named", [None, "heavy", "heavy,nowhere"])
def test_first_places_are_forks_where_that_pays(
    named: str | None, how: list[str], tmp_path: Path, leftovers: Leftovers
) -> None:
    """With a module that is named; or more of them than cores. Place 0 reads what comes in, and is a program."""
    (tmp_path / "heavy.py").write_text("import os; loaded_in = os.getpid()")
    (tmp_path / "begun.py").write_text(BEGUN)
    places = len(os.sched_getaffinity(0)) + 1 if named is None else 2
    options = [] if named is None else [f"--preload={named}"]
    with start_job([*patient(places, options), *how], cwd=tmp_path) as job:
        done = job.wait(SOON_S)
    leftovers.check(done.mark)
    assert (done.rc, done.err) == (0, "")
    forked, loaded_elsewhere, launchers = zip(*ast.literal_eval(done.out), strict=True)
    assert forked == (False, *(places - 1) * [True])
    assert loaded_elsewhere == (False, *(places - 1) * [named is not None])
    assert len(set(launchers)) == 1


def test_what_is_no_module_is_refused() -> None:
    done = mpirun(2, [WAITING], mpi=LAUNCH, options=["--preload=numpy,1st"])
    assert done.rc == 2
    assert "'1st' is not the name of a module" in done.err


@pytest.mark.skipif(not may_choose_numbers(), reason="only root may choose the numbers of processes")
@pytest.mark.parametrize("plane", ["tcp", "mpi"], ids=["tcp_plane", "mpi_plane"])
def test_processes_whose_numbers_would_be_of_unequal_length(plane: str, leftovers: Leftovers) -> None:
    """MPICH ends such a world in MPI_Init, so it starts with longer numbers; without MPI it does not matter."""
    for before in (9_990, 9_900):
        LAST_NUMBER.write_text(str(before))
        program = ["-c", "import apgas; apgas.run(lambda: print(len(apgas.places())))"]
        done = mpirun(8, program, mpi=LAUNCH, env={"APGAS_TRANSPORT": plane})
        assert (done.rc, done.out) == (0, "8\n"), done.err
        leftovers.check(done.mark)


@pytest.mark.slow
def test_many_places(leftovers: Leftovers) -> None:
    done = mpirun(64, ["-c", "import apgas; apgas.run(lambda: print(len(apgas.places())))"], mpi=LAUNCH)
    assert (done.rc, done.out) == (0, "64\n"), done.err
    leftovers.check(done.mark)
