"""The demo with stand-ins for the benchmarks, which speak to the scheduler and wait instead of computing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import PATIENCE_S

import scheduler_bridge
from scheduler_bridge.daemon import Snapshot
from scheduler_bridge.demo import app
from scheduler_bridge.demo.batch import Configuration, Drawn
from scheduler_bridge.demo.pace import Pace
from scheduler_bridge.demo.run import ENV_RUN, Setting, run_batch, wait_gone
from scheduler_bridge.jobrunner.processes import marked_processes
from scheduler_bridge.model import JobClass, JobSpec
from scheduler_bridge.record import RunRecord, decode_record, metrics

ROOT = Path(scheduler_bridge.__file__).parents[1]
NODES = ("node1", "node2", "node3", "node4")

STAND_IN = '''
import json, os, socket, sys, time

def option(name, default=""):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default

def finish(**result):
    usual = {"parameters": {}, "result": 5, "verified": True, "seconds": 1.0, "cpu_s": 1.0, "tasks": 1e12}
    if option("--json"):
        with open(option("--json"), "w") as file:
            json.dump({**usual, **result}, file)

def hosts():
    """The names after --hosts of the launcher above."""
    pid = os.getppid()
    while True:
        with open(f"/proc/{pid}/cmdline") as file:
            words = file.read().split("\\0")
        if "--hosts" in words:
            return words[words.index("--hosts") + 1].split(",")
        with open(f"/proc/{pid}/stat") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])

def main():
    if os.environ.get("PMI_RANK", "0") != "0":
        return
    if "MALLEABLE_SCHEDULER" not in os.environ:
        return finish()
    host, _, port = os.environ["MALLEABLE_SCHEDULER"].rpartition(":")
    link = socket.create_connection((host, int(port)))
    lines = link.makefile("rb")
    def send(**message):
        link.sendall(json.dumps(message).encode() + b"\\n")
    send(type="hello", version=2, job=int(os.environ["MALLEABLE_JOB"]), token=os.environ["MALLEABLE_TOKEN"])
    lines.readline()
    nodes = hosts()
    send(type="ready", nodes=nodes)
    left, at = float(option("--work", "1000")), time.monotonic()
    pending = b""
    while left > 0:
        link.settimeout(0.02)
        try:
            pending += link.recv(65536)
        except TimeoutError:
            pass  # nothing was said
        link.settimeout(None)
        now = time.monotonic()
        left, at = left - len(nodes) * (now - at), now
        while b"\\n" in pending:
            line, _, pending = pending.partition(b"\\n")
            order = json.loads(line)
            if order["type"] not in ("grow", "shrink"):
                continue
            moved = order["nodes"] if order["type"] == "grow" else nodes[-order["count"]:]
            nodes = nodes + moved if order["type"] == "grow" else nodes[:-order["count"]]
            send(type="outcome", order=order["order"], kind=order["type"], outcome="done", nodes=moved,
                 seconds=0.01, phases={"pre": 0.01})
    send(type="disable")
    finish(places=[{"node": node, "worst_lag_s": 0.01} for node in nodes])
'''


@pytest.fixture
def stand_ins(tmp_path: Path) -> Path:
    package = tmp_path / "stand-ins" / "apgas" / "benchmarks"
    for name in ("uts", "nqueens", "bc", "pi"):
        (package / name).mkdir(parents=True)
        (package / name / "__init__.py").touch()
        (package / name / "__main__.py").write_text("from apgas.benchmarks.stand_in import main\nmain()\n")
    (package / "__init__.py").touch()
    (package.parent / "__init__.py").touch()
    (package / "stand_in.py").write_text(STAND_IN)
    return package.parent.parent


def job(name: str, submit_s: float, least: int, most: int, work: float, benchmark: str = "uts") -> Drawn:
    problem = Configuration(benchmark, ("--work", str(work)), "", 20.0, (), (least, most))
    job_class: JobClass = "malleable" if least < most else "rigid"
    return Drawn(problem, JobSpec(1, name, "demo", job_class, least, least, most, 50.0, submit_s))


def test_a_batch_is_run_resized_checked_and_leaves_nothing(tmp_path: Path, stand_ins: Path) -> None:
    mark = f"demo-{os.getpid()}"
    pace = Pace("uts", {"tasks": 1e12, "cpu_s": 1.0, "result": 5, "parameters": {}})
    compared = Pace("bc", {"tasks": 1e12, "cpu_s": 1.0, "result": 6, "parameters": {}})
    environment = {"PYTHONPATH": str(stand_ins), ENV_RUN: mark}
    setting = Setting(NODES, {"uts": pace, "bc": compared}, tmp_path, environment, 2)
    seen: list[Snapshot] = []
    batch = [job("first", 0.0, 1, 4, 14), job("second", 0.6, 2, 2, 3), job("third", 0.8, 1, 1, 2, benchmark="bc")]
    record = run_batch(batch, "malleable", setting, lambda snapshot, _: seen.append(snapshot))
    total = metrics(record)
    assert [entry.state for entry in record.jobs] == ["completed"] * 3
    assert total.shrinks >= 1, "the second job finds no idle node"
    assert total.grows >= 1
    assert [entry.verified for entry in record.jobs] == [True, True, False], "the third is compared with another result"
    assert seen[0].nodes[0].name == "node1"
    assert "3 nodes" not in record.notes[0]
    assert record.notes[0].startswith("4 nodes emulated on 2 cores")
    assert "node1 0.01 s" in record.notes[1]
    assert wait_gone(mark) == []


def test_jobs_that_take_longer_than_their_walltimes_complete(
    tmp_path: Path, stand_ins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine may be busy with something else; the scheduler plans with the walltimes all the same."""
    monkeypatch.setattr(Drawn, "walltime_s", lambda *_: 0.1)
    pace = Pace("uts", {"tasks": 1e12, "cpu_s": 1.0, "result": 5, "parameters": {}})
    setting = Setting(NODES, {"uts": pace}, tmp_path, {"PYTHONPATH": str(stand_ins)}, 2)
    record = run_batch([job("slow", 0.0, 2, 2, 2)], "malleable", setting, lambda *_: None)
    assert [(entry.state, entry.verified) for entry in record.jobs] == [("completed", True)]


def test_the_report_is_written_and_the_exit_code_is_the_verdict(
    tmp_path: Path, stand_ins: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(app, "import_path", lambda: str(stand_ins))
    monkeypatch.setattr(app, "draw", lambda *_, **__: [job("first", 0.0, 1, 4, 3), job("second", 0.5, 2, 2, 1)])
    output = tmp_path / "report"
    (output / "jobs").mkdir(parents=True)
    (output / "jobs" / "easy-01-old.out").touch()
    assert app.start(1, "malleable", output, quick=True) in (0, 1)
    said = capsys.readouterr().out
    assert "second starts on 2 nodes" in said
    assert "\x1b" not in said
    assert (output / "gantt.png").read_bytes().startswith(b"\x89PNG")
    assert "--seed 1" in (output / "index.html").read_text()
    records: list[RunRecord] = [
        decode_record((output / f"record-{policy}.json").read_bytes()) for policy in ("easy", "malleable")
    ]
    assert [record.policy for record in records] == ["easy", "malleable"]
    assert not (output / "jobs" / "easy-01-old.out").exists()
    assert {path.suffix for path in (output / "jobs").glob("malleable-01-*")} == {".out", ".err", ".json"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "term"])
def test_an_interrupted_demo_leaves_nothing(tmp_path: Path, stand_ins: Path, number: signal.Signals) -> None:
    script = tmp_path / "interrupted.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        f"from scheduler_bridge.demo import app\n"
        f"app.import_path = lambda: {str(stand_ins)!r}\n"
        f"app.uuid.uuid4 = lambda: type('U', (), {{'hex': 'demo-{os.getpid()}-i'}})\n"
        "app.main()\n"
    )
    command = [sys.executable, str(script), "--quick", "--output", str(tmp_path / "report")]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    mark = f"demo-{os.getpid()}-i"
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        assert any("starts on" in line for line in process.stdout), "the first job started"
        deadline = time.monotonic() + PATIENCE_S
        while not marked_processes(mark, ENV_RUN):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, said
    assert "interrupted; nothing is left running" in said
    assert wait_gone(mark) == []


def test_bad_usage_is_refused_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.start(1, "nonsense", tmp_path, quick=True) == 2
    assert "--policy nonsense" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert app.start(1, "easy", tmp_path / "file", quick=True) == 2
    assert "cannot be made" in capsys.readouterr().err
