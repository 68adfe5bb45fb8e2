"""A Slurm as centres run it: with a database, accounts, limits and several partitions."""

from __future__ import annotations

import datetime as dt
import os
import re
import signal
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import PATIENCE_S
from support.slurm import Cluster, need_slurm

from scheduler_bridge.backends.slurm import read_loans
from scheduler_bridge.backends.slurm.harvest import LOANS
from scheduler_bridge.daemon.control.client import ControlClient

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    need_slurm()
    with Cluster(tmp_path, "--accounting") as cluster:
        yield cluster


@pytest.fixture
def wide(tmp_path: Path) -> Iterator[Cluster]:
    """One with room for several jobs side by side."""
    need_slurm()
    with Cluster(tmp_path, "--accounting", "--hosts", "9") as cluster:
        yield cluster


def test_the_emulated_centre_keeps_accounts_and_enforces_limits(cluster: Cluster) -> None:
    assert "PartitionName=large" in cluster.run("scontrol", "show", "partition", "large")
    assert cluster.run("sinfo", "-h", "-p", "main,large", "-o", "%P %N").split() == [
        "main*",
        "host[1-3]",
        "large",
        "host4",
    ]
    free = cluster.submit(1, "true", "--partition=large")
    paid = cluster.submit(1, "sleep 600", "--account=chemistry", "--qos=few", "--comment=thesis")
    wide = cluster.submit(3, "true", "--account=chemistry")
    cluster.until(
        lambda: "AssocGrpNodeLimit" in cluster.run("squeue", "-h", "-j", str(wide), "-o", "%r"), "it is named"
    )
    cluster.run("scancel", str(paid), str(wide))
    cluster.until_over(free)

    def booked() -> list[str]:
        return cluster.run("sacct", "-XnP", "-o", "jobid,account,qos,partition,comment,state").splitlines()

    cluster.until(lambda: not any("RUNNING" in line or "PENDING" in line for line in booked()), "all are booked")
    first, second, third = booked()
    assert first == f"{free}|physics|normal|large||COMPLETED"
    assert second.startswith(f"{paid}|chemistry|few|main|thesis|CANCELLED")
    assert third.startswith(f"{wide}|chemistry|normal|main||CANCELLED")


def start(cluster: Cluster, *options: str, program: str = "", run: str = "--max-nodes 9") -> int:
    """A malleable program on one node, which is ready for orders; returns the number of its Slurm job."""
    uts = program or f"{sys.executable} {PROGRAMS / 'uts_again.py'} 1 {cluster.folder / 'end'}"
    job = cluster.submit(1, f"exec malleable slurm run {run} -- {uts}", *options)
    cluster.until_says(job, "up")
    return job


def grow(cluster: Cluster, job: int, count: int) -> None:
    """Have a program on one node grow, and wait until all is done: its places are there."""
    cluster.resize(job, f"--grow={count}")
    client = ControlClient(cluster.folder / "state", timeout_s=PATIENCE_S)
    cluster.until(lambda: len(client.snapshot().job(job).nodes) == 1 + count, "it has grown")
    cluster.until(lambda: client.snapshot().job(job).resizing is None, "the resize is over")


def companions(cluster: Cluster, job: int, what: str = "%i") -> list[str]:
    """What squeue says of the jobs that lend their nodes to ``job``."""
    return cluster.run("squeue", "-h", "-n", f"malleable-{job}", "-o", what).splitlines()


def runner(cluster: Cluster, job: int) -> int:
    """The process of `malleable slurm run`."""
    (found,) = processes(cluster, b"malleable\0slurm\0run", f"SLURM_JOB_ID={job}\0")
    return found


def leases(cluster: Cluster, job: int | None = None) -> list[int]:
    """The processes of companion jobs that hold a lease: for one job, or for all."""
    return processes(cluster, b"slurm/lease.py", f"SLURM_JOB_NAME=malleable-{job}\0" if job else "")


def processes(cluster: Cluster, words: bytes, variable: str) -> list[int]:
    """The processes on the cluster's hosts that were started with ``words`` and with a variable."""
    wanted = [text.encode() for text in (cluster.mark, variable)]
    started = [path for path in Path("/proc").glob("[0-9]*/cmdline") if words in _read(path)]
    environments = {int(path.parent.name): _read(path.with_name("environ")) for path in started}
    return [number for number, environ in environments.items() if all(text in environ for text in wanted)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended
        return b""


def test_companions_are_one_with_their_job_and_sacct_agrees_with_our_books(cluster: Cluster) -> None:
    job = start(cluster, "--account=physics", "--qos=short", "--comment=thesis", "--time=5")

    def status() -> str:
        return cluster.run("malleable", "slurm", "status", str(job))

    for _ in range(2):
        cluster.resize(job, "--grow=2")
        cluster.until_nodes(3)
        assert set(companions(cluster, job, "%a %q %k %P")) == {"physics short thesis main"}
        cluster.until(lambda: " 3 nodes" in status(), "the status knows all")
        cluster.resize(job, "--shrink=2")
        cluster.until_nodes(1)
    assert "itself" in status()
    (cluster.folder / "end").touch()
    cluster.until_over(job)
    assert "4 loans so far" in status()
    assert worst_difference(cluster, job, 4) <= 1


def worst_difference(cluster: Cluster, job: int, count: int) -> float:
    """By how many seconds a begin or an end of a loan in our books is another than in Slurm's database."""
    loans = read_loans(cluster.folder / "state" / LOANS)
    assert len(loans) == count
    cluster.until(lambda: "Unknown" not in cluster.run("sacct", "-Xno", "end"), "all have ended in the database")
    wanted = ("sacct", "-XnP", f"--name=malleable-{job}", "-o", "jobid,nodelist,state,start,end")
    rows = [line.split("|") for line in cluster.run(*wanted).splitlines()]
    found = {int(row[0]): (row[1], row[2], moment(row[3]), moment(row[4])) for row in rows}
    assert set(found) == {loan.companion for loan in loans}
    worst = 0.0
    for loan in loans:
        node, state, from_s, to_s = found[loan.companion]
        assert (node, state) == (loan.node, "COMPLETED")
        assert loan.to_s is not None
        worst = max(worst, abs(from_s - loan.from_s), abs(to_s - loan.to_s))
    return worst


@pytest.mark.slow
def test_sacct_agrees_with_our_books_over_200_resizes(cluster: Cluster, summary: list[str]) -> None:
    rounds = 100
    breathing = f"{sys.executable} {PROGRAMS / 'slurm_breathing.py'} {rounds}"
    job = cluster.submit(1, f"exec malleable slurm run --max-nodes 2 --wait 60 -- {breathing}")
    cluster.until_over(job)
    said = cluster.text(job)
    assert "over" in said
    worst = worst_difference(cluster, job, rounds)
    for what, words in (("grow", "Slurm gives"), ("shrink", "given back")):
        took = [float(seconds) for seconds in re.findall(rf"{words}.* after ([\d.]+) s", said)]
        assert len(took) >= rounds - 1  # the last node may go back with the end of the job, which says nothing of it
        summary.append(f"{what}: Slurm's part takes {statistics.median(took):.2f} s (median), {max(took):.2f} s (most)")
    summary.append(f"{rounds} loans: sacct and our books differ by {worst:.0f} s at most")
    assert worst <= 1


def begin(cluster: Cluster, *options: str, run: str) -> int:
    """Like ``start``, with a program that asks for nodes itself, and beside other ones."""
    greedy = f"{sys.executable} {PROGRAMS / 'slurm_greedy.py'} {cluster.folder / 'end'}"
    return cluster.submit(
        1, f"exec malleable slurm run --state {cluster.folder}/$SLURM_JOB_ID {run} -- {greedy}", *options
    )


def test_refusals_by_limits_have_their_names(wide: Cluster) -> None:
    reasons = {
        "--account=chemistry": "AssocGrpNodeLimit",
        "--qos=few": "QOSMaxJobsPerUserLimit",
        "--qos=narrow": "QOSGrpNodeLimit",
        "--partition=large": "Resources",
    }
    jobs = {begin(wide, options, run="--wait 2"): reason for options, reason in reasons.items()}
    for job, reason in jobs.items():
        has = 0 if reason == "Resources" else 1
        if has:
            wide.until_says(job, "grown by 1")
        wide.until_says(job, f"not resized: Slurm gives no node: {reason} (")
        assert len(leases(wide, job)) == has
    (wide.folder / "end").touch()
    wide.until_over(job)


def test_no_companion_outlives_the_one_that_it_lent_its_node_to(wide: Cluster) -> None:
    """Runners are killed and a host is lost, and slurmctld is away when a runner is killed and a program ends."""
    jobs = [begin(wide, "--no-kill", run="--max-nodes 2 --lease 4") for _ in range(3)]
    killed, unplugged, orphaned = jobs
    for job in jobs:
        wide.until_says(job, "grown by 1")
    assert [len(leases(wide, job)) for job in jobs] == [1, 1, 1]

    os.kill(runner(wide, killed), signal.SIGKILL)
    host = wide.held()[unplugged][0]
    wide.run("ip", "-n", host, "link", "set", "eth0", "down")
    wide.until(lambda: not leases(wide, killed) + leases(wide, unplugged), "both leases have ended")
    wide.until(lambda: not companions(wide, killed) + companions(wide, unplugged), "both companions have ended")
    assert len(leases(wide, orphaned)) == 1
    wide.run("ip", "-n", host, "link", "set", "eth0", "up")

    ending = begin(wide, run="--max-nodes 2")
    wide.until_says(ending, "grown by 1")
    stop_controller(wide)
    os.kill(runner(wide, orphaned), signal.SIGKILL)
    (wide.folder / "end").touch()
    wide.until(lambda: not leases(wide), "no lease is held")
    wide.until_says(ending, "over")
    start_controller(wide)
    wide.until_over(ending)

    def booked(job: int) -> str:
        """How its first companion has ended; the one that is reached again may have got another one."""
        return wide.run("sacct", "-XnP", f"--name=malleable-{job}", "-o", "state,exitcode").partition("\n")[0]

    ends = dict.fromkeys((killed, unplugged, orphaned), "FAILED|1:0") | {ending: "COMPLETED|0:0"}
    wide.until(lambda: {job: booked(job) for job in ends} == ends, "the database knows how all of them ended")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "nodes", "reason"),
    [
        ("--account=chemistry", 2, "AssocGrpNodeLimit"),
        ("--qos=few", 2, "QOSMaxJobsPerUserLimit"),
        ("--qos=narrow", 2, "QOSGrpNodeLimit"),
        ("--partition=large", 1, "Resources"),
    ],
)
def test_a_refusal_by_a_limit_has_its_name(cluster: Cluster, options: str, nodes: int, reason: str) -> None:
    job = start(cluster, options, run="--max-nodes 9 --wait 2")
    if nodes > 1:
        cluster.resize(job, f"--grow={nodes - 1}")
        cluster.until_nodes(nodes)
    cluster.resize(job, "--grow=1")
    said = cluster.until_says(job, "not resized: Slurm gives no node")
    assert f"not resized: Slurm gives no node: {reason} (" in said
    assert f"Slurm gives no node: {reason} (" in cluster.run("malleable", "slurm", "at", str(job), "explain", str(job))
    assert len(cluster.nodes()) == nodes
    assert not companions(cluster, job)[nodes - 1 :]  # the one that waited is gone


@pytest.mark.slow
@pytest.mark.parametrize("controller", [True, False], ids=["slurmctld is there", "slurmctld is away"])
def test_companions_end_when_the_runner_is_killed(cluster: Cluster, controller: bool) -> None:
    job = start(cluster)
    grow(cluster, job, 2)
    loans = read_loans(cluster.folder / "state" / LOANS)
    if not controller:
        stop_controller(cluster)
    os.kill(runner(cluster, job), signal.SIGKILL)
    cluster.until(lambda: not leases(cluster), "no lease is held")
    if not controller:
        start_controller(cluster)
    cluster.until(lambda: not cluster.held(), "no job runs")
    cluster.until(
        lambda: cluster.run("sinfo", "-h", "-N", "-p", "main", "-o", "%T").split() == ["idle"] * 3, "all idle"
    )
    rows = {f"{loan.companion}|FAILED|1:0" for loan in loans}

    def booked() -> bool:
        said = cluster.run("sacct", "-XnP", f"--name=malleable-{job}", "-o", "jobid,state,exitcode")
        return set(said.splitlines()) == rows

    cluster.until(booked, "the database knows how they ended")


@pytest.mark.slow
def test_a_controller_that_is_away_for_a_while_costs_nothing(cluster: Cluster) -> None:
    job = start(cluster)
    grow(cluster, job, 1)
    stop_controller(cluster)
    (cluster.folder / "end").touch()
    cluster.until_says(job, "wrong counts []")
    cluster.until(lambda: not leases(cluster), "no lease is held")
    start_controller(cluster)
    cluster.until(lambda: not cluster.run("squeue", "-h").strip(), "no job is left")
    said = cluster.run("sacct", "-XnP", f"--name=malleable-{job}", "-o", "state,exitcode")
    assert said.split() == ["COMPLETED|0:0"]


@pytest.mark.slow
def test_companions_end_when_the_batch_host_is_lost(cluster: Cluster) -> None:
    job = start(cluster, "--no-kill")
    grow(cluster, job, 2)
    assert len(leases(cluster)) == 2
    cluster.run("ip", "-n", "host1", "link", "set", "eth0", "down")
    cluster.until(lambda: not leases(cluster), "no lease is held")
    cluster.until(lambda: not companions(cluster, job), "no companion is left")


def moment(text: str) -> float:
    return dt.datetime.fromisoformat(text).astimezone().timestamp()


def stop_controller(cluster: Cluster) -> None:
    cluster.run("scontrol", "shutdown", "slurmctld")
    cluster.until(lambda: "DOWN" in cluster.run("scontrol", "ping", code=None), "slurmctld is away")


def start_controller(cluster: Cluster) -> None:
    cluster.run("sh", "-c", "slurmctld")
    cluster.until(lambda: "UP" in cluster.run("scontrol", "ping", code=None), "slurmctld is back")
