"""Whatever strangers say to the daemon's listening ports: they are answered or cut off, and everyone else is served."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import PATIENCE_S
from support.strangers import converse

from scheduler_bridge.daemon import (
    ControlClient,
    ControlError,
    DaemonConfig,
    DaemonThread,
    JobRequest,
    Limits,
    SubmitError,
)
from scheduler_bridge.daemon.control import access
from scheduler_bridge.daemon.control.access import Caller
from scheduler_bridge.daemon.control.client import connect_in
from scheduler_bridge.daemon.requests import REQUEST_MOST_BYTES

BURST = 50
LIMITS = Limits(hello_s=0.5, burst_messages=BURST, messages_per_s=0.001, burst_requests=BURST, requests_per_s=0.001)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
TYPES = [
    "hello",
    "ready",
    "outcome",
    "progress",
    "grow",
    "submit",
    "status",
    "cancel",
    "resize",
    "explain",
    "report",
    "x",
]
almost = st.dictionaries(st.sampled_from(["version", "job", "token", "nodes", "order", "kind", "delta"]), values).map(
    lambda fields: fields
)
lines = st.one_of(
    st.binary(max_size=200),
    st.builds(lambda type_, rest: json.dumps({"type": type_, **rest}).encode(), st.sampled_from(TYPES), almost),
    values.map(lambda value: json.dumps(value).encode()),
    st.sampled_from([b"GET / HTTP/1.1", b"Host: localhost", b"", b"\0" * 100, b"grow 1 node", b"[" * 5000]),
)
said = st.builds(
    lambda words, end: b"\n".join(words) + end, st.lists(lines, max_size=12), st.sampled_from([b"", b"\n", b"\r\n\r\n"])
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonThread]:
    folder = tmp_path_factory.mktemp("ports")
    doors = (f"unix:{folder}/door",)
    config = DaemonConfig(nodes=("n1", "n2"), state_dir=folder / "state", doors=doors, limits=LIMITS)
    with DaemonThread(config) as made:
        yield made


Call = Callable[[DaemonThread], socket.socket]


def jobs_port(daemon: DaemonThread) -> socket.socket:
    endpoint = json.loads((daemon.config.state_dir / "endpoint.json").read_text())
    host, _, port = endpoint["jobs"].rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def control_port(daemon: DaemonThread) -> socket.socket:
    caller = socket.socket(socket.AF_UNIX)
    caller.settimeout(PATIENCE_S)
    connect_in(daemon.config.state_dir, caller)
    return caller


def open_door(daemon: DaemonThread) -> socket.socket:
    caller = socket.socket(socket.AF_UNIX)
    caller.settimeout(PATIENCE_S)
    caller.connect(str(daemon.doors[0].path))
    return caller


ports = pytest.mark.parametrize("call", [jobs_port, control_port, open_door])


@ports
@settings(max_examples=60)
@given(words=said)
def test_strangers_are_answered_or_cut_off(call: Call, daemon: DaemonThread, words: bytes) -> None:
    for answer in converse(call(daemon), words).splitlines():
        assert json.loads(answer)["type"] in {"refused", "failure", "snapshot", "recorded"}
    assert ControlClient(daemon.config.state_dir, timeout_s=PATIENCE_S).snapshot().jobs == ()


@ports
def test_lines_without_end_are_cut_off(call: Call, daemon: DaemonThread) -> None:
    answer = converse(call(daemon), b"x" * (2 * REQUEST_MOST_BYTES))
    assert answer == b"" or b"bytes" in answer
    assert daemon.snapshot().jobs == ()


@ports
def test_floods_are_cut_off(call: Call, daemon: DaemonThread) -> None:
    answers = converse(call(daemon), b'{"type":"cancel","job":1}\n' * 20_000).splitlines()
    assert len(answers) <= BURST + 1
    assert call is jobs_port or b"a second" in answers[-1]
    assert daemon.snapshot().jobs == ()


@ports
def test_silence_keeps_nobody_out(call: Call, daemon: DaemonThread) -> None:
    silent = [call(daemon) for _ in range(50)]
    try:
        for caller in silent[::2]:
            caller.sendall(b'{"type":')
        assert ControlClient(daemon.config.state_dir, timeout_s=PATIENCE_S).snapshot().jobs == ()
        assert b"refused" in converse(jobs_port(daemon), b"hello\n")
    finally:
        for caller in silent:
            caller.close()


def test_other_users_are_sent_away(daemon: DaemonThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "any_user", lambda _: Caller("somebody else"))
    with pytest.raises(ControlError, match="belongs to another user"):
        ControlClient(daemon.config.state_dir, timeout_s=PATIENCE_S).snapshot()


def test_a_full_queue_takes_no_more(tmp_path: Path) -> None:
    config = DaemonConfig(nodes=("n1",), state_dir=tmp_path / "state", limits=Limits(open_jobs=2), grace_s=0.1)
    job = JobRequest(name="job", command=("/bin/sleep", "1000"), launch="direct")
    with DaemonThread(config) as daemon:
        assert [daemon.submit(job) for _ in range(2)] == [1, 2]
        with pytest.raises(SubmitError, match="2 jobs wait or run"):
            daemon.submit(job)
        daemon.cancel(2)
        assert daemon.submit(job) == 3
