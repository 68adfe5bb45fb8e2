"""Malleable programs in allocations of a real Slurm, which is asked who holds which node."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.doors import all_attacked
from support.slurm import Cluster, need_slurm

PROGRAMS = Path(__file__).parent / "programs"
DOORS = Path(__file__).parents[1] / "support" / "doors.py"
ALL = ["host1", "host2", "host3", "host4"]


def python(program: str, *arguments: object) -> str:
    return " ".join([sys.executable, str(PROGRAMS / program), *map(str, arguments)])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A Slurm that permits expansion; nothing of it is left afterwards."""
    need_slurm()
    with Cluster(tmp_path) as cluster:
        yield cluster


@pytest.mark.parametrize("grow_by", ["companion", "expand"])
def test_a_program_grows_and_shrinks_with_its_allocation_and_counts_right(cluster: Cluster, grow_by: str) -> None:
    end = cluster.folder / "end"
    uts = python("uts_again.py", 2, end)
    job = cluster.submit(2, f"malleable slurm run --max-nodes 4 --grow-by {grow_by} -- {uts}; echo code $?")
    cluster.until_says(job, "up")
    assert cluster.held() == {job: ("host1", "host2")}
    cluster.resize(job, "--grow=2")
    assert cluster.until_nodes(4) == ALL
    assert cluster.held()[job] == tuple(ALL[: 2 if grow_by == "companion" else 4])
    cluster.resize(job, "--shrink=3")
    # while the program runs on, so it is not the end of the job that gives them back
    assert cluster.until_nodes(1) == ["host1"]
    assert cluster.held() == {job: ("host1",)}
    end.touch()
    said = cluster.until_over(job)
    assert "resizes [('grow', 2), ('shrink', 3)], wrong counts [], on host1" in said
    assert said.endswith("code 0\n")


def test_further_nodes_are_as_those_of_the_job_must_be(cluster: Cluster) -> None:
    """Three hosts have the feature, two of these the resource that the job asks for."""
    lines = "GresTypes=fast"
    for hosts, has in (("1-2", "Feature=quick Gres=fast:2"), ("3", "Feature=quick"), ("4", "Gres=fast:2")):
        lines += f"\\nNodeName=host[{hosts}] CPUs=2 RealMemory=4000 {has} State=UNKNOWN"
    configure = f"sed -i 's/^NodeName=.*/{lines}/' $SLURM_CONF; "
    configure += (
        "echo 'NodeName=host[1-2,4] Name=fast Count=2' > $(dirname $SLURM_CONF)/gres.conf; scontrol reconfigure"
    )
    cluster.run("sh", "-c", configure)
    end = cluster.folder / "end"
    script = f"malleable slurm run --wait 1 -- {python('uts_again.py', 1, end)}"
    job = cluster.submit(1, script, "--constraint=quick", "--gres=fast:2")
    cluster.until_says(job, "up")
    cluster.resize(job, "--grow=1")
    assert cluster.until_nodes(2) == ["host1", "host2"]
    (companion,) = cluster.held().keys() - {job}
    said = cluster.run("scontrol", "show", "job", str(companion))
    assert "Features=quick " in said
    assert "TresPerNode=gres/fast:2" in said or "TresPerNode=gres:fast:2" in said
    cluster.resize(job, "--grow=1")
    cluster.until_says(job, "not resized: Slurm gives no node")
    end.touch()
    cluster.until_over(job)


def test_a_program_without_a_session_says_hello_on_all_hosts(cluster: Cluster) -> None:
    hello = python("slurm_hello.py")
    mpiexec = "mpiexec -launcher slurm -f hosts.txt"
    script = f"cd {cluster.folder}; malleable slurm hosts > hosts.txt; cat hosts.txt; {mpiexec} -n 4 {hello}"
    job = cluster.submit(4, f"{script}; echo code $?")
    said = cluster.until_over(job)
    assert said.split()[:4] == [f"{host}:1" for host in ALL]
    assert f"hello from {' '.join(ALL)}\nworld of 4\ncode 0" in said


def test_a_program_asks_for_nodes_itself(cluster: Cluster) -> None:
    job = cluster.submit(1, f"malleable slurm run --max-nodes 6 --wait 1 -- {python('slurm_asking.py')}; echo code $?")
    said = [line for line in cluster.until_over(job).splitlines() if not line.startswith("malleable: ")]
    assert said == ["granted 1", "then 0 -1", "over", "code 0"]


def test_the_job_ends_while_slurm_looks_for_a_node(cluster: Cluster) -> None:
    other = cluster.submit(2, "sleep 600")
    job = cluster.submit(2, f"malleable slurm run --wait 300 -- {python('uts_again.py', 1)}")
    cluster.until_says(job, "up")
    cluster.resize(job, "--grow=1")
    waiting = ("squeue", "-h", "-t", "PD", "-n", f"malleable-{job}")
    cluster.until(lambda: bool(cluster.run(*waiting).strip()), "a companion waits")
    cluster.run("scancel", str(job))
    cluster.until(lambda: list(cluster.held()) == [other], "the job is over")
    cluster.until(lambda: not cluster.run(*waiting).strip(), "no job waits any more")


@pytest.mark.parametrize(("grow_by", "kind"), [("companion", "grow"), ("expand", "grow"), ("companion", "shrink")])
def test_the_job_ends_while_the_program_is_being_resized(cluster: Cluster, grow_by: str, kind: str) -> None:
    hesitant = python("slurm_hesitant.py", "hesitant")
    job = cluster.submit(2, f"malleable slurm run --min-nodes 1 --grow-by {grow_by} -- {hesitant}")
    cluster.until_says(job, "up on host1 host2")
    cluster.resize(job, f"--{kind}=1")
    cluster.until_says(job, f"asked to {kind} by 1")
    assert cluster.nodes() == ALL[: 3 if kind == "grow" else 2]
    cluster.run("scancel", str(job))
    cluster.until_over(job)
    cluster.until(lambda: cluster.run("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * 4, "all nodes are idle")


@pytest.mark.parametrize("resilient", [False, True], ids=["plain", "resilient"])
@pytest.mark.parametrize("how", ["set down", "companion cancelled"])
def test_a_node_is_lost(cluster: Cluster, how: str, resilient: bool) -> None:
    """Under mpiexec, an assertion of it ended also those that survive losses."""
    script = f"export APGAS_RESILIENT={int(resilient)}; malleable slurm run -- {python('slurm_hesitant.py', 'waiting')}"
    job = cluster.submit(1, f"{script}; echo code $?")
    cluster.until_says(job, "up on host1")
    cluster.resize(job, "--grow=2")
    cluster.until_says(job, "on host1 host2 host3")
    if how == "set down":
        cluster.run("scontrol", "update", "NodeName=host3", "State=down", "Reason=test")
    else:
        cluster.run("scancel", *(str(other) for other, nodes in cluster.held().items() if nodes == ("host3",)))
    said = cluster.until_over(job)
    assert ("went on without a node" in said) == resilient
    assert said.endswith("code 0\n") == resilient


@pytest.mark.parametrize("when", ["computing", "growing"])
def test_place_0_is_killed_and_the_program_goes_on_in_the_same_job(cluster: Cluster, when: str) -> None:
    """Of a resize under way nothing is left: the companion job is given back."""
    lives = cluster.folder / "lives"
    lives.mkdir()
    program = python("glb_mortal.py", when, lives)
    job = cluster.submit(2, f"malleable slurm run --max-nodes 3 -- {program}; echo code $?")
    if when == "growing":
        cluster.until((lives / "life0").exists, "the program computes")
        cluster.resize(job, "--grow=1")
        cluster.until((lives / "life1").exists, "it is started again")
    said = cluster.until_over(job)
    assert [line for line in said.splitlines() if line.startswith(("life", "True", "False", "code"))] == [
        "life 0 on 2", "life 1 on 2", "True after 2 lives on 2", "code 0",
    ]  # fmt: skip
    assert said.count("the program is to be started again") == 1
    assert ("not resized: place 0 was lost" in said) == (when == "growing")
    cluster.until(lambda: cluster.run("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * 4, "all nodes are idle")
    assert not list((cluster.folder / "state").rglob("books-*"))


def test_strangers_reach_no_launcher_and_end_no_program(cluster: Cluster) -> None:
    """Under mpiexec, twelve bytes of any user of a host, or of another machine, ended a program."""
    end = cluster.folder / "end"
    job = cluster.submit(2, f"malleable slurm run --max-nodes 3 -- {python('listening.py', end)}; echo code $?")
    cluster.until_says(job, "up")
    cluster.resize(job, "--grow=1")
    cluster.until_says(job, "pids")
    processes, doors = all_attacked(cluster.run(sys.executable, DOORS))
    assert sum("--agent" in words for words in processes) >= 2
    assert not re.search("bin/mpiexec|hydra", " ".join(processes))
    proven = re.findall(r"doors (.*)", cluster.text(job))[0].split()
    assert set(proven) == doors
    assert {door.partition(":")[0] for door in doors} == {"10.0.0.1", "10.0.0.2", "10.0.0.3"}
    end.touch()
    said = cluster.until_over(job)
    assert "alive" in said
    assert said.endswith("code 0\n")


@pytest.mark.parametrize("grow_by", ["companion", "expand"])
def test_a_partition_that_refuses_meanwhile_leaves_the_program_as_it_is(cluster: Cluster, grow_by: str) -> None:
    end = cluster.folder / "end"
    uts = python("uts_again.py", 1, end)
    job = cluster.submit(2, f"malleable slurm run --max-nodes 3 --wait 1 --grow-by {grow_by} -- {uts}; echo code $?")
    cluster.until_says(job, "up")
    cluster.run("scontrol", "update", "PartitionName=main", "State=DRAIN")
    cluster.resize(job, "--grow=1")
    cluster.until_says(job, "not resized: Slurm gives no node: ")
    assert cluster.held() == {job: ("host1", "host2")}
    cluster.run("scontrol", "update", "PartitionName=main", "State=UP")
    cluster.resize(job, "--grow=1")
    assert cluster.until_nodes(3) == ALL[:3]
    end.touch()
    said = cluster.until_over(job)
    assert "resizes [('grow', 1)], wrong counts [], on host1" in said
    assert said.endswith("code 0\n")


def test_without_permission_to_expand_jobs_grow_by_companions_and_no_further_than_there_are_nodes(
    tmp_path: Path,
) -> None:
    need_slurm()
    with Cluster(tmp_path, "--no-expansion") as cluster:
        uts = python("uts_again.py", 2)
        refused = cluster.submit(2, f"malleable slurm run --grow-by expand -- {uts}; echo code $?")
        assert "this Slurm expands no jobs: SchedulerParameters has no permit_job_expansion" in (
            cluster.until_over(refused)
        )
        assert "code 1" in cluster.text(refused)
        ask = "from scheduler_bridge.backends.slurm import Slurm; print(*Slurm().limits().sentences(), sep='; ')"
        assert "not by expansion" in cluster.run(sys.executable, "-c", ask)
        job = cluster.submit(2, f"malleable slurm run --wait 1 -- {uts}; echo code $?")
        cluster.until_says(job, "up")
        cluster.resize(job, "--grow=3")
        cluster.until_says(job, "not resized: Slurm gives no node")
        assert cluster.until_nodes(2) == ["host1", "host2"]
        cluster.resize(job, "--grow=2")
        cluster.until_nodes(4)
        cluster.resize(job, "--shrink=3")
        assert "resizes [('grow', 2), ('shrink', 3)], wrong counts []" in cluster.until_over(job)
