"""The ``malleable`` command against a daemon in a process of its own."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from support import PATIENCE_S
from support.orders import wait_for
from support.processes import carrying

from scheduler_bridge.cli.app import run
from scheduler_bridge.daemon import ControlClient
from scheduler_bridge.policies import registry
from scheduler_bridge.record import decode_record

COMMANDS = ["serve", "submit", "queue", "explain", "nodes", "cancel", "resize", "report", "policies", "doctor"]


class Serving:
    """``malleable serve`` as a child; ``birthmark`` is in the environment of all that it starts."""

    def __init__(self, state: Path, *options: str) -> None:
        self.state = state
        self.birthmark = f"CLI_TEST={uuid.uuid4().hex}"
        name, _, value = self.birthmark.partition("=")
        scratch = state.parent / "tmp"
        scratch.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "scheduler_bridge.cli", "serve", "--state", str(state), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, name: value, "TMPDIR": str(scratch)},
        )
        assert self.process.stdout is not None
        self.ready = self.process.stdout.readline()

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """Return exit code, the rest of standard output, and standard error."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out, err

    def family(self) -> list[int]:
        return carrying(self.birthmark)

    def kill(self) -> None:
        for pid in self.family():
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MALLEABLE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "state"


@pytest.fixture
def serving(state: Path) -> Iterator[Serving]:
    serving = Serving(state, "--nodes", "3", "--quiet")
    yield serving
    serving.kill()


@pytest.fixture
def malleable(capsys: pytest.CaptureFixture[str]) -> Malleable:
    return Malleable(capsys)


class Malleable:
    """Runs commands in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str, code: int = 0) -> str:
        """Run, check the exit code, return what was printed (errors if it failed)."""
        result = run(list(words))
        captured = self._capsys.readouterr()
        assert result == code, captured
        assert "Traceback" not in captured.err
        assert "\x1b" not in captured.out
        return captured.err if code else captured.out


def await_state(malleable: Malleable, job: str, *states: str) -> dict[str, object]:
    while True:
        for status in json.loads(malleable("queue", "--json")):
            if str(status["job"]) == job and status["state"] in states:
                found: dict[str, object] = status
                return found


def test_a_day_of_a_scheduler(serving: Serving, malleable: Malleable, tmp_path: Path) -> None:
    assert serving.ready.startswith("ready: 3 nodes, policy malleable, state ")
    endpoint = json.loads((serving.state / "endpoint.json").read_text())
    assert endpoint["pid"] == serving.process.pid
    assert serving.state.stat().st_mode & 0o777 == 0o700

    sleeper = malleable("submit", "--nodes", "2", "--name", "sleeper", "--", "sleep", "1000").strip()
    await_state(malleable, sleeper, "running")
    waiting = json.loads(malleable("submit", "--nodes", "3", "--json", "--", "true"))["job"]
    (tmp_path / "job.toml").write_text(
        'name = "from-file"\nmin_nodes = 1\nmax_nodes = 2\nwalltime_s = 60\ncommand = ["sleep", "1000"]\n'
    )
    from_file = malleable("submit", str(tmp_path / "job.toml")).strip()
    await_state(malleable, from_file, "running")

    queue = malleable("queue").splitlines()
    assert [line.split()[:2] for line in queue[1:]] == [
        [sleeper, "sleeper"],
        [str(waiting), "true"],
        [from_file, "from-file"],
    ]
    assert "needs 3 nodes" in queue[2]
    nodes = {node["name"]: node["job"] for node in json.loads(malleable("nodes", "--json"))}
    assert sorted(nodes) == ["node1", "node2", "node3"]
    assert list(nodes.values()).count(int(sleeper)) == 2
    assert "3 of 3 nodes busy" in malleable("nodes")

    malleable("cancel", str(waiting))
    assert await_state(malleable, str(waiting), "cancelled")["start_s"] is None
    malleable("cancel", sleeper)
    await_state(malleable, sleeper, "cancelled")
    assert "ended already" in malleable("cancel", sleeper, code=1)
    assert "cancelled" in malleable("report")
    unwritable = malleable("report", "--html", str(tmp_path / "none" / "run.html"), code=1)
    assert unwritable.startswith(f"--html {tmp_path}/none/run.html: there is no folder {tmp_path}/none\n")
    assert [job["name"] for job in json.loads(malleable("report", "--json"))["jobs"]] == [
        "sleeper",
        "true",
        "from-file",
    ]

    assert serving.end() == (0, "", "")
    assert not serving.family()
    left = {entry.name for entry in serving.state.iterdir()}
    assert left == {"scheduler.db", "scheduler.mark", "history.json"} | {
        f"job-{job}.{end}" for job in (1, 3) for end in ("out", "err")
    }
    assert not list((serving.state.parent / "tmp").iterdir())
    record = decode_record((serving.state / "history.json").read_bytes())
    assert [job.state for job in record.jobs] == ["cancelled"] * 3
    assert "from-file" in malleable("report")  # The history of the last run.


def test_a_scheduler_ends_and_its_jobs_go_on(serving: Serving, malleable: Malleable) -> None:
    job = malleable("submit", "--name", "sleeper", "--", "sleep", "1000").strip()
    waiting = malleable("submit", "--nodes", "3", "--", "true").strip()
    await_state(malleable, job, "running")
    malleable("shutdown", "--keep-jobs")
    out, err = serving.process.communicate(timeout=PATIENCE_S)
    assert (serving.process.returncode, out, err) == (0, "", "")
    assert "no scheduler serves" in malleable("queue", code=1)
    assert serving.family()

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        for options in (("--web", port), ("--v1-admin", port, "--v1-scripts", str(serving.state))):
            refused = Serving(serving.state, "--nodes", "3", "--quiet", *options)
            code, _, err = refused.end(signal.SIGCONT)  # it ends by itself
            assert (code, refused.ready) == (2, "")
            assert f"on port {port} of 127.0.0.1" in err
    again = Serving(serving.state, "--nodes", "3", "--quiet")
    try:
        known = {status["job"]: status for status in json.loads(malleable("queue", "--json"))}
        assert (known[int(job)]["state"], known[int(waiting)]["state"]) == ("running", "waiting")
        malleable("cancel", job)
        await_state(malleable, waiting, "completed")
        malleable("shutdown")
        again.process.communicate(timeout=PATIENCE_S)
        assert again.process.returncode == 0
        assert not serving.family()
    finally:
        again.kill()


def test_a_scheduler_serves_although_it_cannot_say_so(state: Path, malleable: Malleable) -> None:
    """One that is started again on a full disk would else end the jobs that it has taken up."""
    command = [sys.executable, "-m", "scheduler_bridge.cli", "serve", "--quiet", "--state", str(state), "--nodes", "2"]
    with Path("/dev/full").open("w") as full:
        process = subprocess.Popen(command, stdout=full, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert "No space left" in process.stderr.readline()
        malleable("shutdown")
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("end", ["INT", "shutdown"])
def test_other_ways_to_end(serving: Serving, malleable: Malleable, end: str) -> None:
    job = malleable("submit", "--", "sleep", "1000").strip()
    await_state(malleable, job, "running")
    if end == "shutdown":
        malleable("shutdown")
        assert not (serving.state / "lock").exists(), "another one may be started at once"
        assert serving.process.wait(PATIENCE_S) == 0
    else:
        assert serving.end(signal.SIGINT)[0] == 0
    assert not serving.family()
    assert "no scheduler serves" in malleable("queue", code=1)


def test_a_second_scheduler_is_refused(serving: Serving, malleable: Malleable) -> None:
    errors = malleable("serve", "--nodes", "2", code=2)
    assert f"a scheduler (process {serving.process.pid}) serves {serving.state} already" in errors
    assert malleable("nodes", "--json")


def test_a_killed_scheduler_is_succeeded(serving: Serving, malleable: Malleable) -> None:
    job = malleable("submit", "--", "sleep", "1000").strip()
    await_state(malleable, job, "running")
    serving.process.kill()
    serving.process.wait()
    assert serving.family()
    successor = Serving(serving.state, "--nodes", "3")
    try:
        assert successor.ready.startswith("ready: 3 nodes")
        assert serving.family()
        await_state(malleable, job, "running")
        assert malleable("submit", "--", "true").strip() == str(int(job) + 1)
        await_state(malleable, str(int(job) + 1), "completed")
        code, _, errors = successor.end()
        assert code == 0
        assert "job 1, running, is taken up again" in errors
        assert "job 2 starts on node2" in errors
        assert not serving.family()
    finally:
        successor.kill()


def test_a_successor_with_other_nodes_ends_the_jobs_of_those_that_are_gone(
    serving: Serving, malleable: Malleable
) -> None:
    job = malleable("submit", "--", "sleep", "1000").strip()
    await_state(malleable, job, "running")
    serving.process.kill()
    serving.process.wait()
    successor = Serving(serving.state, "--node-names", "a,b", "--policy", "easy")
    try:
        assert await_state(malleable, job, "lost")["reason"] == "node node1 is out of service"
        nodes = {node["name"]: node["state"] for node in json.loads(malleable("nodes", "--json"))}
        assert nodes == {"a": "idle", "b": "idle"}
        assert successor.end()[0] == 0
    finally:
        successor.kill()


def test_errors_of_submit_name_the_culprit(serving: Serving, malleable: Malleable, tmp_path: Path) -> None:
    def error(*words: str) -> str:
        return malleable("submit", *words, code=2)

    assert error("--", str(tmp_path / "nothing")).startswith(f"{tmp_path}/nothing does not exist\n")
    assert error("--nodes", "4", "--", "true").startswith("job 1 needs 4 nodes, the cluster has 3\n")
    assert error("--nodes", "0", "--", "true").startswith("--nodes: expected int >= 1\n")
    assert error("--min", "3", "--max", "2", "--", "true").startswith("max_nodes (2) is below min_nodes (3)\n")
    assert error("--class", "elastic", "--", "true").startswith("--class: 'elastic' is not one of rigid, malleable\n")
    assert error("--launch", "x", "--", "true").startswith("--launch: 'x' is not one of auto, mpiexec, direct\n")
    assert error("--env", "NAME", "--", "true").startswith("--env NAME\n")
    assert error("--", "").startswith("'' is not a program in PATH\n")
    assert error("--", ".").startswith(". is not a program in PATH\n")
    assert error("--", "echo", "\udcff").startswith("'\\udcff' is not UTF-8 text\n")
    job = tmp_path / "job.toml"
    job.write_text('command = ["true"]\nnodes = 4\n')
    assert error(str(job)).startswith(f"{job}:2: job 1 needs 4 nodes")
    assert error("--name", "x", str(job)).startswith("a job file and options\n")
    assert json.loads(malleable("queue", "--json")) == []


def test_resizing_by_hand(serving: Serving, malleable: Malleable) -> None:
    fake = str(Path(__file__).with_name("fake_job.py"))
    words = ("--launch", "direct", "--", sys.executable, fake, "{hosts}", "done", "1")
    job = malleable("submit", "--min", "1", "--max", "3", *words).strip()
    while not await_state(malleable, job, "running")["ready"]:
        pass
    assert "not resized" in malleable("resize", job, "--grow", "1", code=1)
    assert malleable("resize", job, "--shrink", "1") == f"job {job} is ordered to shrink by 1\n"
    assert await_state(malleable, job, "completed")["shrinks"] == 1
    assert f"job {job} (fake_job) is over: completed" in malleable("explain", job)
    texts = [moment["text"] for moment in json.loads(malleable("explain", job, "--json"))["moments"]]
    assert texts == [
        "submitted",
        "started on 3 nodes: first in the queue; larger because nodes are idle",
        "ordered to shrink by 1 node: the job offered them back",
        "shrank by 1 to 2 nodes",
        "completed",
    ]
    assert "no job 77" in malleable("explain", "77", code=1)
    assert "ended already" in malleable("resize", job, "--shrink", "1", code=1)
    assert "no job 77" in malleable("resize", "77", "--grow", "1", code=1)
    assert malleable("resize", job, code=2).startswith("resize needs a direction\n")


def test_bad_usage_of_serve(state: Path, malleable: Malleable, tmp_path: Path) -> None:
    assert malleable("serve", code=2).startswith("serve needs the nodes\n")
    assert malleable("serve", "--node-names", "a,,b", code=2).startswith("'' is not a node name\n")
    assert malleable("serve", "--node-names", "a,a", code=2).startswith("node a is named twice\n")
    assert "fcfs" in malleable("serve", "--nodes", "2", "--policy", "wishful", code=2)
    assert "its parameters: over" in malleable("serve", "--nodes", "2", "--policy", "penalty", "--set", "x=1", code=2)
    assert "no MPI launcher" in malleable("serve", "--nodes", "2", "--mpiexec", str(tmp_path / "no"), code=2)
    (tmp_path / "file").touch()
    assert "cannot use the state folder" in malleable("serve", "--nodes", "1", "--state", f"{tmp_path}/file", code=2)
    malleable("serve", "--nodes", "none", code=2)
    malleable("unknown-command", code=2)


@pytest.mark.parametrize("command", [*COMMANDS, "shutdown", "history", "policy", "hold", "release", "priority"])
def test_help_begins_with_a_sentence_and_has_an_example(command: str, malleable: Malleable) -> None:
    lines = [line.strip() for line in malleable(command, "--help").splitlines() if line.strip()]
    assert lines[0].startswith(f"Usage: malleable {command}")
    assert lines[1][0].isupper()
    assert any(line.startswith(f"Example: malleable {command}") for line in lines[1:5])


def test_the_version_is_printed(malleable: Malleable) -> None:
    assert malleable("--version") == f"malleable-apgas {metadata.version('malleable-apgas')}\n"


def test_policies_are_described(malleable: Malleable) -> None:
    assert {policy["name"] for policy in json.loads(malleable("policies", "--json"))} >= {"fcfs", "easy", "malleable"}
    assert "Source:" in malleable("policies", "malleable")
    listed = malleable("policies")
    assert "Almaaitah" in listed
    assert "parameters: expand=handoff plus=none share_factor=0.4" in listed
    assert "no policy" in malleable("policies", "wishful", code=2)


def test_debug_shows_the_traceback(state: Path) -> None:
    with pytest.raises(Exception, match="no scheduler serves"):
        run(["queue", "--debug"])


def test_the_live_page_is_served_if_asked(state: Path) -> None:
    serving = Serving(state, "--nodes", "3", "--quiet", "--web", "0")
    try:
        url = serving.ready.strip().rpartition("page ")[2]
        with urllib.request.urlopen(f"{url}metrics", timeout=PATIENCE_S) as answer:
            assert b'malleable_nodes{state="idle"} 3.0' in answer.read()
        with socket.create_connection(("127.0.0.1", int(url.rstrip("/").rpartition(":")[2]))) as follower:
            follower.sendall(b"GET /events HTTP/1.0\r\n\r\n")
            assert follower.recv(12) == b"HTTP/1.1 200"
            assert serving.end()[0] == 0, "it ends although somebody follows"
        other = Serving(state, "--nodes", "3", "--web", url.rstrip("/").rpartition(":")[2], "--web-host", "192.0.2.1")
        try:
            code, _, err = other.end(signal.SIGCONT)  # It ends by itself.
            assert (code, other.ready) == (2, "")
            assert "cannot serve the page" in err
        finally:
            other.kill()
    finally:
        serving.kill()


def test_the_lines_of_v1_are_taken_if_asked(state: Path, malleable: Malleable, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#JOB_NAME by-line\n#NODES 2\nexit 0\n")
    serving = Serving(state, "--nodes", "1", "--v1-admin", "0", "--v1-scripts", str(tmp_path))
    try:
        port = int(serving.ready.strip().rpartition(":")[2])
        for line, answer in ((b"Add Node more\n", b"Add Nodes >> more\n"), (b"job.sh\n", b"Add Job >> JobID:1\n")):
            with socket.create_connection(("127.0.0.1", port)) as caller:
                caller.sendall(line)
                assert caller.makefile("rb").read() == answer
        assert await_state(malleable, "1", "completed")["name"] == "by-line"
        assert "\nmore " in malleable("nodes")
        with socket.create_connection(("127.0.0.1", port)) as caller:
            caller.sendall(b"shutdown\n")
        assert serving.process.wait(PATIENCE_S) == 0
    finally:
        serving.kill()
    assert "give --v1-admin 8081 --v1-scripts DIR" in malleable("serve", "--nodes", "1", "--v1-admin", "0", code=2)


def test_a_scheduler_may_open_as_many_files_as_the_system_allows(state: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        serving = Serving(state, "--nodes", "1")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    try:
        assert resource.prlimit(serving.process.pid, resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        serving.end()


OWN_POLICY = """
from scheduler_bridge import policies
from scheduler_bridge.policies import Start

class Mine:
    name = "mine"

    def decide(self, view, now):
        mistake = [0][sum(job.name == "odd" for job in view.queue)]
        return [Start(job.job_id, 1, "fits") for job in view.queue if view.free_nodes]

    def why_waiting(self, view, job, reservation):
        return "no node is free"

@policies.register
def mine() -> policies.Policy:
    '''One job at a time.'''
    return Mine()
"""


def test_an_own_policy_is_repaired_while_a_job_runs(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, go_on = tmp_path / "mine.py", tmp_path / "go_on"
    file.write_text(OWN_POLICY)
    options = ("--nodes", "2", "--load", str(file), "--policy", "mine")
    submit = ("submit", "--nodes", "1", "--walltime", "300")
    first = Serving(state, *options)
    assert run([*submit, "--", "sh", "-c", f"until [ -e {go_on} ]; do sleep 0.1; done"]) == 0
    assert run([*submit, "--name", "odd", "--", "true"]) == 0
    assert run(["explain", "2"]) == 0
    assert f"policy mine ({file}:9) raised IndexError: list index out of range" in capsys.readouterr().out
    assert run(["policy", "mine"]) == 0
    first.process.kill()
    first.process.communicate()
    file.write_text(OWN_POLICY.replace("mistake =", "repaired = 0  #"))
    second = Serving(state, *options)
    try:
        scheduler = ControlClient(state, PATIENCE_S)
        wait_for(lambda: scheduler.record().jobs[1].state == "completed")
        go_on.touch()
        wait_for(lambda: scheduler.record().jobs[0].state == "completed")
        assert second.end()[0] == 0
        assert run(["report"]) == 2
        assert "no policy 'mine'" in capsys.readouterr().err
        monkeypatch.setattr(registry, "_FACTORIES", dict(registry._FACTORIES))
        assert run(["report", "--load", str(file), "--json"]) == 0
        assert [job["state"] for job in json.loads(capsys.readouterr().out)["jobs"]] == ["completed", "completed"]
    finally:
        first.kill()
        second.kill()
