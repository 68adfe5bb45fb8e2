"""The commands for Slurm, with commands of Slurm's that stand in for the real ones."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from scheduler_bridge.cli.app import run

SCONTROL = """#!/bin/sh
case "$*" in
  --version) echo slurm-wlm 24.11.5 ;;
  "show config") echo AuthType = auth/slurm ;;
  "show job 7") cat "$(dirname "$0")/job" ;;
  *) echo slurm_load_jobs error: Invalid job id specified >&2; exit 1 ;;
esac
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of commands; job 7 runs on three hosts."""
    (tmp_path / "scontrol").write_text(SCONTROL, encoding="utf-8")
    (tmp_path / "scontrol").chmod(0o755)
    become(tmp_path, "RUNNING")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("MALLEABLE_STATE", "/shared/state")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    return tmp_path


def become(site: Path, state: str) -> None:
    job = f"JobId=7 JobName=j\n   JobState={state} Reason=None\n   NodeList=a,b[1-2]\n   BatchHost=b1\n"
    (site / "job").write_text(job, encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "state", "words"),
    [
        (["resize", "7", "--grow", "2"], "/shared/state", ["resize", "7", "--grow=2"]),
        (["resize", "--shrink=1", "--state", "/s", "7"], "/s", ["resize", "7", "--shrink=1"]),
        (["at", "7", "queue", "--json"], "/shared/state", ["queue", "--json"]),
        (["at", "7", "queue", "--state", "/s"], "/shared/state", ["queue", "--state", "/s"]),
        (["at", "--state", "/s", "7", "reserve", "list"], "/s", ["reserve", "list"]),
        (["at", "7", "--", "submit", "--", "p", "--x"], "/shared/state", ["submit", "--", "p", "--x"]),
    ],
)
def test_commands_go_to_the_batch_host(
    site: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], state: str, words: list[str]
) -> None:
    became: list[str] = []
    variables: dict[str, str] = {}

    def become_it(_program: str, there: list[str], environment: dict[str, str]) -> None:
        became.extend(there)
        variables.update(environment)

    monkeypatch.setattr(os, "execvpe", become_it)
    assert run(["slurm", *arguments]) == 0
    assert became[:3] == ["srun", "--jobid=7", "--nodelist=b1"]
    python = became.index(sys.executable)
    assert became[python + 1 :] == ["-m", "scheduler_bridge.cli", *words]
    assert variables["MALLEABLE_STATE"] == state


def test_the_host_of_the_batch_script_is_the_first(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["slurm", "hosts", "--job", "7", "--places", "2"]) == 0
    assert capsys.readouterr().out.split() == ["b1:2", "a:2", "b2:2"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["run", "--", "true"], "this is no allocation of Slurm: SLURM_JOB_ID is not set"),
        (["hosts"], "this is no allocation of Slurm"),
        (["run", "--grow-by", "magic", "true"], "--grow-by magic"),
        (["run", "--max-nodes", "1", "--min-nodes", "2", "true"], "--max-nodes 1 is below --min-nodes 2"),
        (["resize", "7"], "resize needs a direction"),
        (["at", "8", "queue"], "Slurm knows no job 8"),
    ],
)
def test_what_cannot_be_is_said(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], why: str
) -> None:
    if "--grow-by" in arguments or "--max-nodes" in arguments:
        monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert run(["slurm", *arguments]) != 0
    assert why in capsys.readouterr().err


def test_a_job_that_is_over_is_not_asked(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    become(site, "COMPLETED")
    assert run(["slurm", "at", "7", "queue"]) == 2
    assert "job 7 does not run" in capsys.readouterr().err


def test_the_doctor_tells_what_this_slurm_allows(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("apgas.doctor.CHECKS", ())
    assert run(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "ok    Slurm's limits    Slurm 24.11.5, auth/slurm; jobs grow by companion jobs" in printed
    assert printed.endswith("\n\neverything that is needed works\n")
    (site / "scontrol").write_text("#!/bin/sh\necho slurm: no controller >&2; exit 1\n", encoding="utf-8")
    assert run(["doctor"]) == 1
    said = capsys.readouterr()
    assert "FAIL  Slurm's limits    scontrol --version: no controller" in said.out
    assert "scontrol ping" in said.out
    assert said.out.endswith("\n\n1 of 3 checks failed\n")


def test_the_scheduler_takes_no_nodes_beside_those_of_slurm(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--backend", "slurm", "--nodes", "4"]) == 2
    assert "Slurm names them" in capsys.readouterr().err
