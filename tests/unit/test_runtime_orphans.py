"""Processes that must not outlive the one that they depend on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support import PATIENCE_S

from apgas.runtime import environment

WAITS = "import signal; signal.pause()"
PLACE = """
from apgas.runtime import environment
environment.end_with_parent()
print("up", flush=True)
import signal
signal.pause()
"""
MANAGER = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.DEVNULL)
sys.stdin.read(1)
os.kill(os.getpid(), 9)
"""


def test_a_place_ends_with_its_process_manager_and_removes_its_folder(tmp_path: Path) -> None:
    session = tmp_path / "ompi.4711"
    (session / "1").mkdir(parents=True)
    env = {**os.environ, "PMIX_SERVER_TMPDIR": str(session), "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", MANAGER, PLACE]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as manager:
        assert manager.stdin is not None
        assert manager.stdout is not None
        assert manager.stdout.readline() == "up\n"
        manager.stdin.write("x")
        manager.stdin.close()
        # the other end of the pipe closes when the orphan has ended, too
        assert manager.stdout.read() == ""
    assert manager.returncode == -signal.SIGKILL
    assert not session.exists()


@pytest.mark.parametrize("name", ["/precious", "precious", "", "ompi.1"])
def test_only_the_folder_of_a_process_manager_is_removed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / (name.strip("/") or "empty")
    folder.mkdir()
    environment._remove_session(f"{tmp_path}{name}" if name.startswith("/") else name)
    assert folder.exists()


@pytest.mark.parametrize("grace_s", [0.0, 0.05])
def test_wards_are_killed_and_those_that_ended_are_forgotten(grace_s: float) -> None:
    lives, ended = (subprocess.Popen([sys.executable, "-c", code]) for code in (WAITS, ""))
    dependents = environment.Dependents()
    dependents.add([lives.pid, ended.pid], grace_s)
    ended.wait()
    before = len(list(Path("/proc/self/fd").iterdir()))
    dependents.add([], grace_s)
    assert len(list(Path("/proc/self/fd").iterdir())) == before - 1
    dependents.kill()
    assert lives.wait(PATIENCE_S) == -signal.SIGKILL
    dependents.kill()


def test_processes_are_awaited_and_those_that_still_run_are_named() -> None:
    lives, ends = (subprocess.Popen([sys.executable, "-c", code]) for code in (WAITS, ""))
    held = environment.Processes()
    held.hold([lives.pid, ends.pid])
    ends.wait()
    held.hold([ends.pid])  # it has no number any more
    assert held.running() == [lives.pid]
    threading.Timer(0.05, lives.kill).start()
    assert held.running(PATIENCE_S) == []
    lives.wait()
