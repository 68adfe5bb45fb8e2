"""Executors on real places, in every setting in which they can be opened."""

from __future__ import annotations

import signal
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from support import SOON_S, Leftovers, mpirun, python_run, start_job

pytestmark = pytest.mark.essential

PROGRAMS = Path(__file__).parent / "programs"
FUTURES = PROGRAMS / "futures.py"


@pytest.mark.parametrize(
    ("places", "words"),
    [
        (0, [FUTURES, "plain"]),
        (0, [FUTURES, "run"]),
        (2, [FUTURES, "run"]),
        (2, [FUTURES, "alone"]),
        (2, ["-m", "apgas.futures", FUTURES, "script"]),
    ],
    ids=["plain", "run-on-one", "run", "mpiexec", "script"],
)
def test_an_executor_works(places: int, words: list[str | Path], leftovers: Leftovers) -> None:
    job = mpirun(places, words) if places else python_run(words)
    assert (job.rc, job.out, job.err) == (0, "fine\n", "")
    leftovers.check(job.mark)


@pytest.mark.parametrize(
    "trouble",
    [
        "kills",
        "interrupted",
        "abandoned",
        "called_back",
        "adapts",
        "left",
        "late",
        "fails",
        "followed",
        "stillborn",
        "elsewhere",
    ],
)
def test_it_is_robust(trouble: str, leftovers: Leftovers) -> None:
    job = python_run([PROGRAMS / "futures_trouble.py", trouble])
    assert (job.rc, job.out) == (0, "fine\n"), job.err
    leftovers.check(job.mark)


@pytest.mark.full
@pytest.mark.parametrize("words", [[], ["-m", "apgas.survive", "-n", "4", sys.executable, "-m", "apgas.futures"]])
def test_a_map_is_exact_whoever_is_killed(words: list[str], tmp_path: Path, leftovers: Leftovers) -> None:
    job = python_run([*words, PROGRAMS / "futures_killed.py", "20", tmp_path, "1"])
    assert job.rc == 0, job.err
    killed, _, end = job.out.partition(" ")
    assert int(killed) >= 20
    assert end == "killed, fine\n"
    leftovers.check(job.mark)


@pytest.mark.parametrize(
    ("where", "how"),
    [
        ("waits", signal.SIGINT),
        ("waits", signal.SIGKILL),
        ("waits_without_a_block", signal.SIGINT),
        ("waits_at_the_end_of_a_block", signal.SIGINT),
    ],
)
def test_nothing_stays_behind_when_it_is_ended(where: str, how: signal.Signals, leftovers: Leftovers) -> None:
    with start_job([sys.executable, PROGRAMS / "futures_trouble.py", where]) as job:
        job.expect("waiting")
        time.sleep(0.5)  # until it is where it waits
        job.process.send_signal(how)
        ended = job.wait(SOON_S * 6)
    assert ended.rc == -how
    leftovers.check(ended.mark)


@pytest.mark.parametrize(
    ("where", "by", "how"),
    [
        ("waits", signal.SIGTERM, "terminated"),
        ("waits_without_a_block", signal.SIGTERM, "terminated"),
        ("waits_at_exit", signal.SIGTERM, "terminated"),
        ("waits_at_exit", signal.SIGINT, "interrupted"),
        ("waits_for_others_at_exit", signal.SIGTERM, "terminated"),
        ("waits_for_others_at_exit", signal.SIGINT, "interrupted"),
    ],
)
def test_a_signal_ends_it_as_it_ends_any_program(
    where: str, by: signal.Signals, how: str, leftovers: Leftovers
) -> None:
    with start_job([sys.executable, PROGRAMS / "futures_trouble.py", where]) as job:
        job.expect("waiting")
        job.process.send_signal(by)
        ended = job.wait(SOON_S * 6)
    assert (ended.rc, ended.err) == (128 + by, f"apgas: {how}; the job ends\n")
    leftovers.check(ended.mark)


@pytest.mark.parametrize(("by", "rc"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, -signal.SIGTERM)])
def test_signals_are_left_to_python_when_another_thread_has_shut_it_down(
    by: signal.Signals, rc: int, leftovers: Leftovers
) -> None:
    with start_job([sys.executable, PROGRAMS / "futures_trouble.py", "shut_down_elsewhere"]) as job:
        job.expect("waiting")
        job.process.send_signal(by)
        ended = job.wait(SOON_S * 6)
    assert ended.rc == rc
    leftovers.check(ended.mark)


def test_a_script_without_a_guard_is_told(tmp_path: Path, leftovers: Leftovers) -> None:
    script = tmp_path / "bare.py"
    script.write_text(
        "import functools\n"
        "from apgas.futures import MalleableExecutor\n"
        "@functools.lru_cache\n"
        "def cached(number): return number + 1\n"
        "with MalleableExecutor(places=1) as executor:\n"
        "    print(executor.submit(lambda: 7).result(), flush=True)\n"
        "    executor.submit(cached, 1).result()\n",
        encoding="utf-8",
    )
    job = python_run([script])
    assert (job.rc, job.out) == (1, "7\n")
    assert 'under if __name__ == "__main__"' in job.err, job.err
    leftovers.check(job.mark)


@pytest.mark.parametrize("library", ["joblib", "sklearn", "emcee", "schwimmbad"])
def test_libraries_use_it(library: str, leftovers: Leftovers) -> None:
    if find_spec(library) is None:  # to import it would change the environment
        pytest.skip(f"{library} is not installed")
    job = python_run([PROGRAMS / "futures_libraries.py", library])
    assert (job.rc, job.out) == (0, "fine\n"), job.err
    leftovers.check(job.mark)


def test_a_map_over_many_items_needs_little_memory(leftovers: Leftovers) -> None:
    """All values together would take 240 MiB."""
    job = python_run([PROGRAMS / "futures_memory.py", "60000"])
    assert job.rc == 0, job.err
    assert int(job.out) < 60
    leftovers.check(job.mark)


@pytest.mark.parametrize(
    ("tasks", "resizes"), [(50_000, 6), pytest.param(1_000_000, 20, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_resizes_lose_and_double_nothing(tasks: int, resizes: int, leftovers: Leftovers) -> None:
    job = python_run([PROGRAMS / "futures_resized.py", str(tasks), str(resizes)])
    assert (job.rc, job.out.split()) == (0, [str(resizes), "fine"]), job.err
    leftovers.check(job.mark)
