"""The commands of the how-to on workloads work as printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from support import ROOT

from scheduler_bridge.cli.app import run

HOW_TO = ROOT / "docs" / "how-to" / "simulate-a-workload.md"


def test_the_commands_of_the_how_to_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = HOW_TO.read_text(encoding="utf-8")
    (mine,) = re.findall(r"^```toml\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    Path("mine.toml").write_text(mine)
    printed = [line for line in text.splitlines() if line.startswith("malleable ")]
    # comparing takes a minute, and has tests of its own
    without_traces = [line for line in printed if re.search(r"lublin|generate$", line) and " compare " not in line]
    assert len(without_traces) >= 6
    for line in [*without_traces, "malleable workload stats mine.toml"]:
        assert run(shlex.split(line)[1:]) == 0, capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} >= {"lublin.swf", "lublin.png", "week.png", "lublin-60.swf"}
