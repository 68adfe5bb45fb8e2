"""Processes that carry a mark are found, whatever they do just then."""

from __future__ import annotations

import signal
import subprocess
import uuid

import pytest

from scheduler_bridge.jobrunner import processes


def test_a_process_that_begins_another_program_just_now_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no variables then, and went on."""
    mark = uuid.uuid4().hex
    looks = 0

    def at_first_none(pid: int) -> list[str]:
        nonlocal looks
        looks += pid == child.pid
        return [] if looks == 1 and pid == child.pid else environment(pid)

    environment = processes.environment
    with subprocess.Popen(["sleep", "600"], env={processes.ENV_MARK: mark}) as child:
        monkeypatch.setattr(processes, "environment", at_first_none)
        try:
            assert processes.end_marked(mark, 0.0) == []
            assert child.wait(60) == -signal.SIGKILL
        finally:
            child.kill()
