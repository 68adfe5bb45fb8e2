"""Doors for users of a scheduler that runs: who comes in, and what they may."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import PATIENCE_S

from scheduler_bridge.daemon import ControlClient, ControlError, Daemon, DaemonConfig, DaemonError, DaemonThread, Door
from scheduler_bridge.daemon.requests import JobRequest, LimitUsers

SLEEP = JobRequest(name="job", command=("/bin/sleep", "1000"), launch="direct")
AS_NOBODY = """
import json, os, sys
from scheduler_bridge.daemon import (ControlClient, ControlError, Door, JobRequest)
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
    doors = (f"unix:{folder}/door",)
    config = DaemonConfig(nodes=("n1", "n2"), state_dir=folder / "state", doors=doors, grace_s=0.1)
    with DaemonThread(config) as made:
        yield made
    assert not (folder / "door").exists()


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
    answers = json.loads(done.stdout)
    assert (answers["job"], answers["user"]) == (2, "nobody")
    assert answers["refused"] == [
        f"job {ours} is not nobody's",
        "nobody is no operator of this scheduler",
        "nobody is no operator of this scheduler",
    ]
    assert daemon.snapshot().job(ours).state in ("starting", "running")


def test_the_scheduler_s_own_user_may_everything_at_any_socket(daemon: DaemonThread) -> None:
    assert at(daemon.doors[0]).manage(LimitUsers(nodes=2)) == "the jobs of one user hold 2 nodes"
    with pytest.raises(ControlError, match="part of another program"):
        at(daemon.doors[0]).shutdown(keep_jobs=True)


def test_a_door_that_cannot_be_opened_is_named(folder: Path) -> None:
    (folder / "file").write_text("")
    for name, why in (("file", "it is there already"), ("none/door", "No such file or directory")):
        door = f"unix:{folder}/{name}"
        config = DaemonConfig(nodes=("n1",), state_dir=folder / "state", doors=(door,))
        with pytest.raises(DaemonError, match=f"cannot listen at {door}: {why}"), DaemonThread(config):
            pass
    for door in ("tcp:127.0.0.1:0", "unix:", "pipe:x", "folder"):
        with pytest.raises(DaemonError, match="is not a door"):
            Daemon(DaemonConfig(nodes=("n1",), state_dir=folder / "state", doors=(door,)))
    assert (folder / "file").exists()


def test_a_socket_that_a_killed_scheduler_left_is_replaced(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / "door"))
    config = DaemonConfig(nodes=("n1",), state_dir=folder / "state", doors=(f"unix:{folder}/door",))
    with DaemonThread(config) as daemon:
        assert at(daemon.doors[0]).snapshot().jobs == ()
        again = DaemonConfig(nodes=("n1",), state_dir=folder / "other", doors=config.doors)
        with pytest.raises(DaemonError, match="it is there already"), DaemonThread(again):
            pass
        assert at(daemon.doors[0]).snapshot().jobs == ()


def test_a_socket_whose_owner_is_busy_is_left_alone(folder: Path) -> None:
    config = DaemonConfig(nodes=("n1",), state_dir=folder / "state", doors=(f"unix:{folder}/door",))
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as caller:
        busy.bind(str(folder / "door"))
        busy.listen(0)
        caller.connect(str(folder / "door"))  # the queue of callers is full: another one would wait
        with pytest.raises(DaemonError, match="it is there already"), DaemonThread(config):
            pass
    assert (folder / "door").exists()


def test_a_door_that_fails_leaves_no_socket(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, mode: int) -> None:
        raise PermissionError(1, "not permitted")

    config = DaemonConfig(nodes=("n1",), state_dir=folder / "state", doors=(f"unix:{folder}/door",))
    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(DaemonError, match="not permitted"), DaemonThread(config):
        pass
    assert not (folder / "door").exists()


def test_doors_read_as_they_are_written() -> None:
    assert str(Door.parse("unix:/run/malleable.sock")) == "unix:/run/malleable.sock"


def test_a_port_is_no_door() -> None:
    with pytest.raises(DaemonError, match="takes no users by TCP") as refused:
        Door.parse("tcp:10.0.0.1:7077")
    assert "ssh HOST malleable" in refused.value.hint
