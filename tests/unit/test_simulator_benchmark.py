"""The benchmark of the simulator: it measures, and says which goals are missed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.simulator import process
from benchmarks.simulator.__main__ import form, main
from benchmarks.simulator.bare import easy
from benchmarks.simulator.catalogue import KNL, THETA, Case, goal, run
from benchmarks.simulator.process import measure
from scheduler_bridge.workloads.generate import generate


def test_a_case_is_measured() -> None:
    found = run(Case("lublin", "easy", 100, load=0.8))
    assert (found.jobs, found.nodes) == (100, 100)
    assert found.events >= found.batches >= found.decisions >= 100
    assert 0 < found.p50_us <= found.p99_us <= found.max_us


def test_jobs_share_nodes_where_a_case_says_so() -> None:
    case = Case("lublin", "sd-policy", 100, malleable=1.0, load=2.0)
    alone, shared = run(case), run(replace(case, cores_per_node=4))
    assert shared.mean_wait_s < alone.mean_wait_s


def test_goals_are_judged() -> None:
    figures = replace(run(Case("lublin", "easy", 20)), cpu_s=2.0, jobs=100, memory_mb=200.0)
    case = Case("lublin", "easy", least_jobs_per_s=50, most_s=1.0)
    assert goal(case, figures) == ">= 50 jobs/s met, <= 1 s MISSED"
    assert goal(Case("lublin", "easy"), replace(figures, memory_mb=301.0)) == "<= 300 MB MISSED"
    assert goal(Case("lublin", "easy"), figures) == ""


def test_it_says_which_form_is_measured_and_how_to_measure_the_other_one(tmp_path: Path) -> None:
    assert form(compiled=True, installed=tmp_path).endswith("core is machine code")
    assert "setup_venv.py compiled" in form(compiled=False, installed=tmp_path)
    (tmp_path / "scheduler_bridge" / "core").mkdir(parents=True)
    (tmp_path / "scheduler_bridge" / "core" / "scheduler.cpython-311-x86_64-linux-gnu.so").touch()
    assert "python -P -m apgas.benchmarks.simulator" in form(compiled=False, installed=tmp_path)


def test_an_unknown_suite_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["moon"]) == 2
    assert "no suite 'moon'" in capsys.readouterr().err


def test_a_real_workload_needs_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for suite in ("theta", "every-knl"):
        assert main([suite, "--data", str(tmp_path)]) == 2
        assert "give their folder with --data" in capsys.readouterr().err


def test_passes_that_the_policy_leaves_out_are_not_measured() -> None:
    found = run(Case("lublin", "easy-compat", 100, load=0.8))
    assert found.batches < 5 * found.jobs, "one every 5 s would be some hundred times as many"


def test_a_real_workload_is_measured(data_folder: Path) -> None:
    found = run(Case(THETA, "min", malleable=0.6), data_folder)
    assert (found.nodes, found.jobs) == (4360, 1617)


def test_drawn_workloads_are_called_synthetic() -> None:
    assert Case("eagle", "easy").label == "easy: eagle (synthetic)"
    assert Case(KNL, "easy").label == "easy: Cori KNL, 5 real days"
    assert Case(THETA, "avg", malleable=0.6).label == "avg: Theta, 28 real days, 60% malleable"


def test_the_bare_loop_is_easy_and_the_whole_process_comes_to_the_same_means() -> None:
    jobs = [(0.0, 10.0, 2, 20.0), (1.0, 10.0, 4, 10.0), (2.0, 5.0, 2, 18.0), (3.0, 40.0, 2, 40.0), (3.0, 4.0, 1, 99.0)]
    # 4 nodes: job 1 needs all, reserved for 20 s; job 2 ends by its walltime then; job 3 does not, job 4 neither
    assert easy(jobs, 4) == [0.0, 10.0, 2.0, 20.0, 20.0]
    found = measure(generate("lublin", 1, jobs=40, load=2.0), times=1)
    assert found.mean_wait_s > 0
    assert (found.jobs, found.nodes) == (40, 100)
    assert found.bare_s > 0, "also of a process that no tick of the system's timer has found"
    assert found.times == found.cpu_s / found.bare_s
    assert "<= 5 x" in found.goal
    assert replace(found, jobs=1_000_000, memory_mb=601.0).goal == "<= 600 MB MISSED"


def test_a_measured_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        process, "_LONE", process._LONE.replace(f"signal.alarm({process._DEADLINE_S})", "signal.alarm(1)")
    )
    with pytest.raises(RuntimeError, match="ended with code -14"):
        process._run(["-c", "import time; time.sleep(1000)"])
