"""Jobs of a scheduler whose place 0 is killed: they go on where they were, as the same job on the same nodes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S, Leftovers, Running, start_job
from support.daemons import reported

from scheduler_bridge.daemon import ControlClient

MALLEABLE = [sys.executable, "-m", "scheduler_bridge.cli"]
PROGRAM = Path(__file__).parent / "programs" / "glb_mortal.py"


@pytest.fixture
def nodes() -> int:
    return 3


@pytest.fixture
def serving(tmp_path: Path, nodes: int) -> Iterator[Running]:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "lives").mkdir()
    command = [*MALLEABLE, "serve", "--policy", "malleable", "--nodes", str(nodes)]
    command += ["--state", str(tmp_path / "state")]
    with start_job(command, {"TMPDIR": str(tmp_path / "tmp")}, tmp_path) as daemon:
        daemon.expect("ready")
        yield daemon


def malleable(folder: Path, command: str, *words: str | Path) -> str:
    line = [*MALLEABLE, command, "--state", folder / "state", *words]
    return subprocess.run(
        [str(word) for word in line], cwd=folder, capture_output=True, text=True, check=True, timeout=PATIENCE_S
    ).stdout


def submit(folder: Path, when: str, *options: str) -> int:
    program = (sys.executable, str(PROGRAM), when, str(folder / "lives"))
    words = (*options, "--min", "1", "--max", "3", "--", *program)
    return int(malleable(folder, "submit", "--name", "mortal", *words))


def report(folder: Path) -> list[dict[str, Any]]:
    return reported(folder / "state")


def moments(folder: Path, job_id: int) -> list[str]:
    return [moment.text for moment in ControlClient(folder / "state", PATIENCE_S).explain(job_id).moments]


def until(what: str, holds: Callable[[], object], pause_s: float = 0.1) -> None:
    end_s = time.monotonic() + 2 * PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s, f"never happened: {what}"
        time.sleep(pause_s)


def until_over(folder: Path) -> dict[str, Any]:
    until("all jobs end", lambda: all(job["end_s"] is not None for job in report(folder)))
    return report(folder)[-1]


def said(folder: Path, job_id: int, stream: str = "out") -> str:
    return (folder / "state" / f"job-{job_id}.{stream}").read_text(encoding="utf-8")


def end(serving: Running, folder: Path, leftovers: Leftovers) -> None:
    # in a thread, beside what users see of the end
    until("the books are removed", lambda: not list((folder / "state").glob("books-*")))
    serving.process.send_signal(signal.SIGTERM)
    assert serving.wait(PATIENCE_S).rc == 0
    leftovers.check(serving.mark)
    assert not list((folder / "tmp").iterdir())


@pytest.mark.essential
def test_it_goes_on_on_its_nodes(serving: Running, tmp_path: Path, leftovers: Leftovers) -> None:
    job_id = submit(tmp_path, "computing twice", "--resilient")
    job = until_over(tmp_path)
    assert job["state"] == "completed", said(tmp_path, job_id, "err")
    # its output goes on, too
    assert said(tmp_path, job_id).splitlines() == [
        "life 0 on 3", "life 1 on 3", "life 2 on 3", "True after 3 lives on 3",
    ]  # fmt: skip
    assert [len(segment["nodes"]) for segment in job["segments"]] == [3, 3, 3]
    first, second = job["restarts_s"]
    assert job["start_s"] < first < second < job["end_s"]
    lost = [text for text in moments(tmp_path, job_id) if text.startswith("place 0")]
    assert lost == [
        "place 0 was lost; started again on its 3 nodes, 1st time",
        "place 0 was lost; started again on its 3 nodes, 2nd time",
    ]
    end(serving, tmp_path, leftovers)


@pytest.mark.parametrize("when", ["growing", "shrinking"])
def test_it_is_killed_amid_an_order(when: str, serving: Running, tmp_path: Path, leftovers: Leftovers) -> None:
    """The order ends as not carried out, and the job goes on at the size that it had."""
    blocker = ("submit", "--name", "rigid", "--nodes", "2", "--launch", "direct", "--", "sleep")
    other = int(malleable(tmp_path, *blocker, "600")) if when == "growing" else 0
    job_id = submit(tmp_path, when)
    until("it computes", (tmp_path / "lives" / "life0").exists)
    if other:
        malleable(tmp_path, "cancel", str(other))
    else:
        malleable(tmp_path, *blocker, "0.1")
    until_over(tmp_path)
    (job,) = (job for job in report(tmp_path) if job["job_id"] == job_id)
    assert job["state"] == "completed", said(tmp_path, job_id, "err")
    before = 1 if when == "growing" else 3
    output = said(tmp_path, job_id)
    assert output.startswith(f"life 0 on {before}\nlife 1 on {before}\nTrue after 2 lives"), output
    aborted = job["resizes"][0]
    assert f"{aborted['kind']}ing" == when
    assert (aborted["outcome"], aborted["reason"]) == ("aborted", "place 0 was lost")
    assert len(job["restarts_s"]) == 1
    end(serving, tmp_path, leftovers)


def test_it_comes_no_further(serving: Running, tmp_path: Path, leftovers: Leftovers) -> None:
    job_id = submit(tmp_path, "always")
    job = until_over(tmp_path)
    assert (job["state"], len(job["restarts_s"])) == ("failed", 3)
    assert "started again 3 times, it came no further; the job ends" in job["reason"]
    assert said(tmp_path, job_id, "err").count("the program is to be started again") == 3
    end(serving, tmp_path, leftovers)


def test_it_is_cancelled_and_its_scheduler_dies(serving: Running, tmp_path: Path, leftovers: Leftovers) -> None:
    """The next scheduler knows in which life it is; what is cancelled is not started again."""
    job_id = submit(tmp_path, "computing once")
    until("the second life", (tmp_path / "lives" / "life1").exists)
    client = ControlClient(tmp_path / "state", PATIENCE_S)
    until("it has reached its scheduler", lambda: client.snapshot().jobs[0].ready)
    serving.process.kill()
    serving.wait(PATIENCE_S)
    command = [*MALLEABLE, "serve", "--nodes", "3", "--state", str(tmp_path / "state")]
    with start_job(command, {"TMPDIR": str(tmp_path / "tmp")}, tmp_path) as successor:
        successor.expect("ready")
        assert len(report(tmp_path)[0]["restarts_s"]) == 1
        malleable(tmp_path, "cancel", str(job_id))
        assert until_over(tmp_path)["state"] == "cancelled"
        assert len(list((tmp_path / "lives").iterdir())) == 2
        end(successor, tmp_path, leftovers)
    leftovers.check(serving.mark)


def test_a_job_without_books_ends_as_before(serving: Running, tmp_path: Path, leftovers: Leftovers) -> None:
    # its number is asked for: that of place 0 is not the lowest where numbers have begun anew between two places
    main = "lambda: (print(os.getpid(), flush=True), time.sleep(600))"
    program = f"import apgas, os, time; apgas.run({main}, resilient=True)"
    words = ("--resilient", "--nodes", "2", "--", sys.executable, "-c", program)
    job_id = int(malleable(tmp_path, "submit", "--name", "plain", *words))
    output = tmp_path / "state" / f"job-{job_id}.out"
    until("it is up", lambda: output.exists() and output.read_text(encoding="utf-8"))
    os.kill(int(output.read_text(encoding="utf-8")), signal.SIGKILL)
    job = until_over(tmp_path)
    assert (job["state"], job["restarts_s"]) == ("failed", [])
    assert "place 0" in job["reason"]
    end(serving, tmp_path, leftovers)


# What comes at the moment when the program is started again: place 0 is dead already, or has only just begun anew. In a
# job each the walltime ends, the user cancels it, something is killed again, and the scheduler is shut down.

WALLTIME_S = 8.0


class Job:
    """One whose place 0 dies when that is asked for; the next one then waits before it computes."""

    def __init__(self, serving: Running, folder: Path, name: str, *options: str) -> None:
        self._serving = serving
        self._state = folder / "state"
        self._folder = folder
        self.lives = folder / name
        self.lives.mkdir()
        program = (sys.executable, str(PROGRAM), "asked", str(self.lives))
        words = ("submit", "--name", name, "--resilient", "--env", "APGAS_PLACES_PER_NODE=2", *options, "--", *program)
        self.id = int(malleable(folder, *words))

    @property
    def keeps_books(self) -> bool:
        return any(path.name.isdecimal() for path in self._state.glob(f"books-{self.id}/*"))

    @property
    def is_to_end(self) -> bool:
        """Whether its end has been ordered, or it has ended."""
        said = self._serving.text(self._serving.err)
        return f"job {self.id} is to end: " in said or f"job {self.id} is ended: " in said

    @property
    def row(self) -> dict[str, Any]:
        return next(job for job in report(self._folder) if job["job_id"] == self.id)

    @property
    def is_over(self) -> bool:
        return self.row["end_s"] is not None

    def has_ended(self, attempt: int = 1) -> bool:
        """Whether its runner says so."""
        return (self._state / "runs" / f"{self.id}.{attempt}.end").is_symlink()

    def runner(self, attempt: int = 1) -> int:
        """The process that sees to it; 0: there is none yet."""
        return self._noted(f"{attempt}.claim")

    def launcher(self, attempt: int = 1) -> int:
        """The parent of its places; 0: there is none yet."""
        return self._noted(f"{attempt}.start")

    def _noted(self, kind: str) -> int:
        note = self._state / "runs" / f"{self.id}.{kind}"
        return int(str(note.readlink()).partition(".")[0]) if note.is_symlink() else 0

    def place_0(self, life: int) -> int:
        """Its process; 0: there is none yet."""
        file = self.lives / f"life{life}"
        return int(file.read_text(encoding="utf-8") or 0) if file.exists() else 0

    def is_to_be_started_again(self) -> bool:
        """Whether its launcher has said so, before it ends."""
        return (self._state / f"books-{self.id}" / "restarts").exists()

    def die(self) -> None:
        (self.lives / "die").touch()

    def go(self) -> None:
        (self.lives / "go").touch()


def begin(serving: Running, folder: Path) -> list[Job]:
    """Four of them, which have books to go on with; on a slow machine the time of the first one may be over."""
    jobs = [Job(serving, folder, "late", "--walltime", str(WALLTIME_S))]
    jobs += [Job(serving, folder, name) for name in ("cancelled", "killed", "ended")]
    until("all compute", lambda: all(job.keeps_books or job.is_to_end for job in jobs))
    return jobs


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """Have processes stand still meanwhile."""
    with ExitStack() as going_on:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
            going_on.callback(go_on, pid)
        yield


def go_on(pid: int) -> None:
    with suppress(ProcessLookupError):  # it was killed
        os.kill(pid, signal.SIGCONT)


def is_dead(pid: int) -> bool:
    """Whether a process has ended, also if its parent does not know yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].startswith(b"Z")
    except FileNotFoundError:
        return True


def check(serving: Running, folder: Path, leftovers: Leftovers, killed: str) -> None:
    """See that the scheduler ends, what has become of the jobs, and that nothing is left."""
    assert serving.wait(PATIENCE_S).rc == 0
    expected = {"late": "timeout", "cancelled": "cancelled", "killed": killed, "ended": "cancelled"}
    assert {job["name"]: job["state"] for job in report(folder)} == expected
    leftovers.check(serving.mark)
    assert not list((folder / "tmp").iterdir())
    names = {path.name for path in (folder / "state").iterdir()}
    assert not [name for name in names if name.startswith(("books-", "result-"))]
    assert not names & {"control.sock", "endpoint.json", "lock", "runs", "secret"}


@pytest.mark.parametrize("nodes", [4])
def test_much_happens_as_its_launcher_ends(serving: Running, tmp_path: Path, leftovers: Leftovers) -> None:
    """Before the scheduler hears that it is to be started again; then it is not. Without its runner it is lost."""
    jobs = late, cancelled, killed, ended = begin(serving, tmp_path)
    with stopped(*(job.runner() for job in jobs if not job.is_to_end)):
        for job in jobs:
            job.die()
        until("the launchers end", lambda: all(job.is_to_be_started_again() or job.is_to_end for job in jobs))
        malleable(tmp_path, "cancel", str(cancelled.id))
        os.kill(killed.runner(), signal.SIGKILL)
        until("its walltime is over", lambda: late.is_to_end)
        until("it is lost", lambda: killed.is_over)
        serving.process.send_signal(signal.SIGTERM)
        until("the scheduler ends its jobs", lambda: ended.is_to_end)
    check(serving, tmp_path, leftovers, "lost")
    assert not [job.lives.name for job in jobs if job.place_0(1)]


@pytest.mark.parametrize("nodes", [4])
def test_much_happens_as_it_is_started_again(serving: Running, tmp_path: Path, leftovers: Leftovers) -> None:
    """The scheduler hears that it is to be, and of the rest, at once."""
    *jobs, ended = begin(serving, tmp_path)
    _, cancelled, killed = jobs
    began_s = time.monotonic()
    # in a thread: the command would not wait for a scheduler that is stopped for so long
    with ThreadPoolExecutor(1) as asking:
        with stopped(serving.process.pid):
            for job in jobs:
                job.die()
            until("the runners end", lambda: all(job.has_ended() or job.is_to_end for job in jobs))
            asks = asking.submit(ControlClient(tmp_path / "state", PATIENCE_S).cancel, cancelled.id)
            time.sleep(max(1.0, began_s + WALLTIME_S - time.monotonic()))
        until("the next runner", lambda: killed.runner(2))
        os.kill(killed.runner(2), signal.SIGKILL)
        asks.result()
    until("all of them end", lambda: all(job.is_over for job in jobs))
    with stopped(serving.process.pid):
        ended.die()
        until("its runner ends", ended.has_ended)
        serving.process.send_signal(signal.SIGTERM)
    check(serving, tmp_path, leftovers, "lost")


@pytest.mark.parametrize("nodes", [4])
def test_much_happens_as_it_begins_again(serving: Running, tmp_path: Path, leftovers: Leftovers) -> None:
    """Before it has come to its computation; one whose place 0 is killed again goes on in a third life."""
    jobs = late, cancelled, killed, ended = begin(serving, tmp_path)
    for job in jobs:
        job.die()
    until("the second lives", lambda: all(job.place_0(1) or job.is_to_end for job in jobs))
    malleable(tmp_path, "cancel", str(cancelled.id))
    os.kill(killed.place_0(1), signal.SIGKILL)
    until("its third life", lambda: killed.place_0(2))
    killed.go()
    until("all of them end", lambda: all(job.is_over for job in (late, cancelled, killed)))
    assert said(tmp_path, killed.id).splitlines()[-1] == "True after 3 lives on 2"
    assert len(killed.row["restarts_s"]) == 2
    assert not ended.is_to_end
    serving.process.send_signal(signal.SIGTERM)
    check(serving, tmp_path, leftovers, "completed")
    assert not [job.lives.name for job in (late, cancelled, ended) if job.place_0(2)]


@pytest.mark.parametrize("nodes", [5])
def test_its_launcher_is_killed(serving: Running, tmp_path: Path, leftovers: Leftovers) -> None:
    """While all is well, before it can say that the program is to be started again, as that begins, and just after.

    Then the job fails. Its launcher may also be about to end, after it has said so: if it is too late, the job goes on.
    """
    jobs = well, before, meanwhile, after = [Job(serving, tmp_path, name) for name in ("a", "b", "c", "d")]
    said_so = Job(serving, tmp_path, "e")
    # the notes of the runners are awaited, too: a signal to process 0 would be one to the tests themselves
    until("all compute", lambda: all(job.keeps_books and job.launcher() for job in (*jobs, said_so)))
    os.kill(well.launcher(), signal.SIGKILL)
    with stopped(before.launcher()):
        before.die()
        until("place 0 is dead", lambda: is_dead(before.place_0(0)))
        os.kill(before.launcher(), signal.SIGKILL)
    meanwhile.die()
    until("its launcher starts again", lambda: meanwhile.launcher(2), pause_s=0.002)
    os.kill(meanwhile.launcher(2), signal.SIGKILL)
    after.die()
    until("its second life", lambda: after.place_0(1) and after.launcher(2), pause_s=0.002)
    os.kill(after.launcher(2), signal.SIGKILL)
    launcher = said_so.launcher()  # its note is removed as soon as the scheduler knows of its end
    said_so.go()
    said_so.die()
    until("it is to be started again", said_so.is_to_be_started_again, pause_s=0.002)
    with suppress(ProcessLookupError):
        os.kill(launcher, signal.SIGKILL)
    until("all of them end", lambda: all(job.is_over for job in (*jobs, said_so)))
    assert said_so.row["state"] in ("failed", "completed")
    for job in jobs:
        assert (job.row["state"], job.row["reason"][:16]) == ("failed", "ended by SIGKILL"), job.row
        assert len(job.row["restarts_s"]) == (job in (meanwhile, after))
        assert not job.place_0(2)
    end(serving, tmp_path, leftovers)
