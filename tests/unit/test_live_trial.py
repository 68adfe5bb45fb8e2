"""Trials of benchmarks: where their document goes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from scheduler_bridge.daemon.trial import run_benchmark


def test_a_relative_folder_is_that_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], cwd: Path, **_: Any) -> subprocess.CompletedProcess[str]:
        target = Path.cwd() / cwd / command[command.index("--json") + 1]
        target.write_text('{"verified": true, "seconds": 1.0, "tasks": 2}', encoding="utf-8")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.chdir(tmp_path)
    Path("kept").mkdir()
    document = run_benchmark("pi", ["--samples", "10"], Path("kept/pi.json"), {})
    assert document["tasks"] == 2
