"""What outlives a scheduler, as its users see it: configuration, policy, runs, exports."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import PATIENCE_S

from scheduler_bridge.cli.app import run
from scheduler_bridge.daemon import ControlClient
from scheduler_bridge.daemon.storage.log_entries import Configured, decode
from scheduler_bridge.daemon.storage.store import Store
from scheduler_bridge.workloads import read_swf

CONFIG = """
nodes = ["a", "b"]
policy = "mebf"
state = "state"
grace_s = 0.5
[set]
expand = "intensive"
"""


class Cluster:
    """Schedulers that serve the configuration in ``folder``, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None

    def serve(self, *options: str) -> str:
        command = [sys.executable, "-m", "scheduler_bridge.cli", "serve", "--quiet", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode

    def complete(self, *command: str) -> None:
        client = ControlClient(self.folder / "state", timeout_s=PATIENCE_S)
        job_id = int(said("submit", "--launch", "direct", "--", *command))
        while client.snapshot().job(job_id).state not in ("completed", "failed"):
            pass


_capsys: list[pytest.CaptureFixture[str]] = []


def said(*words: str, code: int = 0) -> str:
    """Run ``malleable``; return its output, or its errors if it is to fail."""
    assert run(list(words)) == code, _capsys[0].readouterr().err
    printed = _capsys[0].readouterr()
    return printed.err if code else printed.out


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Cluster]:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("MALLEABLE_STATE", str(tmp_path / "state"))
    _capsys[:] = [capsys]
    (tmp_path / "config.toml").write_text(CONFIG)
    made = Cluster(tmp_path)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.end()


def test_a_policy_chosen_at_run_time_outlives_the_scheduler(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    config = str(cluster.folder / "config.toml")
    assert cluster.serve("--config", config).startswith("ready: 2 nodes, policy mebf")
    assert said("policy") == "mebf\n"
    assert said("policy", "easy") == "easy\n"
    assert said("policy", "nonsense", code=2).startswith("no policy 'nonsense'")
    cluster.end(signal.SIGKILL)
    cluster.serve("--config", config)
    assert json.loads(said("policy", "--json")) == {"policy": "easy"}
    cluster.end(signal.SIGKILL)
    cluster.serve("--config", config, "--policy", "fcfs")
    assert said("policy") == "fcfs\n"
    assert cluster.end() == 0
    assert any("easy decides" in note for note in json.loads(said("report", "--json"))["notes"])


def test_the_runs_of_a_folder_are_kept_and_exported(cluster: Cluster) -> None:
    assert "no scheduler has served" in said("history", code=2)
    cluster.serve("--nodes", "3")
    for _ in range(2):
        cluster.complete("sleep", "0.05")
    assert cluster.end() == 0
    cluster.serve("--nodes", "2", "--policy", "easy")
    cluster.complete("true")
    runs = json.loads(said("history", "--json"))
    assert [(row["run"], row["nodes"], row["policy"], row["jobs"], row["ended"]) for row in runs] == [
        (1, 3, "malleable", 2, True),
        (2, 2, "easy", 1, False),
    ]
    assert "not ended" in said("history")
    first = json.loads(said("report", "--run", "1", "--json"))
    assert [job["state"] for job in first["jobs"]] == ["completed"] * 2
    said("report", "--run", "1", "--swf", str(cluster.folder / "jobs.swf"))
    workload = read_swf(cluster.folder / "jobs.swf")
    assert (workload.nodes, [job.nodes for job in workload.jobs]) == (3, [1, 1])
    assert all(job.allocations for job in workload.jobs)
    cluster.end(signal.SIGKILL)
    assert [job["job_id"] for job in json.loads(said("report", "--json"))["jobs"]] == [3]
    assert "has no run 7" in said("report", "--run", "7", code=2)
    cluster.serve("--nodes", "2", "--policy", "easy")


def test_pauses_other_than_the_policys_are_kept(cluster: Cluster) -> None:
    (cluster.folder / "config.toml").write_text(CONFIG.replace("grace_s", "pass_interval_s = 3600\ngrace_s"))
    config = str(cluster.folder / "config.toml")
    cluster.serve("--config", config)
    cluster.end(signal.SIGKILL)
    cluster.serve("--config", config, "--pass-interval", "1800", "--cooldown", "9", "--walltime-grace", "2")
    cluster.end(signal.SIGKILL)
    store = Store(cluster.folder / "state")
    entries = [decode(row)[0] for _, row in store.rows(store.eras()[0])]
    store.close()
    given = [fact for entry in entries for fact in entry.facts if isinstance(fact, Configured)]
    settings = [(fact.pass_interval_s, fact.cooldown_s, fact.walltime_grace_s) for fact in given]
    assert settings == [(3600, None, 0), (1800, 9, 2)]
    assert "--pass-interval" in said("serve", "--nodes", "1", "--pass-interval", "-1", code=2)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("nodes = 0\n", "config.toml:1: nodes: "),
        ("policy = 'easy'\nnode = 4\n", "config.toml:2: unknown key 'node'"),
        ("nodes = [\n", "config.toml:1: "),
        ("policy = 'easy'\n", "serve needs the nodes"),
        ("nodes = 2\n[web]\nport = 70000\n", "config.toml:2: web: "),
        ("nodes = 2\nstate = ''\n", "config.toml:2: state: "),
        ("hosts = ''\n", "config.toml:1: hosts: "),
    ],
)
def test_a_bad_configuration_names_the_line(cluster: Cluster, text: str, error: str) -> None:
    path = cluster.folder / "config.toml"
    path.write_text(text)
    assert error in said("serve", "--config", str(path), code=2)
