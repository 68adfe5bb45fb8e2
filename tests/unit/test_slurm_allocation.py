"""An allocation that grows and shrinks, with commands of Slurm's that stand in for the real ones."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from support import PATIENCE_S

from scheduler_bridge.backends.slurm import Allocation, Harvest, JobInfo, Slurm, SlurmError, read_loans
from scheduler_bridge.backends.slurm.driver import CALL_S, Reach
from scheduler_bridge.backends.slurm.lease import WITNESS, Leases

SCONTROL = r"""#!/usr/bin/env python3
import os, sys, time
folder = os.path.dirname(sys.argv[0])
line = " ".join(sys.argv[1:])
with open(folder + "/log", "a") as log: print("scontrol", line, file=log)
if line.startswith("show job") and os.path.exists(folder + "/away"): os.execvp("sleep", ["sleep", "600"])
elif line == "--version": print("slurm-wlm 24.11.5")
elif line == "show config": print("AuthType = auth/slurm")
elif line.startswith("show job"):
    job = int(sys.argv[3])
    nodes = {1: "a,b", 2: "c", 3: "d", 9: ""}.get(job)
    over = os.path.exists(f"{folder}/over-{job}")
    state = "PENDING" if job == 9 else "COMPLETED" if over else "RUNNING"
    if nodes is None: sys.exit("slurm_load_jobs error: Invalid job id specified")
    date = lambda time_s: time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time_s))
    print(f"JobId={job} JobName=j")
    print(f"   JobState={state} Reason=AssocGrpNodeLimit Dependency=(null)")
    print(f"   StartTime={date(1000 + job)} EndTime={date(2000) if over else 'Unknown'} Deadline=N/A")
    print(f"   NodeList={nodes}")
    print("   BatchHost=a")
elif os.path.exists(folder + "/refuse"): sys.exit("scontrol: error: it is not allowed")
"""
SBATCH = r"""#!/usr/bin/env python3
import os, subprocess, sys
folder = os.path.dirname(sys.argv[0])
with open(folder + "/log", "a") as log: print("sbatch", *sys.argv[1:], file=log)
with open(folder + "/free") as file: free = file.read().split()
if not free: sys.exit("sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: busy")
with open(folder + "/free", "w") as file: print(*free[1:], file=file)
if free[0] != "9":
    with open(folder + "/script-" + free[0], "w") as file: file.write(sys.stdin.read())
    subprocess.Popen(
        ["/bin/sh", "-c", f"/bin/sh {folder}/script-{free[0]}; echo $? > {folder}/over-{free[0]}"],
        env={**os.environ, "SLURM_JOB_ID": free[0]}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
print(free[0])
"""
SINFO = """#!/bin/sh
case "$*" in *%l) echo 1:30:00 ;; *) printf '%s\\n' 'c|idle|none' 'd|idle|none' 'e|idle*|none' 'f|mixed|none' ;; esac
"""
SRUN = """#!/bin/sh
while :; do case $1 in -*) shift ;; *) exec "$@" ;; esac; done
"""
OTHER = """#!/bin/sh
echo "$(basename $0) $*" >> "$(dirname $0)/log"
if [ "$(basename $0)" = squeue ] && [ -e "$(dirname $0)/busy" ]; then rm "$(dirname $0)/busy"; echo '1.0|b'; fi
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of commands; `free` has the numbers of the jobs that sbatch will make; 9 gets no node."""
    for name, text in {"scontrol": SCONTROL, "sbatch": SBATCH, "scancel": OTHER, "squeue": OTHER}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "free").write_text("2 3", encoding="utf-8")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def log(tools: Path, command: str) -> list[str]:
    lines = (tools / "log").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith(command)]


def test_it_grows_and_gives_back(tools: Path) -> None:
    allocation = Allocation(Slurm(), 1, books=tools / "books")
    assert allocation.grow(2, PATIENCE_S) == ("c", "d")
    (tools / "busy").touch()  # a step on b that ends while we wait
    allocation.give_back(["d", "b"])
    assert allocation.holdings.nodes == ("a", "c")
    assert not log(tools, "scancel")  # it ends by itself
    assert (tools / "over-3").read_text(encoding="utf-8") == "0\n"
    assert log(tools, "scontrol update") == ["scontrol update JobId=1 NodeList=a"]
    assert len(log(tools, "squeue")) == 2
    allocation.close()
    assert not log(tools, "scancel")  # none waits for a node
    lines = [json.loads(line) for line in (tools / "books").read_text(encoding="utf-8").splitlines()]
    assert lines[:2] == [
        {"companion": 2, "node": "c", "from_s": 1002.0},
        {"companion": 3, "node": "d", "from_s": 1003.0},
    ]
    assert lines[2].keys() == {"companion", "left_s"}
    assert lines[3] == {"companion": 3, "to_s": 2000.0}
    assert not any(loan.lost for loan in read_loans(tools / "books"))
    assert lines[-1] == {"companion": 2, "to_s": 2000.0}


def test_all_nodes_or_none_and_the_limit_is_named(tools: Path) -> None:
    allocation = Allocation(Slurm(), 1)
    with pytest.raises(SlurmError, match=r"Slurm gives no node: Batch.*busy: QOSMaxSubmitJobPerUserLimit \(a limit of"):
        allocation.grow(3, PATIENCE_S)
    assert allocation.holdings.nodes == ("a", "b")
    (tools / "free").write_text("2 9", encoding="utf-8")
    (tools / "over-2").unlink(missing_ok=True)
    with pytest.raises(SlurmError, match=r"gives no node: AssocGrpNodeLimit \(a limit of the account or of its user\)"):
        allocation.grow(2, 1.0)
    assert allocation.holdings.nodes == ("a", "b")
    assert "scancel 9" in log(tools, "scancel")
    allocation.close()


def test_harvested_nodes_are_asked_for_elsewhere_and_a_warning_comes_through(tools: Path) -> None:
    """The witness is a step that srun starts; TERM to its process is what it hears."""
    (tools / "srun").write_text(SRUN, encoding="utf-8")
    (tools / "sinfo").write_text(SINFO, encoding="utf-8")
    for name in ("srun", "sinfo"):
        (tools / name).chmod(0o755)
    warned: list[str] = []
    harvest = Harvest("spare", "low")
    allocation = Allocation(Slurm(), 1, books=tools / "books", harvest=harvest)
    allocation.listen(lambda node, words: warned.extend((node, words)))
    assert allocation.idle() == 2
    assert allocation.grow(3, PATIENCE_S, at_least=1) == ("c", "d")
    assert "--partition=spare --qos=low" in log(tools, "sbatch")[0]
    assert log(tools, "sbatch")[0].endswith(" --time=90")
    one, other = witnesses(tools)  # before that a warning would not be heard
    os.kill(one, signal.SIGKILL)  # as srun may fail
    until(lambda: one not in witnesses(tools) and len(witnesses(tools)) == 2)
    (one,) = (pid for pid in witnesses(tools) if pid != other)
    assert not warned
    os.kill(one, signal.SIGTERM)
    until(lambda: len(warned) == 2)
    assert warned[0] in ("c", "d")
    assert warned[1] == "Slurm takes it back"
    allocation.leave(warned[0])
    assert len(allocation.holdings.companions) == 1
    allocation.close()
    os.kill(other, signal.SIGTERM)  # as Slurm does when the script of a job has ended
    until(lambda: not witnesses(tools))
    loans = {loan.node: loan for loan in read_loans(tools / "books")}
    assert loans[warned[0]].warned_s is not None
    assert not any(loan.lost for loan in loans.values())


def test_a_companion_that_ends_before_its_node_is_known_costs_that_node(tools: Path) -> None:
    """It was lent all the same, and never left the allocation, for Slurm cancels no job that has ended."""
    recalled: list[tuple[str, str]] = []

    class Ending(Slurm):
        def job(self, number: int, within_s: float = CALL_S) -> JobInfo:
            info = super().job(number, within_s)
            if number == 2 and (leases := allocation._leases) is not None and number in leases._held:
                leases._held[number].shutdown(socket.SHUT_RDWR)  # as if it was cancelled just now
                until(lambda: not any(thread.name == "lease" for thread in threading.enumerate()))
            return info

    allocation = Allocation(Ending(), 1, books=tools / "books")
    allocation.listen(lambda node, words: recalled.append((node, words)))
    assert allocation.grow(1, PATIENCE_S) == ("c",)
    assert recalled == [("c", "Slurm has taken it back")]
    allocation.give_back(["c"])
    assert allocation.holdings.nodes == ("a", "b")
    assert not log(tools, "scancel")
    allocation.close()


def test_it_ends_while_slurm_looks_for_a_node(tools: Path) -> None:
    (tools / "free").write_text("9", encoding="utf-8")
    allocation = Allocation(Slurm(), 1)
    with ThreadPoolExecutor(1) as pool:
        growing = pool.submit(allocation.grow, 1, 10 * PATIENCE_S)
        until = time.monotonic() + PATIENCE_S
        while (tools / "free").read_text(encoding="utf-8").split() and time.monotonic() < until:
            time.sleep(0.01)
        allocation.close()
        with pytest.raises(SlurmError, match="job 1 is ending"):
            growing.result()
    assert "scancel 9" in log(tools, "scancel")


def test_the_end_waits_for_no_slurmctld_that_is_away(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took 15 s for each companion job, and as much again, twice."""
    monkeypatch.setattr("scheduler_bridge.backends.slurm.allocation._ENDS_S", 0.5)
    allocation = Allocation(Slurm(), 1, books=tools / "books")
    allocation.grow(2, PATIENCE_S)
    asked = len(log(tools, "scontrol show job"))
    (tools / "away").touch()
    before_s = time.time()
    allocation.close()
    allocation.close()
    assert len(log(tools, "scontrol show job")) <= asked + 1
    assert not log(tools, "scancel")
    for loan in read_loans(tools / "books"):
        until_over(tools, loan.companion)
        assert loan.to_s is not None
        assert before_s <= loan.to_s <= time.time()


def test_a_job_that_was_perhaps_asked_for_is_cancelled_at_the_end(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allocation = Allocation(Slurm(), 1)
    (tools / "sbatch").write_text("#!/bin/sh\nexec sleep 600\n", encoding="utf-8")
    with monkeypatch.context() as impatient:
        impatient.setattr("scheduler_bridge.backends.slurm.driver.CALL_S", 0.5)
        with pytest.raises(SlurmError, match=r"sbatch has not answered within 0\.5 s"):
            allocation.grow(1, PATIENCE_S)
    allocation.close()
    (line,) = log(tools, "scancel")
    assert line.startswith("scancel --name=malleable-1 --user=")
    assert line.endswith(" --state=PENDING")


def test_the_loans_of_a_process_that_was_killed_end_when_slurm_says(tools: Path) -> None:
    """The companion jobs have ended with it; one that waits for a node is cancelled."""
    entry = {"companion": 2, "node": "c", "from_s": 1002.0}
    (tools / "books").write_text(json.dumps(entry) + "\n", encoding="utf-8")
    (tools / "over-2").write_text("1\n", encoding="utf-8")
    allocation = Allocation(Slurm(), 1, books=tools / "books")
    assert [(loan.to_s, loan.lost) for loan in read_loans(tools / "books")] == [(2000.0, True)]
    assert [line.split()[-1] for line in log(tools, "scancel")] == ["--state=PENDING"]
    allocation.close()
    assert len(log(tools, "scancel")) == 1


def test_a_companion_ends_with_its_lease(tools: Path) -> None:
    """However the borrower ends: it need not cancel anything, and one that starts too late is not let in."""
    held, strange = Leases(lambda _: None), Leases(lambda _: None)
    job = held.ask(lambda: Slurm().submit(("sbatch",), held.script(("127.0.0.1",))))
    assert held.wait(job, PATIENCE_S)
    # what the kernel does with the sockets of a process that is killed
    held._held[job].shutdown(socket.SHUT_RDWR)
    until_over(tools, job)
    assert strange.ask(lambda: 5) == 5
    late = Slurm().submit(("sbatch",), strange.script(("127.0.0.1",)))
    until_over(tools, late)
    assert not strange.wait(late, 0.0)
    assert [(tools / f"over-{number}").read_text(encoding="utf-8") for number in (job, late)] == ["1\n", "1\n"]
    held.close()
    strange.close()


def until_over(tools: Path, job: int) -> None:
    until(lambda: (tools / f"over-{job}").exists() and bool((tools / f"over-{job}").read_text(encoding="utf-8")))


def until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def witnesses(tools: Path) -> list[int]:
    """The processes that wait for TERM."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            caught = int(re.findall(r"SigCgt:\s*(\w+)", (folder / "status").read_text())[0], 16)
            words, environ = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
            if WITNESS.encode() in words and str(tools).encode() in environ and caught >> (signal.SIGTERM - 1) & 1:
                found.append(int(folder.name))
    return found


def test_expansion_needs_permission(tools: Path) -> None:
    with pytest.raises(SlurmError, match="no permit_job_expansion") as caught:
        Allocation(Slurm(), 1, "expand")
    assert "companion" in caught.value.hint


def test_what_slurm_refuses_is_reported(tools: Path) -> None:
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
    allocation.grow(1, PATIENCE_S)
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
    allocation.close()
