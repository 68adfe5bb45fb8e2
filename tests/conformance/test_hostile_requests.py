"""Requests that are deep, long or large beyond measure get an answer, and the connection goes on."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import PATIENCE_S

from apgas.malleability import orders as wire
from scheduler_bridge.cli.app import run
from scheduler_bridge.daemon import DaemonConfig, DaemonThread

DEEP = "[" * 100_000 + "]" * 100_000
DIGITS = "9" * 5000
LONG = "/" + "x" * 30_000
DEEP_PATH = "/" + "/".join(["y" * 200] * 150)
JOB = '"name":"a","command":["true"]'


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonThread]:
    config = DaemonConfig(nodes=("n1", "n2"), state_dir=tmp_path_factory.mktemp("hostile") / "state")
    with DaemonThread(config) as made:
        yield made


@pytest.mark.parametrize(
    "line",
    [
        DEEP,
        '{"type":' * 25_000,
        '{"type":"status","version":' + DIGITS + "}",
        '{"type":"use","policy":"easy","parameters":{"a":' + DEEP + "}}",
        '{"type":"use","policy":"easy","parameters":{"a":' + DIGITS + "}}",
        '{"type":"use","policy":"malleable","parameters":{"interval_s":18446744073709551615}}',
        '{"type":"cancel","job":' + DIGITS + "}",
        '{"type":"resize","job":1,"delta":-' + DIGITS + "}",
        '{"type":"submit","job":{' + JOB + ',"walltime_s":1e' + DIGITS + "}}",
        '{"type":"submit","job":{' + JOB + ',"cwd":"' + LONG + '"}}',
        '{"type":"submit","job":{' + JOB + ',"cwd":"' + DEEP_PATH + '"}}',
        '{"type":"submit","job":{' + JOB + ',"output":"' + LONG + '"}}',
        '{"type":"submit","job":{' + JOB + ',"errors":"' + DEEP_PATH + '"}}',
        '{"type":"submit","job":{"name":"a","command":["' + LONG + '"]}}',
        '{"type":"submit","job":{"name":"a","command":["' + LONG[1:] + '"]}}',
        '{"type":"submit","job":{' + JOB + ',"environment":{"APGAS_PLACES_PER_NODE":"' + DIGITS + '"}}}',
        '{"type":"node","node":"' + LONG + '","to":"add"}',
        '{"type":"unreserve","name":"' + LONG + '"}',
    ],
    ids=lambda line: line[:40],
)
def test_each_is_answered(daemon: DaemonThread, line: str) -> None:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(PATIENCE_S)
        caller.connect(str(daemon.config.state_dir / "control.sock"))
        with caller.makefile("rb") as answers:
            caller.sendall(line.encode() + b"\n")
            answer = json.loads(answers.readline())
            assert answer["type"] == "failure"
            assert len(answer["reason"]) < 1000
            caller.sendall(b'{"type":"status"}\n')
            assert json.loads(answers.readline())["type"] == "snapshot"


@pytest.mark.parametrize(
    "line", [DEEP, '{"type":"hello","version":2,"job":1,"x":' + DEEP + "}", '{"type":"progress","done":' + DIGITS + "}"]
)
def test_a_jobs_line_is_refused(line: str) -> None:
    with pytest.raises(wire.BadMessageError):
        wire.decode_to_scheduler(line.encode())
    with pytest.raises(wire.BadMessageError):
        wire.decode_to_job(line.encode())


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (["submit", "--array", DIGITS, "--", "true"], ""),
        (["submit", "--after-ok", "1-" + DIGITS, "--", "true"], ""),
        (["submit", "--cwd", LONG, "--", "true"], ""),
        (["submit", "--output", DEEP_PATH, "--", "true"], ""),
        (["submit", "--env", "APGAS_PLACES_PER_NODE=" + DIGITS, "--", "true"], ""),
        (["limits", "--user-nodes", DIGITS], ""),
        (["reserve", "--nodes", "1", "--start", f"+{DIGITS}m", "--for", "1h"], ""),
        (["policy", LONG], ""),
        (["submit", "job.toml"], "command = " + DEEP),
        (["submit", "job.toml"], 'command = ["true"]\nnodes = ' + DIGITS),
        (["serve", "--config", "serve.toml"], "nodes = " + DIGITS),
        (["simulate", "--nodes", "4", "--policy", "easy", "--workload", "a.toml"], "[[job]]\nnodes = " + DIGITS),
        (["simulate", "--nodes", "4", "--policy", "easy", "--workload", "a.json"], '{"jobs": [' + DIGITS + "]}"),
        (["simulate", "--nodes", "4", "--policy", "easy", "--workload", "a.json"], '{"x": ' + DEEP + "}"),
        (["simulate", "--nodes", "4", "--policy", "easy", "--workload", LONG], ""),
        (["queue", "--state", LONG], ""),
    ],
    ids=lambda each: " ".join(each)[:40],
)
def test_the_command_line_says_what_is_wrong(
    daemon: DaemonThread,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    file: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MALLEABLE_STATE", str(daemon.config.state_dir))
    if file:
        (tmp_path / words[-1]).write_text(file)
    assert run(words) in (1, 2)
    said = capsys.readouterr().err
    assert "should not happen" not in said
    assert 10 < len(said) < 3000
