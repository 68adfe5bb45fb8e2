"""An allocation that grows and shrinks, with commands of Slurm's that stand in for the real ones."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from support import PATIENCE_S

from scheduler_bridge.backends.slurm import Allocation, Slurm, SlurmError
from scheduler_bridge.backends.slurm.driver import Reach

SCONTROL = r"""#!/usr/bin/env python3
import json, os, sys
folder = os.path.dirname(sys.argv[0])
line = " ".join(sys.argv[1:])
with open(folder + "/log", "a") as log: print("scontrol", line, file=log)
if line == "--version": print("slurm-wlm 24.11.5")
elif line == "show config": print("AuthType = auth/slurm")
elif line.startswith("show job"):
    job = int(sys.argv[3])
    nodes = {1: "a,b", 2: "c", 3: "d"}.get(job)
    told = {"job_id": job, "job_state": ["RUNNING"], "nodes": nodes, "batch_host": "a", "end_time": 0}
    print(json.dumps({"jobs": [told] if nodes else []}))
elif os.path.exists(folder + "/refuse"): sys.exit("scontrol: error: it is not allowed")
"""
SALLOC = r"""#!/usr/bin/env python3
import os, sys, time
folder = os.path.dirname(sys.argv[0])
with open(folder + "/log", "a") as log: print("salloc", *sys.argv[1:], file=log)
with open(folder + "/free") as file: free = file.read().split()
if not free: sys.exit("salloc: Pending job allocation 9\nsalloc: error: Unable to allocate resources: busy")
with open(folder + "/free", "w") as file: print(*free[1:], file=file)
if free[0] == "hang":
    print("salloc: Pending job allocation 9", file=sys.stderr, flush=True)
    time.sleep(600)
print("salloc: Granted job allocation", free[0], file=sys.stderr)
"""
OTHER = """#!/bin/sh
echo "$(basename $0) $*" >> "$(dirname $0)/log"
if [ "$(basename $0)" = squeue ] && [ -e "$(dirname $0)/busy" ]; then rm "$(dirname $0)/busy"; echo '1.0|b'; fi
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of commands; `free` has the numbers of the jobs that salloc will make."""
    for name, text in {"scontrol": SCONTROL, "salloc": SALLOC, "scancel": OTHER, "squeue": OTHER}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "free").write_text("2 3", encoding="utf-8")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def log(tools: Path, command: str) -> list[str]:
    lines = (tools / "log").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith(command)]


def test_it_grows_and_gives_back(tools: Path) -> None:
    allocation = Allocation(Slurm(), 1)
    assert allocation.grow(2, 5.0) == ("c", "d")
    (tools / "busy").touch()  # a step on b that ends while we wait
    allocation.give_back(["d", "b"])
    assert allocation.holdings.nodes == ("a", "c")
    assert log(tools, "scancel") == ["scancel 3"]
    assert log(tools, "scontrol update") == ["scontrol update JobId=1 NodeList=a"]
    assert len(log(tools, "squeue")) == 2
    allocation.close()
    assert log(tools, "scancel")[-1].startswith("scancel --name=malleable-1 --user=")


def test_all_nodes_or_none(tools: Path) -> None:
    allocation = Allocation(Slurm(), 1)
    with pytest.raises(SlurmError, match="Slurm gives no node: Unable to allocate resources: busy"):
        allocation.grow(3, 5.0)
    assert allocation.holdings.nodes == ("a", "b")
    # the request that waited, and both companions
    assert sorted(log(tools, "scancel")) == ["scancel 2", "scancel 3", "scancel 9"]


def test_it_ends_while_slurm_looks_for_a_node(tools: Path) -> None:
    import threading

    (tools / "free").write_text("hang", encoding="utf-8")
    allocation = Allocation(Slurm(), 1)
    errors: list[BaseException] = []

    def grow() -> None:
        try:
            allocation.grow(1, 300.0)
        except SlurmError as error:
            errors.append(error)

    thread = threading.Thread(target=grow)
    thread.start()
    until = time.monotonic() + PATIENCE_S
    while not (tools / "log").exists() or not log(tools, "salloc"):
        assert time.monotonic() < until
        time.sleep(0.01)
    while (tools / "free").read_text(encoding="utf-8").split():
        assert time.monotonic() < until
        time.sleep(0.01)
    allocation.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert "Slurm gives no node" in str(errors)


def test_expansion_needs_permission(tools: Path) -> None:
    with pytest.raises(SlurmError, match="no permit_job_expansion") as caught:
        Allocation(Slurm(), 1, "expand")
    assert "companion" in caught.value.hint


def test_what_slurm_refuses_is_told(tools: Path) -> None:
    allocation = Allocation(Slurm(), 1)
    (tools / "refuse").touch()
    with pytest.raises(SlurmError, match="NodeList=a: it is not allowed"):
        allocation.give_back(["b"])
    assert allocation.holdings.nodes == ("a", "b")
    with pytest.raises(SlurmError, match="cannot be given back"):
        allocation.give_back(["a"])
    with pytest.raises(SlurmError, match="knows no job 4"):
        Allocation(Slurm(), 4)


def test_without_slurm_the_missing_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SlurmError, match="no scontrol in PATH"):
        Slurm().limits()


def test_the_stand_in_for_ssh_calls_srun_for_the_job_that_the_node_belongs_to(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import subprocess

    (tools / "srun").write_text('#!/bin/sh\necho "$@"; env | grep -c ^SLURM_\n', encoding="utf-8")
    (tools / "srun").chmod(0o755)
    reach = Reach(tools)
    reach.write()
    allocation = Allocation(Slurm(), 1, changed=reach.know_owners)
    allocation.grow(1, 5.0)
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    for node, job in (("b", 1), ("c", 2)):
        command = [str(reach.program), "-o", "BatchMode=yes", "-x", node, "echo", "'a", "b'"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        words, kept = done.stdout.splitlines()
        assert words.startswith(f"--jobid={job} --nodelist={node} --nodes=1 --ntasks=1 --overlap")
        assert words.endswith("/bin/sh -c exec echo 'a b'")
        assert kept == "1"
    stranger = subprocess.run([str(reach.program), "z", "true"], capture_output=True, text=True, check=False)
    assert (stranger.returncode, stranger.stderr) == (255, "z is not a node of this job\n")
