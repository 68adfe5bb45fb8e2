"""How the nodes of an allocation are, by what Slurm says of them."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest
from support import PATIENCE_S

from scheduler_bridge.backends.hosts import Host
from scheduler_bridge.backends.slurm import JobInfo, Slurm, SlurmError, reading
from scheduler_bridge.backends.slurm.backend import Looker, Sight, judge_nodes
from scheduler_bridge.backends.slurm.driver import CALL_S
from scheduler_bridge.backends.slurm.reading import NodeInfo, ReadingError

SINFO = """\
host1|allocated|none
host1|allocated|none
host2|draining|disk full | soon
host3|down*|Not responding
host4|mixed*|none
host5|idle~|(null)
"""
JOB = JobInfo(7, "RUNNING", ("host1", "host2", "host4"))


def test_sinfo_is_read() -> None:
    assert reading.read_nodes(SINFO) == (
        NodeInfo("host1", "allocated"),
        NodeInfo("host2", "draining", reason="disk full | soon"),
        NodeInfo("host3", "down", answers=False, reason="Not responding"),
        NodeInfo("host4", "mixed", answers=False),
        NodeInfo("host5", "idle"),
    )
    for text in ("host1", "host1|idle", "|idle|none", "host1||none"):
        with pytest.raises(ReadingError, match="sinfo is not understood"):
            reading.read_nodes(text)


@pytest.mark.parametrize(
    ("name", "complaint", "doubtful"),
    [
        ("host1", "", False),
        ("host2", "", False),
        ("host3", "Slurm has taken it out of job 7: it is down (Not responding)", False),
        ("host4", "it does not answer Slurm", True),
        ("host5", "Slurm has taken it out of job 7: it is idle", False),
        ("host6", "Slurm has taken it out of job 7", False),
    ],
)
def test_what_follows_for_a_node(name: str, complaint: str, doubtful: bool) -> None:
    assert judge_nodes([name], JOB, reading.read_nodes(SINFO)) == {name: Sight(complaint, doubtful)}


def test_a_node_that_is_down_is_dead_also_while_the_job_has_it() -> None:
    found = judge_nodes(["host1"], JOB, [NodeInfo("host1", "down")])
    assert found == {"host1": Sight("Slurm says that it is down")}


def test_nothing_is_known_of_the_nodes_of_a_job_that_has_none_any_more() -> None:
    assert judge_nodes(["host1"], JobInfo(7, "COMPLETING", ()), ())["host1"].doubtful


def test_a_node_of_which_slurm_says_nothing_is_fit_while_the_job_has_it() -> None:
    assert judge_nodes(["host1"], JOB, ()) == {"host1": Sight()}


class Played(Slurm):
    """Says what the test wants; waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.go = threading.Event()
        self.silent = False

    def job(self, number: int, within_s: float = 0.0) -> JobInfo:
        assert number == 7
        self.asked += 1
        assert self.go.wait(PATIENCE_S)
        if self.silent:
            raise SlurmError("no controller")
        return JOB

    def nodes(self, names: tuple[str, ...]) -> tuple[NodeInfo, ...]:
        return tuple(info for info in reading.read_nodes(SINFO) if info.node in names)


def hosts(*names: str) -> list[Host]:
    return [Host(name, name) for name in names]


def look(slurm: Played, *names: str) -> list[str | None]:
    async def all_at_once() -> list[str | None]:
        looker = Looker(slurm, 7, lambda: names)
        looks = [asyncio.create_task(looker.look(host)) for host in hosts(*names)]
        while not slurm.asked:
            await asyncio.sleep(0)
        slurm.go.set()
        return await asyncio.gather(*looks)

    return asyncio.run(all_at_once())


def test_one_answer_tells_of_all_nodes() -> None:
    slurm = Played()
    assert look(slurm, "host1", "host3", "host4") == [
        "", "Slurm has taken it out of job 7: it is down (Not responding)", None,
    ]  # fmt: skip
    assert slurm.asked == 1


def test_where_slurm_is_silent_nothing_follows(caplog: pytest.LogCaptureFixture) -> None:
    slurm = Played()
    slurm.silent = True
    assert look(slurm, "host1", "host3") == [None, None]
    assert [record.message for record in caplog.records] == ["Slurm does not say how the nodes are: no controller"]


def test_nodes_of_a_job_that_failed_have_to_be_fit_beyond_doubt() -> None:
    slurm = Played()
    slurm.go.set()
    complaints = asyncio.run(Looker(slurm, 7, tuple).complaints(hosts("host1", "host3", "host4")))
    assert sorted(complaints) == ["host3", "host4"]


def test_a_node_that_is_lent_is_judged_by_how_it_is_itself() -> None:
    """It is none of the job's; when it is lent no more, it is as one that Slurm has taken out."""
    slurm = Played()
    slurm.go.set()
    lent = ["host3", "host9"]
    looker = Looker(slurm, 7, tuple, lambda: lent)
    assert asyncio.run(looker.complaints(hosts(*lent))) == {"host3": "Slurm says that it is down (Not responding)"}
    gone = asyncio.run(Looker(slurm, 7, tuple, list).complaints(hosts("host9")))
    assert gone == {"host9": "Slurm has taken it out of job 7"}


def test_whoever_ends_waits_for_no_answer_of_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("scontrol", "sinfo", "squeue", "sbatch"):
        (tmp_path / command).write_text(f"#!/bin/sh\ntouch {tmp_path}/called\nexec sleep 1000\n")
        (tmp_path / command).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    async def ending() -> dict[str, str]:
        looker = Looker(Slurm(), 7, tuple)
        asked = asyncio.create_task(looker.complaints(hosts("host1")))
        while not (tmp_path / "called").exists():
            await asyncio.sleep(0.01)
        looker.stop()
        return {**await asked, **await looker.complaints(hosts("host1"))}

    began_s = time.monotonic()
    assert asyncio.run(ending()) == {}
    assert time.monotonic() - began_s < CALL_S / 2
