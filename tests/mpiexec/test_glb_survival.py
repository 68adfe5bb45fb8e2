"""Computations whose places are killed with `kill -9` at random, place 0, too: the result is exact, whichever die."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import pytest
from support import PATIENCE_S, Leftovers, python_run, start_job
from support.mpi import LAUNCH

from benchmarks.survival.overhead import NONE, PLAIN
from benchmarks.survival.program import CASES

PROGRAMS = Path(__file__).with_name("programs")
MPIEXEC = ("apgas.survive", "-n", "4", sys.executable)


def check(name: str, seed: int, folder: Path, leftovers: Leftovers, *launcher: str) -> None:
    words: list[str | Path] = ["-m", *launcher, "-m", "benchmarks.survival.program", name, str(seed), folder, "3"]
    with start_job([sys.executable, *words]) as job:
        done = job.wait(2 * PATIENCE_S)
    leftovers.check(done.mark)
    assert done.rc == 0, done.err
    facts = json.loads(done.out)
    assert len(facts["kills"]) >= 3, "a run without a death shows nothing"
    assert 0 in facts["places"]
    assert all(run["exact"] for run in facts["runs"]), (facts, done.err)


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_exact_whoever_is_killed(name: str, tmp_path: Path, leftovers: Leftovers) -> None:
    check(name, 1, tmp_path, leftovers, *MPIEXEC)


def test_without_mpiexec_too(tmp_path: Path, leftovers: Leftovers) -> None:
    check("uts", 1, tmp_path, leftovers, "apgas.launch", "--resilient", "-n", "4", sys.executable)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 42))
@pytest.mark.parametrize("name", CASES)
def test_many_losses(name: str, seed: int, tmp_path: Path, leftovers: Leftovers) -> None:
    check(name, seed, tmp_path, leftovers, *MPIEXEC)


def test_the_command_prints_what_became_of_each_benchmark(tmp_path: Path, leftovers: Leftovers) -> None:
    result = tmp_path / "found.json"
    job = python_run(["-m", "benchmarks.survival", "--kills", "4", "--benchmarks", "pi", "--json", str(result)])
    assert job.rc == 0, job.out + job.err
    assert "results: all exact" in job.out
    content = json.loads(result.read_text(encoding="utf-8"))
    assert (content["ended"], content["failures"]) == (True, [])
    (found,) = content["jobs"]["pi"]
    assert len(found["kills"]) >= 4
    assert all(run["kept_bytes"] > 0 for run in found["runs"])
    leftovers.check()


def test_the_command_measures_what_backups_cost(tmp_path: Path, leftovers: Leftovers) -> None:
    result = tmp_path / "found.json"
    options = ("--overhead", "6", "--quick", "--benchmarks", "nqueens", "--json", str(result))
    job = python_run(["-m", "benchmarks.survival", *options])
    assert job.rc == 0, job.out + job.err
    assert "95 % intervals" in job.out
    found = json.loads(result.read_text(encoding="utf-8"))["found"]["nqueens"]
    assert {way: len(pairs) for way, pairs in found.items()} == {NONE: 6, PLAIN: 6}
    # only the first of each pair makes backups
    assert all(backed_up["backups"] > 0 == other["backups"] for pairs in found.values() for backed_up, other in pairs)
    leftovers.check()


def test_the_command_refuses_what_it_cannot_do() -> None:
    job = python_run(["-m", "benchmarks.survival", "--kills", "0"])
    assert (job.rc, job.out) == (2, "")
    assert "at least 1 place" in job.err
    job = python_run(["-m", "benchmarks.survival", "--quick"])
    assert (job.rc, job.out) == (2, "")
    assert "for --overhead only" in job.err


# Place 0 is killed, too: the program is started again -----------------------------------------------------------------


def check_lives(name: str, seed: int, folder: Path, leftovers: Leftovers) -> None:
    words: list[str | Path] = [*LAUNCH.start(4), PROGRAMS / "glb_reviving.py", name, str(seed), folder]
    with start_job(words) as job:
        done = job.wait(3 * PATIENCE_S)
    leftovers.check(done.mark)
    assert done.rc == 0, done.err
    facts = json.loads(done.out)
    assert facts["lives"] > 1, "a run without a death shows nothing"
    assert [run["exact"] for run in facts["runs"]] == [True] * 2, (facts, done.err)


@pytest.mark.parametrize("name", ["uts", "nqueens"])
def test_the_result_is_exact_though_place_0_is_killed(name: str, tmp_path: Path, leftovers: Leftovers) -> None:
    check_lives(name, 1, tmp_path, leftovers)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 22))
@pytest.mark.parametrize("name", CASES)
def test_many_lives(name: str, seed: int, tmp_path: Path, leftovers: Leftovers) -> None:
    check_lives(name, seed, tmp_path, leftovers)


def run(what: str, folder: Path, *options: str | Path, **env: str) -> tuple[int, str, str]:
    program: list[str | Path] = [sys.executable, PROGRAMS / "glb_again.py", what, folder]
    words = [sys.executable, "-m", "apgas.launch", "-n", "2", *options, *program]
    with start_job(words, env={"TMPDIR": str(folder)} | env) as job:
        done = job.wait(2 * PATIENCE_S)
    assert not list(folder.glob("apgas-books*"))
    return done.rc, done.out, done.err


def test_a_program_that_comes_no_further_ends(tmp_path: Path) -> None:
    code, out, err = run("always", tmp_path, "--restarts", "2")
    assert (code, out, len(list(tmp_path.glob("life*")))) == (137, "", 3)
    assert err.count("the program is started again") == 2
    assert err.rstrip().endswith("signal 9; started again 2 times, it came no further; the job ends")


def test_another_computation_is_refused(tmp_path: Path) -> None:
    code, out, err = run("changes", tmp_path)
    assert (code, out) == (1, "")
    assert "computation 1 cannot go on: it was Numbers of 1 tasks" in err
    assert "has to do the same as before" in err


def test_who_wants_to_start_it_again_learns_that_it_can_be(tmp_path: Path) -> None:
    books = tmp_path / "books"
    code, out, err = run("once", tmp_path, "--restarts", "0", "--books", books)
    assert (code, out) == (75, ""), err
    assert [path.name for path in books.iterdir()] == ["1"]
    assert books.stat().st_mode & 0o777 == 0o700
    code, out, err = run("once", tmp_path, "--restarts", "0", "--books", books)
    assert (code, out) == (0, "right True True\n"), err


def test_a_job_of_a_scheduler_is_not_started_again_by_itself(tmp_path: Path) -> None:
    """The program of this one does not know that there is a scheduler."""
    alone = ("env", "-u", "MALLEABLE_SCHEDULER")
    code, out, err = run("once", tmp_path, *alone, MALLEABLE_SCHEDULER="127.0.0.1:9")
    assert (code, out, len(list(tmp_path.glob("life*")))) == (137, "", 1), err
    (tmp_path / "life0").unlink()
    code, out, err = run("once", tmp_path, "--books", tmp_path / "books", *alone, MALLEABLE_SCHEDULER="127.0.0.1:9")
    assert (code, out, len(list(tmp_path.glob("life*")))) == (75, "", 1), err


def test_a_caller_that_starts_it_again_is_kept_from_doing_so_for_ever(tmp_path: Path) -> None:
    books = tmp_path / "books"
    code, err, lives = 75, "", 0
    while code == 75:
        code, out, err = run("always", tmp_path, "--by-caller", "--restarts", "2", "--books", books)
        assert ((books / "restarts").exists(), out) == (code == 75, "")
        lives += 1
    assert (code, lives) == (137, 3)
    assert err.rstrip().endswith("signal 9; started again 2 times, it came no further; the job ends")


def test_a_folder_of_others_is_not_trusted(tmp_path: Path) -> None:
    books = tmp_path / "books"
    books.mkdir()
    books.chmod(0o770)
    code, _, err = run("once", tmp_path, "--books", books)
    assert code == 1
    assert "it is to be a folder that only you can enter" in err


def test_the_launcher_takes_its_books_along_when_it_is_killed(tmp_path: Path, leftovers: Leftovers) -> None:
    words = [*LAUNCH.start(2), PROGRAMS / "glb_reviving.py", "uts", "1", tmp_path]
    with start_job(words, env={"TMPDIR": str(tmp_path)}) as job:
        until = time.monotonic() + PATIENCE_S
        while not list(tmp_path.glob("apgas-books*")) and time.monotonic() < until:
            time.sleep(0.01)
        job.process.send_signal(signal.SIGKILL)
        done = job.wait(PATIENCE_S)
        while list(tmp_path.glob("apgas-books*")) and time.monotonic() < until:
            time.sleep(0.01)
    leftovers.check(done.mark)
    assert not list(tmp_path.glob("apgas-books*"))
