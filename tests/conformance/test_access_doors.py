"""Doors for users of a scheduler that runs: who comes in, and what they may."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support import PATIENCE_S

from scheduler_bridge.live import ControlClient, ControlError, Daemon, DaemonConfig, DaemonError, DaemonThread, Door
from scheduler_bridge.live.access import Tokens
from scheduler_bridge.live.access.tokens import Challenge, Proof, Welcome, key_of, nonce, prove
from scheduler_bridge.live.requests import JobRequest, LimitUsers

NOBODY = 65534
SLEEP = JobRequest(name="job", command=("/bin/sleep", "1000"), launch="direct")
AS_NOBODY = """
import json, os, sys
from scheduler_bridge.live import ControlClient, ControlError, Door, JobRequest
os.setgroups([]); os.setgid(65534); os.setuid(65534)
client = ControlClient(Door.parse(sys.argv[1]), timeout_s=20.0)
job = client.submit(JobRequest(name="job", command=("/bin/sleep", "1000"), launch="direct"))
refused = []
for ask in (lambda: client.cancel(1), client.shutdown, client.record):
    try:
        ask()
    except ControlError as error:
        refused.append(str(error))
client.cancel(job)
print(json.dumps({"job": job, "user": client.snapshot().job(job).user, "refused": refused}))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can enter, unlike a test's own."""
    path = Path(tempfile.mkdtemp(dir="/tmp", prefix="malleable-doors-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def daemon(folder: Path) -> Iterator[DaemonThread]:
    doors = (f"unix:{folder}/door", "tcp:127.0.0.1:0")
    config = DaemonConfig(nodes=("n1", "n2"), state_dir=folder / "state", doors=doors, grace_s=0.1)
    with Daemon.start_in_thread(config) as made:
        yield made
    assert not (folder / "door").exists()


@pytest.fixture
def keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MALLEABLE_TOKEN_FILE", str(tmp_path / "token"))
    return tmp_path / "token"


def hold(keep: Path, token: str) -> None:
    keep.write_text(token)
    keep.chmod(0o600)


def at(door: Door) -> ControlClient:
    return ControlClient(door, timeout_s=PATIENCE_S)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user for a while")
def test_other_users_of_the_machine_look_after_their_own_jobs(daemon: DaemonThread, folder: Path) -> None:
    ours = daemon.submit(SLEEP)
    command = [sys.executable, "-c", AS_NOBODY, str(daemon.doors[0])]
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env={**os.environ, "PYTHONPATH": root}
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["job"], told["user"]) == (2, "nobody")
    assert told["refused"] == [
        f"job {ours} is not nobody's",
        "nobody is no operator of this scheduler",
        "nobody is no operator of this scheduler",
    ]
    assert daemon.snapshot().job(ours).state in ("starting", "running")


def test_the_scheduler_s_own_user_may_everything_at_any_socket(daemon: DaemonThread) -> None:
    assert at(daemon.doors[0]).manage(LimitUsers(nodes=2)) == "the jobs of one user hold 2 nodes"
    with pytest.raises(ControlError, match="part of another program"):
        at(daemon.doors[0]).shutdown(keep_jobs=True)


def test_whoever_has_a_token_comes_in(daemon: DaemonThread, keep: Path) -> None:
    tokens, client = Tokens(daemon.config.state_dir), at(daemon.doors[1])
    with pytest.raises(ControlError, match="no token in"):
        client.snapshot()
    hold(keep, tokens.add("anna"))
    job = client.submit(SLEEP)
    assert client.snapshot().job(job).user == "anna"
    with pytest.raises(ControlError, match="anna is no operator"):
        client.manage(LimitUsers(nodes=2))
    client.cancel(job)
    hold(keep, tokens.add("olga", operator=True))
    assert client.manage(LimitUsers(nodes=2)) == "the jobs of one user hold 2 nodes"
    tokens.remove("olga")
    with pytest.raises(ControlError, match="unknown user or wrong token"):
        client.snapshot()
    hold(keep, f"anna:{'0' * 64}")
    with pytest.raises(ControlError, match="unknown user or wrong token"):
        client.snapshot()


def test_what_a_listener_has_heard_opens_nothing(daemon: DaemonThread) -> None:
    user, _, token = Tokens(daemon.config.state_dir).add("anna").partition(":")
    door, ours = daemon.doors[1], nonce()
    answers = []
    words = b""
    for _ in range(2):
        with socket.create_connection((door.where, door.port), PATIENCE_S) as caller, caller.makefile("rb") as lines:
            challenge = msgspec.json.decode(lines.readline(), type=Challenge)
            proof = prove("caller", key_of(token), user, challenge.nonce, ours)
            words = words or msgspec.json.encode(Proof(user, ours, proof)) + b"\n"
            caller.sendall(words)
            answers.append(json.loads(lines.readline())["type"])
    assert answers == ["welcome", "failure"]


@pytest.mark.parametrize("answer", [b"", b"hello\n", msgspec.json.encode(Welcome("0" * 64)) + b"\n"])
def test_an_impostor_is_not_told_what_is_to_be_run(keep: Path, answer: bytes) -> None:
    heard = []
    hold(keep, f"anna:{'a' * 64}")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def pretend() -> None:
            caller, _ = listening.accept()
            with caller, caller.makefile("rb") as lines:
                caller.sendall(msgspec.json.encode(Challenge(nonce())) + b"\n")
                heard.append(lines.readline())
                caller.sendall(answer)
                if answer:
                    heard.append(lines.readline())

        thread = threading.Thread(target=pretend)
        thread.start()
        with pytest.raises(ControlError, match="cannot prove that it is the scheduler"):
            at(Door("tcp", "127.0.0.1", listening.getsockname()[1])).submit(SLEEP)
        thread.join(PATIENCE_S)
    assert b"aaaa" not in heard[0]
    assert b"sleep" not in b"".join(heard)


def test_a_door_that_cannot_be_opened_is_named(folder: Path) -> None:
    (folder / "file").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for door in (f"unix:{folder}/file", f"unix:{folder}/none/door", f"tcp:127.0.0.1:{taken.getsockname()[1]}"):
            config = DaemonConfig(nodes=("n1",), state_dir=folder / "state", doors=(door,))
            with pytest.raises(DaemonError, match=f"cannot listen at {door}"), Daemon.start_in_thread(config):
                pass
    for door in ("tcp:1", "unix:", "tcp:h:x", "tcp:h:70000", "pipe:x", "folder"):
        with pytest.raises(DaemonError, match="is not a door"):
            Daemon(DaemonConfig(nodes=("n1",), state_dir=folder / "state", doors=(door,)))
    assert (folder / "file").exists()


def test_a_socket_that_a_killed_scheduler_left_is_replaced(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / "door"))
    config = DaemonConfig(nodes=("n1",), state_dir=folder / "state", doors=(f"unix:{folder}/door",))
    with Daemon.start_in_thread(config) as daemon:
        assert at(daemon.doors[0]).snapshot().jobs == ()
        again = DaemonConfig(nodes=("n1",), state_dir=folder / "other", doors=config.doors)
        with pytest.raises(DaemonError, match="it is there already"), Daemon.start_in_thread(again):
            pass
        assert at(daemon.doors[0]).snapshot().jobs == ()


def test_a_socket_whose_owner_is_busy_is_left_alone(folder: Path) -> None:
    config = DaemonConfig(nodes=("n1",), state_dir=folder / "state", doors=(f"unix:{folder}/door",))
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as caller:
        busy.bind(str(folder / "door"))
        busy.listen(0)
        caller.connect(str(folder / "door"))  # the queue of callers is full: another one would wait
        with pytest.raises(DaemonError, match="it is there already"), Daemon.start_in_thread(config):
            pass
    assert (folder / "door").exists()


def test_a_door_that_fails_leaves_no_socket(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, mode: int) -> None:
        raise PermissionError(1, "not permitted")

    config = DaemonConfig(nodes=("n1",), state_dir=folder / "state", doors=(f"unix:{folder}/door",))
    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(DaemonError, match="not permitted"), Daemon.start_in_thread(config):
        pass
    assert not (folder / "door").exists()


def test_a_door_may_be_named_by_a_host(folder: Path, keep: Path) -> None:
    config = DaemonConfig(nodes=("n1",), state_dir=folder / "state", doors=("tcp:localhost:0",))
    with Daemon.start_in_thread(config) as daemon:
        hold(keep, Tokens(config.state_dir).add("anna"))
        assert at(daemon.doors[0]).snapshot().jobs == ()


def test_doors_read_as_they_are_written() -> None:
    for text in ("unix:/run/malleable.sock", "tcp:10.0.0.1:7077", "tcp:[::1]:0"):
        assert str(Door.parse(text)) == text
