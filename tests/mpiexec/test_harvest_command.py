"""``python -m benchmarks.harvest`` with a real Slurm."""

from __future__ import annotations

import json
from pathlib import Path

from support import python_run
from support.hosts import CLUSTER
from support.slurm import need_slurm


def test_nodes_are_taken_back_and_the_result_is_exact(tmp_path: Path) -> None:
    need_slurm()
    result, figure = tmp_path / "found.json", tmp_path / "found.png"
    command = ("python", "-m", "benchmarks.harvest", "--nodes", "4", "--preemptions", "3")
    files = ("--json", str(result), "--figure", str(figure))
    job = python_run([CLUSTER, "--slurm", "--preemption", "--", *command, *files])
    assert job.rc == 0, job.out + job.err
    found = json.loads(result.read_text(encoding="utf-8"))
    assert found["summary"]["exact"]
    assert found["summary"]["preemptions"] >= 3
    assert figure.stat().st_size > 10_000


def test_without_slurm_the_command_says_where_there_is_one() -> None:
    job = python_run(["-m", "benchmarks.harvest"])
    assert job.rc == 2
    assert "there is no Slurm here" in job.err
