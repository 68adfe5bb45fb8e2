"""What Slurm's commands say, as recorded from Slurm 24.11.5 and 22.05.8, and lists of hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_bridge.backends.slurm import reading
from scheduler_bridge.backends.slurm.holdings import Limits
from scheduler_bridge.backends.slurm.reading import JobInfo, ReadingError, Step

RECORDED = Path(__file__).parent / "recorded_slurm"


def recorded(name: str) -> str:
    return (RECORDED / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("(null)", ()),
        ("login", ("login",)),
        ("host[1-3]", ("host1", "host2", "host3")),
        ("n[08-10,2],x-1", ("n08", "n09", "n10", "n2", "x-1")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("a[1],b[3-3]c", ("a1", "b3c")),
    ],
)
def test_lists_of_hosts(text: str, names: tuple[str, ...]) -> None:
    assert reading.expand_hosts(text) == names


@pytest.mark.parametrize("text", ["a[", "a[1-]", "a[x]", "a,,b", "a]1[", "a[1-1000000]"])
def test_what_is_no_list_of_hosts(text: str) -> None:
    with pytest.raises(ValueError, match=r"host|range"):
        reading.expand_hosts(text)


@pytest.mark.parametrize(("version", "ends_s"), [("24.11", 1826726194.0), ("22.05", 1826729391.0)])
def test_a_job(version: str, ends_s: float) -> None:
    assert reading.read_job(recorded(f"show-job-{version}.txt")) == JobInfo(
        1, "RUNNING", ("host1", "host2"), "host1", "main", starts_s=ends_s - 31_536_000.0, ends_s=ends_s, user="root",
        name="rec.sh", may_come_back=True,
    )  # fmt: skip


def test_a_users_own_words_stand_for_nothing_else() -> None:
    text = recorded("show-job-24.11.txt").replace("JobName=rec.sh", "JobName=a JobState=FAILED b")
    info = reading.read_job(text.rstrip() + "\n   Comment=for Reason=none Partition=other\n")
    assert (info.name, info.comment) == ("a JobState=FAILED b", "for Reason=none Partition=other")
    assert (info.state, info.reason, info.partition) == ("RUNNING", "", "main")


def test_of_several_records_the_first_one_counts() -> None:
    one = recorded("show-job-24.11.txt").strip()
    assert reading.read_job(f"{one}\n\n{one.replace('JobId=1', 'JobId=2')}\n").job == 1


@pytest.mark.parametrize(
    ("features", "tres", "constraint", "gres"),
    [
        ("quick&big", "gres/fast:2", "quick&big", "fast:2"),
        ("[a|b]", "gres/gpu:a100:2,gres/fast", "[a|b]", "gpu:a100:2,fast"),
        ("rack1*2&rack2*4", "gres:gpu:1", "", "gpu:1"),  # it counts nodes; and as 22.05 writes it
        ("(null)", "", "", ""),
    ],
)
def test_what_the_nodes_of_a_job_must_be(features: str, tres: str, constraint: str, gres: str) -> None:
    text = recorded("show-job-24.11.txt").replace("Features=(null)", f"Features={features}")
    info = reading.read_job(text.rstrip() + f"\n   Reservation=course\n   TresPerNode={tres}\n")
    assert (info.constraint, info.gres, info.reservation) == (constraint, gres, "course")


def test_a_job_that_waits() -> None:
    text = "JobId=1 JobName=j\n   Account=physics QOS=(null)\n   JobState=PENDING Reason=Resources Dependency=(null)\n"
    text += "   StartTime=Unknown EndTime=Unknown Deadline=N/A\n   Partition=main AllocNode:Sid=login:0\n   NodeList=\n"
    assert reading.read_job(text) == JobInfo(
        job=1, state="PENDING", nodes=(), partition="main", account="physics", reason="Resources", name="j"
    )


@pytest.mark.parametrize(
    "text", ["", "slurm_load_jobs error: Invalid job id specified", "JobId=1", "JobId=1 JobState=RUNNING NodeList=a["]
)
def test_what_is_no_job_is_refused(text: str) -> None:
    with pytest.raises(ReadingError, match="not understood"):
        reading.read_job(text)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("infinite\n", None), ("", None), ("30:00\n", 30), ("12:30:00\n", 750), ("2-01:00:00\n", 2940), ("0:30", 1)],
)
def test_time_limits(text: str, minutes: int | None) -> None:
    assert reading.read_minutes(text) == minutes


def test_what_is_no_time_limit() -> None:
    with pytest.raises(ReadingError, match="'soon' is no time limit"):
        reading.read_minutes("soon\n")


def test_steps() -> None:
    assert reading.read_steps(recorded("steps-24.11.txt")) == (
        Step(1, "0", ("host1", "host2")),
        Step(1, "batch", ("host1",)),
    )
    assert reading.read_steps(recorded("steps-22.05.txt")) == reading.read_steps(recorded("steps-24.11.txt"))
    for text in ("slurm_load_jobs error", "one.0|host1|sh", "1.0|host[1-x]|sh"):
        with pytest.raises(ReadingError, match="a line of squeue --steps is not understood"):
            reading.read_steps(text)


def test_what_salloc_says() -> None:
    assert reading.read_allocation(recorded("salloc-granted.txt")) == 2
    assert reading.read_allocation(recorded("salloc-no-node.txt")) == 2  # which is to be cancelled
    assert reading.read_allocation(recorded("salloc-busy.txt")) is None
    assert reading.complaint(recorded("salloc-busy.txt")) == "Unable to allocate resources: Requested nodes are busy"
    assert reading.complaint(" \n") == "it did not say why"


def test_limits_of_the_version_here_and_of_others() -> None:
    configuration = reading.read_configuration(recorded("show-config-24.11.txt"))
    limits = Limits.of(reading.read_version("slurm-wlm 24.11.5"), configuration)
    assert limits == Limits(version=(24, 11, 5), auth="auth/slurm", expansion=True, once=False)
    assert limits.sentences() == (
        "Slurm 24.11.5, auth/slurm",
        "jobs grow by companion jobs or by expansion (--grow-by expand)",
    )
    old = Limits.of((22, 5, 8), reading.read_configuration(recorded("show-config-22.05.txt")))
    assert old == Limits(version=(22, 5, 8), auth="auth/none", expansion=True, once=True)
    assert "only once" in " ".join(old.sentences())
    assert not Limits.of((22, 5, 8), {"AccountingStorageType": "accounting_storage/slurmdbd"}).once
    assert "another version" in " ".join(Limits.of((30, 5, 0), {}).sentences())
    with pytest.raises(ReadingError, match="no version"):
        reading.read_version("command not found")
