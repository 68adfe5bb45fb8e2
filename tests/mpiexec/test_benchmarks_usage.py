"""Bad usage ends every place with 2 and one clear message; help is printed once, without starting places."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
MPIEXEC = Path(sys.executable).with_name("mpiexec")
NAMES = ("uts", "nqueens", "bc", "pi", "synthetic")


def run(places: int, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a benchmark to its end."""
    return subprocess.run(
        [str(MPIEXEC), "-n", str(places), sys.executable, "-m", f"benchmarks.{name}", *arguments],
        cwd=ROOT,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "arguments", "culprit"),
    [
        ("uts", "--depth -1", "--depth -1"),
        ("nqueens", "-n 0", "-n 0"),
        ("bc", "--scale 0", "--scale 0"),
        ("bc", "--graph missing.txt", "--graph missing.txt"),
        ("bc", "--graph tests/mpiexec/test_benchmarks_usage.py", 'test_benchmarks_usage.py:1: """Bad'),
        ("bc", "--graph README.md --scale 3", "--graph README.md --scale 3"),
        ("bc", "--scale 3 --directed", "--directed"),
        ("bc", "--scale 3 --output missing/scores.csv", "--output missing/scores.csv"),
        ("pi", "--samples 0", "--samples 0"),
        ("synthetic", "--distribution normal", "--distribution normal"),
        ("pi", "--frobnicate", "--frobnicate"),
        ("pi", "--workers 0", "--workers 0"),
        ("pi", "--orders 1:+0", '--orders "1:+0"'),
        ("pi", "--json missing/result.json", "--json missing/result.json"),
    ],
)
def test_bad_usage_is_refused_once(name: str, arguments: str, culprit: str) -> None:
    job = run(2, name, *arguments.split())
    assert job.returncode == 2, job.stderr
    lines = job.stderr.splitlines()
    assert len(lines) == 3, job.stderr
    assert culprit in lines[0]
    assert job.stdout == ""


@pytest.mark.parametrize("name", NAMES)
def test_help_is_printed_once(name: str) -> None:
    job = run(3, name, "--help")
    assert (job.returncode, job.stderr) == (0, "")
    assert job.stdout.count("Usage:") == 1
    assert f"Example: mpiexec -n 4 python -m benchmarks.{name}" in job.stdout
    for option in ("--workers", "--orders", "--json", "--rate", "--on-scheduler-loss"):
        assert option in job.stdout


def test_printed_lines_tell_their_place() -> None:
    done = run(1, "pi", "--samples", "1e6", "--tag-output")
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert all(line.startswith("[place 0] ") for line in done.stdout.splitlines()), done.stdout
