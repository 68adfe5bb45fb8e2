"""The command with real contenders: every measure answers, and no end leaves anything behind."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from support import PATIENCE_S, Leftovers, python_run, start_job

from benchmarks.overheads.catalogue import MEASURES

MODULE = ("-m", "benchmarks.overheads")
QUICK = "rtt,throughput,finish,echo,start,memory"


def run(tmp_path: Path, measures: str, *options: str) -> dict[str, object]:
    result = tmp_path / "result.json"
    arguments = ("--rounds", "1", "--measures", measures, "--json", str(result), *options)
    job = python_run([*MODULE, *arguments])
    assert job.rc == 0, job.out + job.err
    content: dict[str, object] = json.loads(result.read_text())
    assert content["ended"] is True
    assert content["failures"] == []
    return content


def figures(content: dict[str, object]) -> dict[str, dict[str, float]]:
    lines = content["lines"]
    assert isinstance(lines, list)
    return {line["what"]: line["medians"] for line in lines}


def test_every_contender_that_is_there_answers(tmp_path: Path, leftovers: Leftovers) -> None:
    content = run(tmp_path, QUICK, "--peers", "pool,futures")
    assert content["not_measured"] == {"ray": "left out", "dask": "left out"}
    found = figures(content)
    for name in QUICK.split(","):
        for case in MEASURES[name].cases:
            for quantity in case.quantities:
                measured = found[quantity.title]
                asked = {"ours"} if quantity.key == "messages" else set(case.contenders) - {"ray", "dask"}
                assert set(measured) == asked, quantity.title
                assert min(measured.values()) > 0
    leftovers.check()


def test_places_come_and_go_beside_bare_spawns(tmp_path: Path, leftovers: Leftovers) -> None:
    found = figures(run(tmp_path, "resize,lost", "--peers", "", "--quiet"))
    for n in (1, 2, 4, 8):
        assert set(found[f"grow by {n}"]) == {"ours", "mpi"}
    # the processes of leavers were really there, and really gone
    assert 0 < found["shrink by 4"]["ours"] < 40
    assert found["compute of others lost while growing by 1"]["ours"] < 1
    leftovers.check()


def test_others_compute_beside_it(tmp_path: Path, leftovers: Leftovers) -> None:
    content = run(tmp_path, "rtt", "--peers", "", "--load", "1")
    assert content["load"] == 1
    assert "processes that computed beside it, per core: 1" in str(content["notes"])
    leftovers.check()


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_every_contender(by: signal.Signals, leftovers: Leftovers) -> None:
    arguments = ("--measures", "rtt", "--rounds", "1000", "--peers", "pool", "--load", "1")
    with start_job(["python", *MODULE, *arguments]) as job:
        until = time.monotonic() + PATIENCE_S
        # the job's own process, those of three contenders, and those that compute
        all_of_them = 7 + len(os.sched_getaffinity(0))
        while len(job.processes()) < all_of_them and time.monotonic() < until:
            time.sleep(0.05)
        assert len(job.processes()) >= all_of_them
        job.process.send_signal(by)
        ended = job.wait()
        assert ended.rc == 128 + by
        assert "interrupted" in ended.err
        assert "Traceback" not in ended.err
        leftovers.check(job.mark)


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [("--rounds 0", "--rounds 0"), ("--measures speed", "--measures speed"), ("--frobnicate", "--frobnicate")],
)
def test_bad_usage_is_refused(arguments: str, culprit: str) -> None:
    job = python_run([*MODULE, *arguments.split()])
    assert job.rc == 2
    assert job.out == ""
    lines = job.err.splitlines()
    assert len(lines) == 3
    assert culprit in lines[0]


def test_help_measures_nothing() -> None:
    job = python_run([*MODULE, "--help"])
    assert (job.rc, job.err) == (0, "")
    assert "Example: python -m benchmarks.overheads" in job.out
    for option in ("--rounds", "--measures", "--peers", "--load", "--json", "--quiet"):
        assert option in job.out


def test_the_bare_tree_reaches_its_processes_and_ends_them(leftovers: Leftovers) -> None:
    program = """
import os
from benchmarks.overheads import floors
below = floors._plant(0, 40, [])
for count in (2, 17, 40):
    floors._down_and_up(below, count)
for _, child in below:
    child.close()
print(len([os.wait() for _ in below]))
"""
    done = python_run(["-c", program])
    assert (done.rc, done.out) == (0, "16\n"), done.err
    leftovers.check(done.mark)
