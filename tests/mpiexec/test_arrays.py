"""Arrays of real places."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support import ROOT, Leftovers, start_job

pytestmark = pytest.mark.essential

EXAMPLES = ROOT / "docs" / "examples"
HEATED = ROOT / "tests" / "mpiexec" / "programs" / "heated.py"


def test_rows_follow_real_places(leftovers: Leftovers) -> None:
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "apgas.launch",
        "-n",
        "2",
        sys.executable,
        HEATED,
        "0:+2,0:-3,0:+1",
    ]
    with start_job(command) as job:
        done = job.wait()
    leftovers.check(done.mark)
    assert (done.rc, done.out, done.err) == (0, "2 4 1 2 True done done done\n", "")


def test_it_has_hardly_more_lines() -> None:
    lines = [
        len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) for name in ("jacobi.py", "jacobi_rigid.py")
    ]
    assert lines[0] <= lines[1] + 20
