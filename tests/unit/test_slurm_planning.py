"""Command lines, who holds which node, and how nodes are given back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_bridge.backends.slurm import holdings
from scheduler_bridge.backends.slurm.harvest import Harvest
from scheduler_bridge.backends.slurm.holdings import Holdings, Limits
from scheduler_bridge.backends.slurm.reading import JobInfo, SlurmError

NEW = Limits((24, 11, 5), "auth/slurm", expansion=True, once=False)
OLD = replace(NEW, version=(22, 5, 8), once=True)
JOB = Holdings(7, "a", ("a", "b", "c"))


def test_a_companion_is_like_the_job_that_it_lends_its_node_to() -> None:
    info = JobInfo(7, "RUNNING", ("a",), partition="gpu", account="physics", qos="high", comment="my thesis")
    assert holdings.submit_companion(info, 42) == (
        "sbatch", "--parsable", "--no-requeue", "--chdir=/", "--output=/dev/null", "--nodes=1", "--exclusive",
        "--job-name=malleable-7", "--partition=gpu", "--account=physics", "--qos=high", "--comment=my thesis",
        "--time=42",
    )  # fmt: skip
    assert holdings.allocate_expansion(JobInfo(7, "RUNNING", ("a",)), 10, None) == (
        "salloc", "--no-shell", "--immediate=10", "--dependency=expand:7", "--nodes=1", "--exclusive",
        "--job-name=malleable-7",
    )  # fmt: skip


def test_the_node_of_a_companion_is_as_those_of_the_job_must_be() -> None:
    info = JobInfo(7, "RUNNING", ("a",), constraint="quick&big", gres="gpu:a100:2", reservation="course")
    wanted = ("--reservation=course", "--constraint=quick&big", "--gres=gpu:a100:2")
    assert holdings.submit_companion(info, None)[-3:] == wanted
    assert holdings.allocate_expansion(info, 10, None)[-3:] == wanted
    harvested = holdings.submit_companion(Harvest("spare").applied(info), None, warned=True)
    assert harvested[-3:] == ("--partition=spare", *wanted[1:]), "no reservation has nodes that are idle elsewhere"
    assert "--signal=B:TERM@30" in harvested


def test_nodes_of_companions_go_back_with_their_jobs() -> None:
    held = JOB.lent("d", 8).lent("e", 9)
    assert held.nodes == ("a", "b", "c", "d", "e")
    assert held.jobs == (7, 8, 9)
    assert held.giving_back(["e", "d"], OLD) == ((9, 8), ())
    left = held.without(["e"])
    assert (left.nodes, left.resized) == (("a", "b", "c", "d"), 0)


def test_nodes_of_the_job_itself_go_back_by_naming_those_that_stay() -> None:
    held = JOB.lent("d", 8)
    steps = held.giving_back(["d", "b"], NEW)
    assert steps == ((8,), (("scontrol", "update", "JobId=7", "NodeList=a,c"),))
    assert held.without(["d", "b"]) == Holdings(7, "a", ("a", "c"), resized=1)


def test_the_batch_host_and_foreign_nodes_are_never_given_back() -> None:
    with pytest.raises(SlurmError, match="a cannot be given back: the script of job 7 runs there"):
        JOB.giving_back(["b", "a"], NEW)
    with pytest.raises(SlurmError, match="z is not a node of job 7"):
        JOB.giving_back(["z"], NEW)


def test_an_old_slurm_resizes_a_job_once() -> None:
    assert JOB.giving_back(["c"], OLD)
    once = JOB.without(["c"]).lent("d", 8)
    with pytest.raises(SlurmError, match=r"22\.05 without slurmdbd.* only once"):
        once.giving_back(["b"], OLD)
    with pytest.raises(SlurmError, match="only once"):
        once.check_release(2, OLD)
    once.check_release(1, OLD)
    once.check_release(2, NEW)
    assert once.giving_back(["d"], OLD) == ((8,), ())


def test_an_expanded_job_keeps_the_order_of_its_nodes() -> None:
    assert JOB.expanded(["d", "c", "b", "a"]).nodes == ("a", "b", "c", "d")
    assert JOB.without(["b"]).expanded(["a", "c", "x"]) == Holdings(7, "a", ("a", "c", "x"), resized=2)
