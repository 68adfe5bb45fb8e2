"""Strong scaling with real places."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

from support import PATIENCE_S, Leftovers, python_run, start_job

MODULE = ("-m", "benchmarks.scaling")


def test_a_quick_run_measures_and_draws(tmp_path: Path, leftovers: Leftovers) -> None:
    path, figure = tmp_path / "scaling.json", tmp_path / "scaling.png"
    options = ["--quick", "--share", "0.2", "--json", str(path), "--figure", str(figure)]
    done = python_run([*MODULE, *options, "--benchmarks", "pi"])
    assert done.rc == 0, done.out + done.err
    content = json.loads(path.read_text())
    assert [series["benchmark"] for series in content["series"]] == ["pi"]
    for series in content["series"]:
        assert series["verified"] is True
        assert series["failure"] == ""
        assert list(series["nodes"]) == ["1", "4"]
        assert series["nodes"]["1"]["seconds"] > 1.0  # paced: at full speed it takes a tenth of that
        assert series["share_of_a_core"] <= 0.2
    assert "EMULATED" in done.out
    assert figure.read_bytes()[:4] == b"\x89PNG"
    leftovers.check()


def test_places_on_real_cores_are_compared_with_copies(tmp_path: Path, leftovers: Leftovers) -> None:
    path, figure = tmp_path / "cores.json", tmp_path / "cores.png"
    options = ["--quick", "--cores", "1,2", "--benchmarks", "pi", "--json", str(path), "--figure", str(figure)]
    done = python_run([*MODULE, "cores", *options])
    assert done.rc == 0, done.out + done.err
    (series,) = json.loads(path.read_text())["series"]
    assert series["verified"] is True
    assert series["failure"] == ""
    assert list(series["nodes"]) == list(series["copies_tasks_per_s"]) == ["1", "2"]
    assert "of as many copies" in done.out
    assert "EMULATED" not in done.out
    assert figure.read_bytes()[:4] == b"\x89PNG"
    leftovers.check()


def test_an_interrupt_ends_the_benchmark_under_way_and_keeps_what_was_measured(
    tmp_path: Path, leftovers: Leftovers
) -> None:
    path = tmp_path / "scaling.json"
    with start_job(["python", *MODULE, "--benchmarks", "pi", "--nodes", "1,2", "--json", str(path)]) as job:
        until = time.monotonic() + PATIENCE_S
        while len(job.processes()) < 3 and time.monotonic() < until:
            time.sleep(0.05)
        job.process.send_signal(signal.SIGINT)
        ended = job.wait()
        assert ended.rc == 128 + signal.SIGINT, ended.out + ended.err
        assert "interrupted" in ended.err
        leftovers.check(job.mark)
    content = json.loads(path.read_text())
    assert content["error"] == "the run did not end"
    assert [series["benchmark"] for series in content["series"]] == ["pi"]
