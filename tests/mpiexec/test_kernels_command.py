"""The command ``python -m benchmarks.kernels`` as users start it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import PATIENCE_S


def start(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.kernels", *arguments]
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE_S, check=False)


def test_a_quick_run_measures_and_leaves_nothing_behind(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    result, picture = tmp_path / "kernels.json", tmp_path / "kernels.png"
    options = ("--quick", "--rounds", "1", "--measures", "uts,nqueens,pi")
    done = start(*options, "--json", str(result), "--figure", str(picture), folder=scratch)
    assert done.returncode == 0, done.stderr
    content = json.loads(result.read_text())
    assert content["ended"] is True
    assert content["provenance"]["cpu"]
    assert {"python", "numba"} <= content["provenance"]["versions"].keys()
    assert [(line["measure"], line["medians"]["ours"] > 0) for line in content["lines"]] == [
        ("uts", True),
        ("uts", True),
        ("nqueens", True),
        ("pi", True),
    ]
    assert picture.stat().st_size > 10_000
    assert "N-Queens, N=14" in done.stdout
    assert list(scratch.iterdir()) == []


def test_bad_usage_is_reported(tmp_path: Path) -> None:
    done = start("--measures", "go", folder=tmp_path)
    assert done.returncode == 2
    assert "--measures go" in done.stderr
