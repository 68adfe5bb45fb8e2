from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from rich.console import Console

from scheduler_bridge.daemon import JobStatus, NodeStatus, Snapshot
from scheduler_bridge.daemon.trial import CalibrationError
from scheduler_bridge.demo import run
from scheduler_bridge.demo.batch import Configuration, Drawn
from scheduler_bridge.demo.pace import NODE_RATES, Pace, calibrate
from scheduler_bridge.demo.run import Setting, cost_note, emulation_note, problems, request, too_few_resizes, worst_lags
from scheduler_bridge.demo.watch import changes, view, watched
from scheduler_bridge.jobrunner.processes import marked_processes
from scheduler_bridge.model import JobSpec
from scheduler_bridge.record import JobRecord, ResizeRecord, RunRecord, Segment


def record(
    state: str = "completed", verified: bool | None = True, *, grows: int = 0, shrinks: int = 0, lag_s: float = 0.2
) -> RunRecord:
    job = JobRecord(
        job_id=1,
        name="uts-1",
        user="demo",
        job_class="malleable",
        nodes=1,
        min_nodes=1,
        max_nodes=2,
        walltime_s=60,
        submit_s=0,
        start_s=0,
        end_s=10,
        state=state,  # type: ignore[arg-type]  # of the parameters
        segments=[Segment(0, 5, ("a",)), Segment(5, 10, ("a", "b"))],
        verified=verified,
        result={"places": [{"node": "a", "worst_lag_s": 0.1}, {"node": "b", "worst_lag_s": lag_s}]},
    )
    job.resizes = [
        ResizeRecord(order=index, kind="grow" if index < grows else "shrink", count=1, ordered_s=1, outcome="done")
        for index in range(grows + shrinks)
    ]
    return RunRecord(policy="malleable", nodes=["a", "b", "c"], end_s=10, jobs=[job])


def pace(benchmark: str = "uts", tasks: float = 1e9) -> Pace:
    return Pace(benchmark, {"tasks": tasks, "cpu_s": 1.0, "result": 5, "parameters": {"depth": 13}})


def setting(tmp_path: Path, *benchmarks: str) -> Setting:
    return Setting(("a", "b", "c"), {name: pace(name) for name in benchmarks or ("uts",)}, tmp_path, {"X": "1"}, 2)


# verdict


def test_a_good_run_has_no_problems() -> None:
    assert problems([record(), record(grows=2, shrinks=2)], least_resizes=2, left=[]) == []


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (record("failed", None, grows=2, shrinks=2), "job 1 (uts-1) failed"),
        (record("timeout", True, grows=2, shrinks=2), "timeout"),
        (record(verified=False, grows=2, shrinks=2), "wrong"),
        (record(verified=None, grows=2, shrinks=2), "not verified"),
        (record(grows=1, shrinks=2), "1 grows were carried out"),
        (record(grows=2, shrinks=0), "0 shrinks were carried out"),
    ],
)
def test_each_failing_is_named(bad: RunRecord, word: str) -> None:
    found = problems([record(), bad], least_resizes=2, left=[])
    assert len(found) == 1
    assert word in found[0]


def test_too_few_resizes_are_no_failing_where_the_machine_was_busy() -> None:
    late = record(grows=0, shrinks=2, lag_s=0.3)
    assert problems([record(), late], least_resizes=2, left=[]) == []
    assert too_few_resizes(late, 2) == ["malleable: 0 grows were carried out, at least 2 are due"]


def test_a_wrong_result_under_the_first_policy_counts_too() -> None:
    assert problems([record(verified=False), record(grows=2, shrinks=2)], least_resizes=2, left=[])


def test_leftovers_are_a_problem() -> None:
    assert problems([record()], least_resizes=0, left=[77]) == ["processes 77 are still running"]


def test_marked_processes_are_found_until_they_are_gone() -> None:
    mark = f"test-{os.getpid()}"
    code = "import sys; print(flush=True); sys.stdin.read()"
    environment = {**os.environ, run.ENV_RUN: mark}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert marked_processes(mark, run.ENV_RUN) == [process.pid]
        assert marked_processes(mark + "x", run.ENV_RUN) == []
        process.communicate(b"")
    assert run.wait_gone(mark) == []


# pace


def test_a_fast_core_is_paced_to_the_node_of_the_batch() -> None:
    fast = pace("uts", 1e9)
    assert fast.rate == NODE_RATES["uts"]
    assert fast.slowdown == 1.0
    assert fast.words() == "uts 143 M nodes/s (14 %)"


def test_a_slow_core_gives_at_most_its_share() -> None:
    slow = pace("uts", 100e6)
    assert slow.rate == pytest.approx(40e6)
    assert slow.share == pytest.approx(0.4)
    assert slow.slowdown == pytest.approx(143 / 40)


def test_other_load_does_not_make_the_nodes_slower() -> None:
    crowded = {"tasks": 1e9, "seconds": 10.0, "cpu_s": 2.0, "result": 5, "parameters": {}}
    assert Pace("uts", crowded).core_rate == pytest.approx(500e6), "its CPU seconds count"


def test_a_benchmark_that_does_not_run_is_named(tmp_path: Path) -> None:
    package = tmp_path / "apgas" / "benchmarks" / "uts"
    package.mkdir(parents=True)
    (package.parents[1] / "__init__.py").touch()
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("raise SystemExit('no compiler')")
    with pytest.raises(CalibrationError, match=r"benchmarks\.uts failed with status 1: no compiler"):
        calibrate([], tmp_path, {"PYTHONPATH": str(tmp_path)}, lambda _: None)
    (package / "__main__.py").write_text("import sys; open(sys.argv[-1], 'w').write('{\"verified\": false}')")
    with pytest.raises(CalibrationError, match="did not verify"):
        calibrate([], tmp_path, {"PYTHONPATH": str(tmp_path)}, lambda _: None)


# run


def test_jobs_verify_themselves_or_are_compared(tmp_path: Path) -> None:
    problem = Configuration("uts", ("--depth", "14"), "", 7.4, (), (1, 4))
    job = Drawn(problem, JobSpec(1, "uts-1", "demo", "malleable", 2, 1, 4, 20.0, 0.0))
    asked = request(job, setting(tmp_path, "uts", "bc"), tmp_path)
    assert asked.command[1:5] == ("-m", "apgas.benchmarks.uts", "--depth", "14")
    assert "--verify" in asked.command
    assert asked.command[asked.command.index("--rate") + 1] == "1.43e+08"
    assert asked.bounds() == (1, 2, 4)
    assert asked.environment == {"X": "1"}
    compared = Configuration("bc", ("--scale", "13"), "", 17.8, (), (2, 2))
    other = Drawn(compared, JobSpec(2, "bc-1", "demo", "rigid", 2, 2, 2, 20.0, 0.0))
    assert "--verify" not in request(other, setting(tmp_path, "uts", "bc"), tmp_path).command


def test_emulation_and_its_cost_are_stated(tmp_path: Path) -> None:
    assert worst_lags(record(lag_s=0.3)) == {"a": 0.1, "b": 0.3}
    assert emulation_note(setting(tmp_path)) == (
        "3 nodes emulated on 2 cores: each is held to one work rate, at most 40 % of a core (uts 143 M nodes/s (14 %))."
    )
    note = cost_note(record(lag_s=0.3), setting(tmp_path), 5.0)
    assert "CPU used: 25 % of 2 cores" in note
    assert "a 0.10 s, b 0.30 s" in note
    assert "bottleneck" in note
    quiet = record()
    quiet.jobs[0].result = None
    assert "not reported" in cost_note(quiet, setting(tmp_path), 5.0)


# watch


def status(job: int, state: str, nodes: str = "", **more: object) -> JobStatus:
    fields: dict[str, object] = {
        "job": job, "name": f"uts-{job}", "user": "demo", "job_class": "malleable", "state": state,
        "nodes": tuple(nodes), "wanted_nodes": 1, "min_nodes": 1, "max_nodes": 3, "walltime_s": 60.0, "submit_s": 0.0,
        "start_s": None, "end_s": 9.0 if state in ("completed", "failed") else None, "grows": 0, "shrinks": 0,
    }  # fmt: skip
    return JobStatus(**{**fields, **more})  # type: ignore[arg-type]  # of the parameters


def snapshot(*jobs: JobStatus) -> Snapshot:
    holders = {node: job.job for job in jobs for node in job.nodes}
    nodes = tuple(NodeStatus(name, "busy" if name in holders else "idle", holders.get(name)) for name in "abc")
    return Snapshot(now_s=12.0, policy="malleable", utilization=0.5, nodes=nodes, jobs=jobs)


def printed(before: Mapping[int, JobStatus], *jobs: JobStatus) -> list[str]:
    return [line.removeprefix("  12.0 s  ") for line in changes(before, snapshot(*jobs))]


def test_changes_are_printed_in_lines() -> None:
    waiting = status(1, "waiting")
    assert printed({}, waiting) == ["uts-1 submitted (malleable, 1-3 nodes)"]
    running = status(1, "running", "ab")
    assert printed({1: waiting}, running) == ["uts-1 starts on 2 nodes (a, b)"]
    assert printed({1: running}, running) == []
    assert printed({1: running}, status(1, "running", "abc")) == ["uts-1 grew to 3, on 3 nodes (a, b, c)"]
    assert printed({1: running}, status(1, "running", "b")) == ["uts-1 shrank to 1, on 1 node (b)"]
    failed = status(1, "failed", reason="exit status 1")
    assert printed({1: running}, failed) == ["uts-1 failed: exit status 1"]
    assert printed({1: failed}, failed) == []
    assert printed({}, status(1, "completed")) == ["uts-1 submitted (malleable, 1-3 nodes)", "uts-1 completed"]


def test_the_live_view_shows_nodes_progress_and_queue() -> None:
    console = Console(width=110, file=io.StringIO(), record=True)
    running = status(1, "running", "ab", progress=30.0, progress_total=60.0, progress_unit="nodes", resizing="grow")
    console.print(view(snapshot(running, status(2, "waiting"), status(3, "completed")), record(), batch=5))
    text = console.export_text()
    assert "2 of 3 nodes busy" in text
    assert "1 of 5 jobs done" in text
    assert "■■□" in text
    assert "50 %" in text
    assert "grows ..." in text
    assert "uts-2 (1-3 nodes)" in text


def test_a_node_that_works_on_since_the_last_event_is_not_shown_idle() -> None:
    console = Console(width=110, file=io.StringIO(), record=True)
    console.print(view(snapshot(status(1, "running", "ab")), record(), batch=1))
    strips = {line.split()[0]: line.split()[1] for line in console.export_text().splitlines() if "uts-1" in line[5:]}
    assert strips["a"] == "█" * 12, "held all the time; the record ends at 10 s, now it is 12 s"
    assert strips["b"] == "·" * 5 + "█" * 7


def test_off_a_terminal_there_are_plain_lines_only() -> None:
    console = Console(file=io.StringIO(), force_terminal=False)
    with watched(console, 1) as show:
        show(snapshot(status(1, "waiting")), record())
        show(snapshot(status(1, "running", "a")), record())
        show(snapshot(status(1, "running", "a")), record())
    assert isinstance(console.file, io.StringIO)
    assert "\x1b" not in console.file.getvalue()
    assert len(console.file.getvalue().splitlines()) == 2
