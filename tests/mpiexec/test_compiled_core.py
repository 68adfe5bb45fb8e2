"""The scheduler's core and the simulator as machine code: they decide as they do as Python, and pass the same tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S, ROOT

HERE = Path(__file__).parent
COMPILED = Path(f"{sys.prefix}-compiled") / "bin" / "python"
TESTS = (
    "property/test_policies_hold.py",
    "simulation/test_bridge_crashes.py",
    "simulation/test_policies_oracle.py",
    "simulation/test_scheduler_view.py",
    "unit/test_scheduler_core.py",
    "unit/test_scheduler_invariants.py",
    "unit/test_scheduler_sharing.py",
)


@pytest.fixture(scope="module", autouse=True)
def fresh() -> None:
    """Skips the tests where nothing is compiled, or other code than this, unless MALLEABLE_REQUIRE_COMPILED is set."""
    look = "import pathlib, sys, setup_venv as s; sys.exit(not s.is_ready(pathlib.Path(sys.argv[1]), 'all', True))"
    launch = {**os.environ, "PYTHONPATH": str(ROOT / "launch")}
    if subprocess.run([sys.executable, "-c", look, str(COMPILED.parent.parent)], env=launch, check=False).returncode:
        why = f"nothing compiled of this code in {COMPILED.parent.parent}: python3 launch/setup_venv.py compiled"
        if os.environ.get("MALLEABLE_REQUIRE_COMPILED"):
            pytest.fail(why)
        pytest.skip(why)


def decisions(python: Path | str, **variables: str) -> dict[str, Any]:
    done = subprocess.run(
        [python, HERE / "programs" / "decisions.py"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_machine_code_decides_as_python_does_under_every_policy() -> None:
    compiled, plain = decisions(COMPILED), decisions(sys.executable, PYTHONPATH=str(ROOT))
    assert all(file.endswith(".so") for file in compiled["files"]), compiled["files"]
    assert all(file.endswith(".py") for file in plain["files"]), plain["files"]
    assert len(plain["digests"]) > 10
    assert compiled["digests"] == plain["digests"]


def test_machine_code_passes_the_tests_of_the_core() -> None:
    """Those that plant defects cannot be among them: machine code cannot be patched while it runs."""
    (site,) = COMPILED.parent.parent.glob("lib/python*/site-packages")
    done = subprocess.run(
        [
            *(Path(sys.executable).with_name("pytest"), "-q", "-p", "no:cacheprovider"),
            *("-o", f"pythonpath={ROOT / 'tests'} {ROOT / 'docs' / 'examples'}", "--rootdir", ROOT),
            *(ROOT / "tests" / path for path in TESTS),
        ],
        env={**os.environ, "PYTHONPATH": str(site)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
