"""The scheduler's history as a workload: what the jobs were, whatever was made of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from scheduler_bridge import policies
from scheduler_bridge.cli.app import run
from scheduler_bridge.core import Settings
from scheduler_bridge.daemon.storage.state import HISTORY
from scheduler_bridge.record import Recorder, RunRecord, encode_record
from scheduler_bridge.sim import ReplayOptions, node_names, replay
from scheduler_bridge.workloads import TraceError, TraceJob, Workload, load, read_swf
from scheduler_bridge.workloads.load import workload_of


def lived(workload: Workload, policy: str, cores: int = 1) -> RunRecord:
    """What the scheduler would have kept of the workload under a policy."""
    recorder = Recorder(node_names(workload.nodes), policy, cores_per_node=cores)
    options = ReplayOptions(settings=Settings(cores_per_node=cores, walltime="scaled"))
    replay(workload, policies.get(policy), options=options, observer=recorder.observe)
    return recorder.record()


def malleable(
    job_id: int, submit_s: float, runtime_s: float, sizes: tuple[int, int, int], rho: float = 0.0
) -> TraceJob:
    low, nodes, high = sizes
    return TraceJob(
        job_id, submit_s, runtime_s, 1.2 * runtime_s, nodes, low, high, "malleable",
        rho=rho, speedup=f"power:{rho!r}" if rho else "linear",
    )  # fmt: skip


def test_a_job_that_shared_its_nodes_is_as_long_as_alone() -> None:
    # Two nodes of four cores. The second job has half of them from 10 s to 110 s, which costs the first one 50 s.
    jobs = (malleable(1, 0, 1000, (1, 2, 2)), malleable(2, 10, 50, (1, 2, 2)))
    record = lived(Workload("two", 2, jobs), "sd-policy", cores=4)
    assert [job.end_s for job in record.jobs] == [1050.0, 110.0]
    assert [job.runtime_s for job in workload_of(record).jobs] == pytest.approx([1000.0, 50.0])


@pytest.mark.parametrize("policy", ["conservative", "avg", "mebf", "best-use"])
def test_a_history_replays_as_it_was(policy: str, tmp_path: Path) -> None:
    # Jobs that grow and shrink, each with its own rho: what comes back is what went in, and behaves as it did.
    draw = random.Random(7)
    jobs = []
    for number in range(30):
        low = draw.randint(1, 3)
        nodes, high = low + draw.randint(0, 3), low + draw.randint(3, 6)
        rho = draw.choice([0.0, 0.1, 0.3])
        jobs.append(malleable(number, 20.0 * number, draw.uniform(50, 500), (low, nodes, high), rho))
    record = lived(Workload("made", 10, tuple(jobs)), policy)
    again = workload_of(record)
    assert policy == "conservative" or any(job.resizes for job in record.jobs)
    for before, after in zip(jobs, again.jobs, strict=True):
        assert (after.job_id, after.rho, after.speedup) == (before.job_id, before.rho, before.speedup)
        assert after.runtime_s == pytest.approx(before.runtime_s)
    (tmp_path / "week.json").write_bytes(encode_record(record))
    ends = [job.end_s for job in lived(load(tmp_path / "week.json"), policy).jobs]
    assert ends == pytest.approx([job.end_s for job in record.jobs])


@pytest.mark.parametrize(
    ("what", "by", "said"),
    [
        (b'"rho":0.0', b'"rho":-1', "job 1: rho is -1.0, must be from 0 to 1"),
        (b'"nodes":2', b'"nodes":0', r"Expected `int` >= 1 - at `\$.jobs\[0\].nodes`"),
        (b'"nodes":2', b'"nodes":"two"', r"Expected `int`, got `str` - at `\$.jobs\[0\].nodes`"),
        (b'"advance":[]', b'"advance":[', "malformed"),
    ],
)
def test_a_history_that_no_scheduler_left_is_refused_as_one(tmp_path: Path, what: bytes, by: bytes, said: str) -> None:
    written = encode_record(lived(Workload("one", 4, (malleable(1, 0, 100, (1, 2, 4)),)), "avg"))
    plain = written.replace(b" ", b"").replace(b"\n", b"")
    assert what in plain
    (tmp_path / "week.json").write_bytes(plain.replace(what, by))
    with pytest.raises(TraceError, match=f"week.json: .*{said}"):
        load(tmp_path / "week.json")


def test_another_law_can_be_assumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # alone, the job starts on all four nodes: 100 s on two are 50 s on four; by Amdahl with 0.5 that is 50 x 1.2 s
    record = lived(Workload("one", 4, (malleable(1, 0, 100, (1, 2, 4)),)), "avg")
    (tmp_path / HISTORY).write_bytes(encode_record(record))
    words = ["report", "--state", str(tmp_path), "--swf", str(tmp_path / "week.swf")]
    for options, law, runtime_s in (((), "linear", 100.0), (("--speedup", "amdahl:0.5"), "amdahl:0.5", 60.0)):
        assert run([*words, *options]) == 0
        (job,) = read_swf(tmp_path / "week.swf").jobs
        assert job.speedup == law
        assert job.runtime_s == pytest.approx(runtime_s)
    assert run([*words, "--speedup", "moore"]) == 2
    assert run(["report", "--state", str(tmp_path), "--speedup", "linear"]) == 2
    assert "--speedup without --swf" in capsys.readouterr().err
