"""Jobs of a scheduler whose place 0 is killed: they go on where they were, as the same job on the same nodes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S, Leftovers, Running, start_job
from support.leftovers import living

MALLEABLE = [sys.executable, "-m", "scheduler_bridge.cli"]
PROGRAM = Path(__file__).parent / "programs" / "glb_mortal.py"


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "lives").mkdir()
    command = [*MALLEABLE, "serve", "--policy", "malleable", "--nodes", "3", "--state", str(tmp_path / "state")]
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
    jobs: list[dict[str, Any]] = json.loads(malleable(folder, "report", "--json"))["jobs"]
    return jobs


def moments(folder: Path, job_id: int) -> list[str]:
    return [moment["text"] for moment in json.loads(malleable(folder, "explain", str(job_id), "--json"))["moments"]]


def until(what: str, holds: Callable[[], object], patience_s: float = 2 * PATIENCE_S) -> None:
    end_s = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < end_s, f"never happened: {what}"
        time.sleep(0.1)


def until_over(folder: Path) -> dict[str, Any]:
    until("all jobs end", lambda: all(job["end_s"] is not None for job in report(folder)))
    return report(folder)[-1]


def said(folder: Path, job_id: int, stream: str = "out") -> str:
    return (folder / "state" / f"job-{job_id}.{stream}").read_text(encoding="utf-8")


def end(serving: Running, folder: Path, leftovers: Leftovers) -> None:
    assert not list((folder / "state").glob("books-*"))
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
    queued = ("queue", "--json")
    until("it has reached its scheduler", lambda: json.loads(malleable(tmp_path, *queued))[0]["ready"])
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
    program = "import apgas, time; apgas.run(lambda: (print('up', flush=True), time.sleep(600)), resilient=True)"
    words = ("--resilient", "--nodes", "2", "--", sys.executable, "-c", program)
    job_id = int(malleable(tmp_path, "submit", "--name", "plain", *words))
    output = tmp_path / "state" / f"job-{job_id}.out"
    until("it is up", lambda: output.exists() and output.read_text(encoding="utf-8"))
    places = [pid for pid in living(serving.mark) if program.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]
    launched = [pid for pid in places if b"apgas.launch" not in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(min(launched), signal.SIGKILL)
    job = until_over(tmp_path)
    assert (job["state"], job["restarts_s"]) == ("failed", [])
    assert "place 0" in job["reason"]
    end(serving, tmp_path, leftovers)
