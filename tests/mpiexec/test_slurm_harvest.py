"""Nodes that Slurm takes back: from a real one, with a partition whose jobs are preempted."""

from __future__ import annotations

import datetime as dt
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import PATIENCE_S
from support.slurm import NEWEST, RELEASE, Cluster, need_slurm

from scheduler_bridge.backends.slurm import read_loans
from scheduler_bridge.backends.slurm.harvest import LOANS, Loan
from scheduler_bridge.daemon import JobRequest
from scheduler_bridge.daemon.control.client import ControlClient

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    if release := getattr(request, "param", ""):
        monkeypatch.setenv(RELEASE, release)
    need_slurm(demanded=not release)  # others may change the packages of the newest one, or remove them
    with Cluster(tmp_path, "--preemption") as cluster:
        yield cluster


@pytest.fixture
def centre(tmp_path: Path) -> Iterator[Cluster]:
    """One with qualities of service: jobs of ``normal`` preempt those of ``low``, which are requeued if they can be."""
    need_slurm()
    with Cluster(tmp_path, "--accounting") as cluster:
        for words in (
            "add qos low GraceTime=10 PreemptMode=requeue",
            "modify qos normal set Preempt=low",
            "modify user root set QosLevel+=low",
        ):
            cluster.run("sacctmgr", "--immediate", *words.split())
        modes = "s|^PreemptType=.*|PreemptType=preempt/qos|; s/^PreemptMode=.*/PreemptMode=REQUEUE/"
        cluster.run("sh", "-c", f"sed -i '{modes}' $SLURM_CONF && scontrol reconfigure")
        yield cluster


def start(cluster: Cluster, options: str = "--harvest spare --max-nodes 3") -> int:
    """A program on one node that harvests two more; returns the number of its Slurm job when it computes there."""
    uts = f"{sys.executable} {PROGRAMS / 'uts_again.py'} 1 {cluster.folder / 'end'}"
    run = f"malleable slurm run --harvest-every 0.5 {options}"
    job = cluster.submit(1, f"{run} -- {uts}; echo code $?")
    cluster.until_says(job, "up")
    return job


def loans(cluster: Cluster) -> list[Loan]:
    return list(read_loans(cluster.folder / "state" / LOANS))


def held(cluster: Cluster) -> list[str]:
    """The nodes that are lent now."""
    return [loan.node for loan in loans(cluster) if loan.to_s is None]


def end(cluster: Cluster, job: int) -> str:
    """Let the program end; return what it has said, its result and exit code among it."""
    (cluster.folder / "end").touch()
    said = cluster.until_over(job)
    assert "wrong counts [], on host1" in said
    assert said.endswith("code 0\n")
    return said


@pytest.mark.parametrize("cluster", ["", NEWEST], ids=["Slurm 24.11", "the newest Slurm"], indirect=True)
def test_a_node_is_left_before_it_is_taken_and_comes_back(cluster: Cluster) -> None:
    job = start(cluster)
    cluster.until(lambda: len(held(cluster)) == 2, "two nodes are lent")
    cluster.until_says(job, "Slurm gives")
    wanted = held(cluster)[0]
    other = cluster.submit(1, "sleep 600", f"--nodelist={wanted}")
    cluster.until(lambda: cluster.held().get(other) == (wanted,), "it has the node")
    assert [(loan.node, loan.lost) for loan in loans(cluster) if loan.warned_s is not None] == [(wanted, False)]
    # another one is idle, and takes its place
    cluster.until(lambda: len(held(cluster)) == 2, "two nodes are lent again")
    said = cluster.run("malleable", "slurm", "at", str(job), "explain", str(job))
    assert "taken back 1 node, 1 of them left within" in " ".join(said.split())
    cluster.run("scancel", str(other))
    end(cluster, job)
    assert not any(loan.lost for loan in loans(cluster))


@pytest.mark.parametrize("requeued", [False, True], ids=["ends", "could be requeued"])
def test_a_node_of_a_low_quality_of_service_is_left_before_it_is_taken(centre: Cluster, requeued: bool) -> None:
    job = start(centre, "--harvest-qos low --max-nodes 3")
    centre.until(lambda: len(held(centre)) == 2, "two nodes are lent")
    centre.until(lambda: "grew by 2" in explained(centre, job), "the program is there")
    lent = loans(centre)[0]
    if requeued:  # as a site may have it, and what its nodes do after each job takes time
        epilog = centre.folder / "epilog"
        epilog.write_text("#!/bin/sh\nsleep 2\n", encoding="utf-8")
        epilog.chmod(0o755)
        centre.run("sh", "-c", f"echo Epilog={epilog} >> $SLURM_CONF && scontrol reconfigure")
        centre.run("scontrol", "update", f"JobId={lent.companion}", "Requeue=1")
    other = centre.submit(1, "sleep 600", f"--nodelist={lent.node}")
    centre.until(lambda: centre.held().get(other) == (lent.node,), "it has the node")
    assert [(loan.node, loan.lost) for loan in loans(centre) if loan.warned_s is not None] == [(lent.node, False)]
    queued = ("squeue", "-h", "-o", "%i")
    centre.until(lambda: str(lent.companion) not in centre.run(*queued).split(), "it does not wait to come back")
    centre.run("scancel", str(other))
    end(centre, job)


def test_the_end_of_a_companions_time_is_heard_before_it_comes(cluster: Cluster) -> None:
    """Of the time of a job Slurm warns its script, by the signal that it was submitted with."""
    cluster.run("scontrol", "update", "PartitionName=spare", "MaxTime=1")
    job = start(cluster)
    cluster.until(lambda: len(held(cluster)) == 2, "two nodes are lent")
    cluster.until(lambda: loans(cluster)[0].to_s is not None, "the loan is over")
    first = loans(cluster)[0]
    assert first.warned_s is not None
    assert not first.lost
    show = ("scontrol", "show", "job", str(first.companion))
    cluster.until(lambda: "JobState=COMPLETING" not in cluster.run(*show), "the companion is over")
    assert "JobState=COMPLETED" in (said := cluster.run(*show)), f"not by itself, but by the end of its time: {said}"
    end(cluster, job)


@pytest.mark.parametrize("how", ["cancelled", "set down", "killed", "requeued"])
def test_a_companion_that_goes_costs_its_node_and_nothing_else(cluster: Cluster, how: str) -> None:
    """Of ``scancel`` Slurm warns; a node that is set down, or whose processes are killed, is lost."""
    job = start(cluster)
    cluster.until(lambda: len(held(cluster)) == 2, "two nodes are lent")
    cluster.until(lambda: "grew by 2" in explained(cluster, job), "the program is there")
    lent = loans(cluster)[0]
    if how == "cancelled":
        refused = cluster.run("scontrol", "requeue", str(lent.companion), code=1)
        assert "disabled" in refused
        cluster.run("scancel", str(lent.companion))
    elif how == "requeued":
        cluster.run("scontrol", "update", f"JobId={lent.companion}", "Requeue=1")
        cluster.run("scontrol", "requeue", str(lent.companion))
    elif how == "set down":
        cluster.run("scontrol", "update", f"NodeName={lent.node}", "State=down", "Reason=test")
    else:
        for pid in places(cluster, lent.node):
            os.kill(pid, signal.SIGKILL)

    def ended() -> bool:
        return loans(cluster)[0].to_s is not None

    cluster.until(ended, "the loan is over")
    assert not loans(cluster)[0].lost or how != "cancelled"
    queued = ("squeue", "-h", "-o", "%i")
    cluster.until(lambda: str(lent.companion) not in cluster.run(*queued).split(), "it does not come back")
    cluster.until(lambda: len(held(cluster)) == 2, "another node has come")
    said = end(cluster, job)
    # Slurm ends the processes of a node that is set down by TERM, too: it may be left a little before it is lost
    assert f"lost {lent.node}" in said or how != "killed"


@pytest.mark.slow
def test_a_node_whose_slurmd_is_dead_is_lost_when_slurm_says_so(cluster: Cluster) -> None:
    """Until then it is used: its processes run, and Slurm waits whether the daemon comes back."""
    cluster.run("sh", "-c", "sed -i s/SlurmdTimeout=60/SlurmdTimeout=10/ $SLURM_CONF && scontrol reconfigure")
    job = start(cluster)
    cluster.until(lambda: len(held(cluster)) == 2, "two nodes are lent")
    cluster.until(lambda: "grew by 2" in explained(cluster, job), "the program is there")
    lent = loans(cluster)[0]
    (daemon,) = (pid for pid in processes(cluster, b"slurmd\0-D\0-N\0" + lent.node.encode()))
    os.kill(daemon, signal.SIGKILL)
    cluster.until(lambda: loans(cluster)[0].to_s is not None, "the loan is over")
    assert f"lost {lent.node}" in end(cluster, job)


def serve(cluster: Cluster, then: str = "") -> tuple[int, ControlClient]:
    """A scheduler on one node that harvests; returns the number of its Slurm job, and how it is reached.

    Args:
        cluster: Where.
        then: What its script does when it was killed; then it starts another one.
    """
    words = "malleable serve --backend slurm --harvest spare --harvest-every 0.5"
    script = f"{words} || {{ {then}; {words}; }}" if then else words
    job = cluster.submit(1, f"{script}; echo code $?", "--no-kill")
    cluster.until_says(job, "ready: 1 node")
    return job, ControlClient(cluster.folder / "state", timeout_s=PATIENCE_S)


def test_a_scheduler_lends_nodes_to_jobs_that_can_leave_them(cluster: Cluster) -> None:
    """A rigid job waits beside idle nodes that are lent; one that survives losses grows onto them, and leaves one."""
    job, client = serve(cluster)
    uts = (sys.executable, str(PROGRAMS / "uts_again.py"), "1", str(cluster.folder / "end"))
    spreads = client.submit(
        JobRequest(
            name="uts", command=uts, job_class="malleable", nodes=1, max_nodes=3, walltime_s=600.0, resilient=True
        )
    )
    rigid = client.submit(JobRequest(name="rigid", command=("true",), nodes=1, walltime_s=60.0))
    cluster.until(lambda: len(client.snapshot().job(spreads).nodes) == 3, "it uses two lent nodes")
    seen = client.snapshot()
    assert seen.job(rigid).state == "waiting"
    assert [node.lent for node in seen.nodes] == [False, True, True]
    assert "lent by Slurm from spare" in seen.nodes[1].reason
    assert "2 of them now" in client.snapshot().loans
    first, wanted = seen.job(spreads).nodes[0], held(cluster)[0]
    assert not next(node.lent for node in seen.nodes if node.name == first)
    other = cluster.submit(1, "sleep 600", f"--nodelist={wanted}")
    cluster.until(lambda: cluster.held().get(other) == (wanted,), "it has the node")
    assert [(loan.node, loan.lost) for loan in loans(cluster) if loan.warned_s is not None] == [(wanted, False)]
    cluster.until(lambda: len(client.snapshot().job(spreads).nodes) == 3, "another node has come")
    assert "taken back 1 node, 1 of them left within" in client.snapshot().loans
    said = cluster.run("malleable", "slurm", "at", str(job), "explain", str(spreads))
    assert "lent by Slurm from spare" in " ".join(said.split())
    # a node that dies without a warning is lost, and the job goes on
    lent = held(cluster)[0]
    for pid in places(cluster, lent):
        os.kill(pid, signal.SIGKILL)
    cluster.until(lambda: any(loan.lost for loan in loans(cluster)), "the loan is over")
    cluster.run("scancel", str(other))
    (cluster.folder / "end").touch()
    cluster.until(lambda: client.snapshot().job(rigid).state == "completed", "the rigid job has run, on its own node")
    assert client.snapshot().job(spreads).state == "completed"
    # no job uses them any more
    cluster.until(lambda: not held(cluster), "the nodes are given back")
    client.shutdown()
    assert cluster.until_over(job).endswith("code 0\n")


def test_a_scheduler_is_killed_while_nodes_are_lent(cluster: Cluster) -> None:
    """Its companion jobs end at once; the next one knows when, and its job goes on without their nodes."""
    job, client = serve(cluster, then="sleep 3")
    uts = (sys.executable, str(PROGRAMS / "uts_again.py"), "1", str(cluster.folder / "end"))
    spreads = client.submit(
        JobRequest(
            name="uts", command=uts, job_class="malleable", nodes=1, max_nodes=3, walltime_s=600.0, resilient=True
        )
    )
    cluster.until(lambda: "grew by 2" in client.explain(spreads).text, "it uses two lent nodes")
    # as if it had been asked for just now, and waited for a node
    waits = cluster.submit(1, "sleep 600", f"--job-name=malleable-{job}", "--hold")
    before = loans(cluster)
    (scheduler,) = processes(cluster, b"malleable\0serve\0")
    os.kill(scheduler, signal.SIGKILL)
    cluster.until_says(job, "Killed")

    def queued() -> set[str]:
        return {*cluster.run("squeue", "-h", "-o", "%i").split()}

    cluster.until(lambda: not {str(loan.companion) for loan in before} & queued(), "its companions end")
    cluster.until(lambda: cluster.text(job).count("ready: 1 node") == 2, "there is another scheduler")
    assert str(waits) not in queued()
    for loan in loans(cluster)[:2]:
        assert loan.to_s is not None
        assert loan.lost
        assert abs(loan.to_s - end_of(cluster, loan.companion)) <= 1
    cluster.until(lambda: cluster.text(job).count("has left the cluster") >= 2, "its job has lost both nodes")
    cluster.until(lambda: len(held(cluster)) == 2, "two nodes are lent again")
    lent_s = time.monotonic()
    cluster.until(lambda: len(client.snapshot().job(spreads).nodes) == 3, "it uses them")
    assert time.monotonic() - lent_s < 20, "its losses are no refusals, after which a job waits for 30 s"
    (cluster.folder / "end").touch()
    cluster.until(lambda: client.snapshot().job(spreads).state == "completed", "it has ended well")
    client.shutdown()
    assert cluster.until_over(job).endswith("code 0\n")
    assert not held(cluster)
    said = (cluster.folder / "state" / f"job-{spreads}.out").read_text(encoding="utf-8")
    assert re.match(r"up \[.*\]\nresizes ", said)  # in its first life
    assert "wrong counts []" in said


def end_of(cluster: Cluster, job: int) -> float:
    """When a job has ended, as Slurm says."""
    found = re.search(r"EndTime=(\S+)", cluster.run("scontrol", "show", "job", str(job)))
    assert found is not None
    return dt.datetime.fromisoformat(found[1]).timestamp()


def test_a_program_that_survives_no_loss_is_refused(cluster: Cluster) -> None:
    script = "APGAS_RESILIENT=0 malleable slurm run --harvest spare -- true; echo code $?"
    assert "nodes harvested from spare can be lost at any time" in cluster.until_over(cluster.submit(1, script))
    for options, why in (
        ("--harvest nowhere", "Slurm has no partition nowhere that you may use"),
        ("--harvest spare --grow-by expand", "nodes that become part of the job cannot be taken back"),
    ):
        said = cluster.until_over(cluster.submit(1, f"malleable slurm run {options} -- true; echo code $?"))
        assert why in " ".join(said.split())
        assert said.endswith("code 1\n")


def explained(cluster: Cluster, job: int) -> str:
    return " ".join(cluster.run("malleable", "slurm", "at", str(job), "explain", str(job)).split())


def places(cluster: Cluster, node: str) -> list[int]:
    """The places on a node."""
    return processes(cluster, b"python", f"PMI_HOSTNAME={node}\0")


def processes(cluster: Cluster, words: bytes, variable: str = "") -> list[int]:
    """The processes of the cluster whose command line has ``words``, and that were started with a variable."""
    wanted = [text.encode() for text in (cluster.mark, variable)]
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            started = words in (folder / "cmdline").read_bytes()
            environ = (folder / "environ").read_bytes() if started else b""
        except OSError:  # it has ended
            continue
        if started and all(text in environ for text in wanted):
            found.append(int(folder.name))
    return found


def test_place_0_is_killed_as_nodes_come_and_the_program_harvests_on(cluster: Cluster) -> None:
    lives = cluster.folder / "lives"
    lives.mkdir()
    run = "malleable slurm run --harvest spare --harvest-every 0.5 --max-nodes 3"
    program = f"{sys.executable} {PROGRAMS / 'glb_mortal.py'} growing {lives}"
    said = cluster.until_over(cluster.submit(1, f"{run} -- {program}; echo code $?"))
    assert "life 0 on 1\n" in said
    assert "life 1 on 1\n" in said
    assert "True after 2 lives" in said
    assert said.endswith("code 0\n")
    assert held(cluster) == []
    assert loans(cluster)
