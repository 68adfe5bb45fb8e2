"""The other forms of workloads, their cleaning and conversion, and writing them."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from scheduler_bridge import policies
from scheduler_bridge.model import InvalidJobError
from scheduler_bridge.record import JobRecord, RunRecord, Segment, encode_record
from scheduler_bridge.sim import replay
from scheduler_bridge.workloads import (
    TraceError,
    TraceJob,
    Workload,
    convert,
    load,
    make_evolving,
    mebf_rule,
    read_swf,
    workload_of,
    write_swf,
)
from scheduler_bridge.workloads.accounting import read_clean_csv
from scheduler_bridge.workloads.elastisim import read_elastisim

CORI = '"Job","Host Name","Partition","QOS","Submit","Start","End","Elapsed Secs","Nodes Allocated","Raw Hours"'


def counts(workload: Workload) -> dict[str, int]:
    return {reason: found.count for _, reason, found in workload.findings.rows()}


def cori(
    job: str, start: str, end: str, seconds: int, nodes: int = 2, hours: float | None = None, queue: str = "regular_knl"
) -> str:
    raw = nodes * seconds / 3600 if hours is None else hours
    return f'"{job}","cori knl","{queue}","q","2022-11-06 20:00:00","{start}","{end}","{seconds}","{nodes}","{raw}"'


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_records_split_at_midnight_become_one_job(tmp_path: Path) -> None:
    path = write(
        tmp_path / "cori.csv",
        CORI,
        cori("7_1", "2022-11-06 23:00:00", "2022-11-06 23:59:59", 3599),
        cori("7_1", "2022-11-07 00:00:00", "2022-11-07 23:59:59", 86399),
        cori("7_1", "2022-11-06 23:00:00", "2022-11-06 23:59:59", 3599),
        cori("7_1", "2022-11-08 00:00:00", "2022-11-08 01:00:00", 3600),
    )
    workload = read_clean_csv([path])
    (job,) = workload.jobs
    assert (job.runtime_s, job.nodes, job.wait_s, job.name) == (26 * 3600, 2, 3 * 3600, "7_1")
    assert job.walltime_s == 1.25 * job.runtime_s
    assert workload.nodes == 9688
    assert counts(workload) == {
        "part of a job, merged": 2,
        "recorded twice": 1,
        "no estimate: 1.25 times the runtime": 1,
    }


def test_every_run_of_a_requeued_job_is_a_job(tmp_path: Path) -> None:
    path = write(
        tmp_path / "cori.csv",
        CORI,
        cori("7", "2022-11-06 23:20:00", "2022-11-06 23:35:00", 900),
        cori("7", "2022-11-06 23:00:00", "2022-11-06 23:10:00", 600),
    )
    workload = read_clean_csv([path])
    assert [(job.job_id, job.wait_s, job.runtime_s) for job in workload.jobs] == [(7, 10_800, 600), (8, 12_000, 900)]
    assert counts(workload)["run of a requeued job: a new id"] == 1


def test_jobs_that_share_nodes_are_dropped_and_their_hours_reported(tmp_path: Path) -> None:
    path = write(
        tmp_path / "cori.csv",
        CORI,
        cori("1", "2022-11-06 21:00:00", "2022-11-06 22:00:00", 3600),
        cori("2", "2022-11-06 21:00:00", "2022-11-06 22:00:00", 3600, nodes=1, hours=0.25),
        cori("3", "2022-11-06 21:00:00", "2022-11-06 22:00:00", 3600, nodes=1, queue="shared"),
        cori("4", "2022-11-06 21:00:00", "2022-11-06 21:00:01", 1, nodes=1, hours=1 / 3600 / 32),
    )
    workload = read_clean_csv([path])
    assert [job.job_id for job in workload.jobs] == [1]
    assert workload.findings.skipped["shared its nodes"].count == 3
    assert workload.findings.skipped["shared its nodes"].node_hours == pytest.approx(2 + 1 / 3600)
    assert len(read_clean_csv([path], drop_shared=False)) == 4


def test_partitions_of_others_are_left_out(tmp_path: Path) -> None:
    path = write(
        tmp_path / "cori.csv",
        CORI,
        cori("1", "2022-11-06 21:00:00", "2022-11-06 22:00:00", 3600),
        cori("2", "2022-11-06 21:00:00", "2022-11-06 22:00:00", 3600, queue="genepool"),
    )
    workload = read_clean_csv([path])
    assert [job.job_id for job in workload.jobs] == [1]
    assert counts(workload)["in a partition of others"] == 1


def test_files_of_two_machines_are_not_mixed(tmp_path: Path) -> None:
    line = cori("1", "2022-11-06 21:00:00", "2022-11-06 22:00:00", 3600)
    path = write(tmp_path / "cori.csv", CORI, line, line.replace("cori knl", "cori haswell"))
    with pytest.raises(TraceError, match="cori knl"):
        read_clean_csv([path])


def test_unknown_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="unknown columns a, b"):
        load(write(tmp_path / "x.csv", "a,b", "1,2"))


def test_the_samples_of_real_machines(data_folder: Path) -> None:
    eagle = load(data_folder / "traces/eagle_sample_1000.csv")
    assert (len(eagle), eagle.nodes) == (996, 2568)
    assert counts(eagle) == {
        "on nodes with GPUs": 4,
        "task of an array: a new id": 451,
        "ran longer than its estimate": 11,
    }
    theta = load(data_folder / "traces/lumos_data_theta.csv.gz")
    assert (len(theta), theta.nodes) == (14_366, 4360)


@pytest.mark.parametrize(("part", "jobs", "nodes"), [("knl", 41_524, 9688), ("haswell", 28_243, 2388)])
def test_the_logs_of_cori_have_the_jobs_of_the_2025_paper(data_folder: Path, part: str, jobs: int, nodes: int) -> None:
    workload = load(data_folder / f"traces/cori_{part}_2022-11-07_11.csv.gz")
    assert (len(workload), workload.nodes) == (jobs, nodes)


def test_elastisim_formulas_give_runtimes(data_folder: Path) -> None:
    workload = read_elastisim(data_folder / "reference/elastisim-small-golden/jobs.json")
    assert (len(workload), workload.nodes) == (58, 32)
    first = workload.jobs[0]
    assert (first.min_nodes, first.nodes, first.max_nodes, first.steps) == (2, 8, 16, 387)
    alone_s = 1.8604448391360186e17 / 1e12
    assert first.runtime_s == pytest.approx(alone_s * (0.035 + 0.965 / 8))


def test_the_rule_of_efficiencies_gives_the_bounds_of_the_reference(data_folder: Path) -> None:
    folder = data_folder / "reference/elastisim-small-golden"
    given = json.loads((folder / "jobs.json").read_text())["jobs"]
    rigid = [
        structs.replace(job, job_class="rigid", min_nodes=job.nodes, max_nodes=job.nodes, speedup="linear")
        for job in read_elastisim(folder / "jobs.json").jobs
    ]
    converted = convert(Workload("golden", 16, tuple(rigid)), 1.0, 0)
    assert [(job.min_nodes, job.max_nodes, job.speedup) for job in converted.jobs] == [
        (job["num_nodes_min"], job["num_nodes_max"], f"amdahl:{job['arguments']['parallel_percentage']}")
        for job in given
    ]


@pytest.mark.parametrize(("tasks", "what"), [("mpi", "task of type"), (None, "no phases")])
def test_elastisim_models_with_more_than_computation_are_refused(tmp_path: Path, tasks: str | None, what: str) -> None:
    phases = [{"tasks": [{"type": tasks, "flops": 1}]}] if tasks else []
    write(tmp_path / "application_model.json", json.dumps({"phases": phases}))
    job = {"type": "RIGID", "submit_time": 0, "num_nodes": 1, "application_model": "application_model.json"}
    path = write(tmp_path / "jobs.json", json.dumps({"jobs": [job]}))
    with pytest.raises(TraceError, match=what):
        read_elastisim(path, flops_per_s=1e9)


def elastisim(folder: Path, *jobs: dict[str, object], nodes: int = 8) -> Path:
    write(folder / "crossbar.xml", f'<cluster radical="0-{nodes - 1}" speed="1Gf"/>')
    phases = [{"tasks": [{"type": "cpu", "flops": "flops / num_nodes"}]}]
    write(folder / "application_model.json", json.dumps({"phases": phases}))
    entries = [{"submit_time": 0, "application_model": "application_model.json", **job} for job in jobs]
    return write(folder / "jobs.json", json.dumps({"jobs": entries}))


def elastisim_job(
    kind: str, low: int, high: int, prefers: int, *, runtime_s: float = 10, **more: object
) -> dict[str, object]:
    arguments = {"flops": runtime_s * 1e9 * prefers, "num_nodes_pref": prefers}
    if "id" in more:
        arguments["id"] = float(str(more.pop("id")))
    return {"type": kind, "num_nodes_min": low, "num_nodes_max": high, "arguments": arguments, **more}


def test_elastisim_jobs_are_left_out_or_kept_by_rules(tmp_path: Path) -> None:
    path = elastisim(
        tmp_path,
        elastisim_job("malleable", 1, 4, 2, id=1),
        elastisim_job("malleable", 1, 4, 2, id=1, submit_time=1),
        elastisim_job("rigid", 200, 200, 200, id=2),
        elastisim_job("malleable", 9, 20, 12, id=3),
        elastisim_job("malleable", 4, 20, 12, id=4),
        elastisim_job("moldable", 2, 6, 4, id=5),
        elastisim_job("adaptive", 2, 6, 4, id=6),
        elastisim_job("evolving", 2, 6, 4, id=7),
        elastisim_job("elastic", 2, 6, 4, id=8),
        elastisim_job("malleable", 2, 6, 4, id=9, submit_time=1e300),
        elastisim_job("malleable", 2, 6, 4, id=10, runtime_s=0),
        elastisim_job("malleable", 2, 6, 4, id=1.5),
    )
    workload = read_elastisim(path)
    assert [(job.job_id, job.job_class, job.min_nodes, job.nodes, job.max_nodes) for job in workload.jobs] == [
        (1, "malleable", 1, 2, 4),
        (4, "malleable", 4, 8, 8),
        (5, "rigid", 4, 4, 4),
        (6, "malleable", 2, 4, 6),
        (7, "rigid", 4, 4, 4),
    ]
    assert counts(workload) == {
        "larger than the machine (8 nodes)": 2,
        "an id that an earlier record has": 1,
        "broken: unknown type ELASTIC": 1,
        "broken: times out of range": 1,
        "broken: runtime out of range": 1,
        "broken: id is no whole number": 1,
        "most nodes beyond the machine: up to all of it": 1,
        "moldable: kept as rigid at the size that it prefers": 1,
        "adaptive: kept as malleable": 1,
        "evolving: kept as rigid at the size that it prefers": 1,
    }
    assert len(replay(workload, policies.get("avg")).result.records) == 5


def test_no_order_of_an_elastisim_file_counts(tmp_path: Path) -> None:
    jobs = [elastisim_job("rigid", 1, 1, 1, runtime_s=seconds) for seconds in (1, 2, 3)]
    jobs += [elastisim_job("rigid", 1, 1, 1, runtime_s=seconds, id=7) for seconds in (4, 5)]
    found = {read_elastisim(elastisim(tmp_path, *order)).jobs for order in itertools.permutations(jobs)}
    assert [[(job.job_id, job.runtime_s) for job in jobs] for jobs in found] == [[(7, 4), (8, 1), (9, 2), (10, 3)]]


def test_job_files(tmp_path: Path) -> None:
    path = write(
        tmp_path / "w.toml",
        "nodes = 8",
        "[[job]]",
        'name = "a"',
        "min_nodes = 1",
        "nodes = 2",
        "max_nodes = 4",
        "runtime_s = 60",
        'speedup = "amdahl:0.9"',
        "[[job]]",
        "count = 2",
        "every_s = 5.0",
        "walltime_s = 100",
    )
    workload = load(path)
    assert workload.nodes == 8
    assert [(job.job_id, job.submit_s, job.job_class, job.runtime_s) for job in workload.jobs] == [
        (0, 0, "malleable", 60),
        (1, 0, "rigid", 100),
        (2, 5, "rigid", 100),
    ]
    with pytest.raises(TraceError, match="job 1: job 0: nodes is 3"):
        load(write(tmp_path / "bad.toml", "[[job]]", "nodes = 3", "max_nodes = 2"))
    with pytest.raises(TraceError, match="count is 0"):
        load(write(tmp_path / "none.toml", "[[job]]", "count = 0"))
    with pytest.raises(TraceError, match="no jobs"):
        load(write(tmp_path / "empty.toml", ""))


@pytest.mark.parametrize("wild", ["nan", "inf", "-inf", "1e300"])
@pytest.mark.parametrize(
    "key",
    ["nodes", "min_nodes", "max_nodes", "count", "steps", "walltime_s", "runtime_s", "submit_s", "every_s", "think_s",
     "rho", "target_efficiency"],
)  # fmt: skip
def test_a_number_of_a_job_file_is_one(tmp_path: Path, key: str, wild: str) -> None:
    what = r"must be a (whole )?number of at most 1e\+15"
    with pytest.raises(TraceError, match=rf"wild.toml: job 1: {key} is {re.escape(repr(float(wild)))}, {what}"):
        load(write(tmp_path / "wild.toml", "[[job]]", "name = 'a'", f"{key} = {wild}"))


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["nodes = nan", "[[job]]", "nodes = 1"], "nodes is nan"),
        (["nodes = 1000000000000", "[[job]]", "nodes = 1"], "1000000000000 nodes are too many"),
        (["nodes = 2", "[[job]]", "nodes = 3"], "a job needs 3 nodes of 2"),
        (["[[job]]", "nodes = 1.5"], "nodes is 1.5, must be a whole number"),
        (["[[job]]", "overhead = [1, nan]"], "overhead is nan, must be a number of at most"),
        (["[[job]]", "overhead = [nan, 1]"], "overhead is nan, must be a number of at most"),
        (["[[job]]", "overhead = []"], r"overhead is \[\], must be two numbers"),
        (["[[job]]", "wishes = [[0.5, 2.7]]"], "wishes is 2.7, must be a whole number"),
        (["[[job]]", "wishes = 1"], "wishes is 1, must be a list"),
        (["[[job]]", "nodes = true"], "nodes is True, must be a whole number"),
    ],
)
def test_a_job_file_that_makes_no_sense_is_refused(tmp_path: Path, lines: list[str], says: str) -> None:
    with pytest.raises(TraceError, match=says):
        load(write(tmp_path / "wild.toml", *lines))


def small(jobs: int = 20) -> Workload:
    return Workload(
        "small",
        64,
        tuple(
            TraceJob(index, float(index), 10.5 + index, 100.0, 1 + index % 32, user="ab"[index % 2])
            for index in range(jobs)
        ),
        start_unix_s=1000,
    )


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    workload = convert(small(), 0.5, 3, mebf_rule("low"))
    first = structs.replace(
        workload.jobs[0], allocations=((0.0, 1), (5.25, 2)), name="a job", wait_s=2.5, queue="long queue"
    )
    workload = replace(workload, jobs=(first, *workload.jobs[1:]))
    assert any(job.overhead for job in workload.jobs)
    for name in ("w.swf", "w.swf.gz"):
        write_swf(replace(workload, synthetic=True), tmp_path / name)
        again = read_swf(tmp_path / name)
        assert [structs.replace(job, processors=0) for job in again.jobs] == list(workload.jobs)
        assert (again.nodes, again.start_unix_s, again.synthetic) == (64, 1000, True)
    assert {path.name for path in tmp_path.iterdir()} == {"w.swf", "w.swf.gz"}
    assert "SYNTHETIC" in (tmp_path / "w.swf").read_text()


def test_comments_that_contradict_their_job_are_reported(tmp_path: Path) -> None:
    write_swf(convert(small(4), 1.0, 3), tmp_path / "w.swf")
    text = (tmp_path / "w.swf").read_text().replace("; Malleable: 2 ", "; Malleable: 2 x")
    workload = read_swf(write(tmp_path / "odd.swf", text))
    assert counts(workload) == {"a comment about it is not understood": 1}
    assert [job.job_id for job in workload.jobs if not job.is_malleable] == [2]


def test_a_larger_share_contains_a_smaller_one() -> None:
    chosen = [
        {job.job_id: job for job in convert(small(), share, 5).jobs if job.is_malleable} for share in (0, 0.2, 0.6, 1)
    ]
    assert [len(jobs) for jobs in chosen] == [0, 4, 12, 20]
    for smaller, larger in itertools.pairwise(chosen):
        assert smaller.items() <= larger.items()
    assert convert(small(), 0.5, 5) == convert(small(), 0.5, 5)
    assert convert(small(), 0.5, 5) != convert(small(), 0.5, 6)
    with pytest.raises(ValueError, match="proportion"):
        convert(small(), 1.5, 0)


def test_a_history_becomes_a_workload(tmp_path: Path) -> None:
    done = JobRecord(
        1,
        "a",
        "u",
        "malleable",
        2,
        1,
        4,
        100.0,
        5.0,
        start_s=10.0,
        end_s=40.0,
        state="completed",
        segments=[Segment(10.0, 20.0, ("n0",)), Segment(20.0, 40.0, ("n0", "n1", "n2"))],
    )
    waiting = JobRecord(2, "b", "u", "rigid", 1, 1, 1, 100.0, 6.0)
    record = RunRecord("easy", ["n0", "n1", "n2"], "2026-01-01T00:00:00+00:00", 40.0, [done, waiting])
    workload = workload_of(record)
    (job,) = workload.jobs
    assert (job.runtime_s, job.wait_s, job.allocations) == (35.0, 5.0, ((0.0, 1), (10.0, 3)))
    assert counts(workload) == {"not over, or never ran": 1}
    (tmp_path / "history.json").write_bytes(encode_record(record))
    assert load(tmp_path / "history.json").jobs == workload.jobs
    with pytest.raises(TraceError, match="no job is over"):
        workload_of(RunRecord("easy", ["n0"], jobs=[waiting]))


def test_unknown_forms_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="unknown form"):
        load(write(tmp_path / "trace.xyz", "1"))


def test_some_malleable_jobs_offer_nodes_and_ask_for_them_again() -> None:
    workload = convert(small(), 0.6, 5)
    evolving = make_evolving(workload, 0.5, 5)
    malleable = [job for job in workload.jobs if job.is_malleable]
    chosen = [job for job in evolving.jobs if job.wishes]
    assert 0 < len(chosen) <= round(0.5 * len(malleable))
    assert [structs.replace(job, wishes=()) for job in evolving.jobs] == list(workload.jobs)
    for job in chosen:
        (first, count), (second, back) = job.wishes
        assert 0.1 <= first <= 0.5 <= second <= 0.9
        assert count == -back
        assert job.min_nodes <= job.nodes + count <= job.max_nodes
    assert {job.job_id for job in chosen} < {job.job_id for job in make_evolving(workload, 1.0, 5).jobs if job.wishes}
    assert make_evolving(workload, 0.5, 5) == evolving
    with pytest.raises(ValueError, match="proportion"):
        make_evolving(workload, 1.1, 5)


def test_some_malleable_jobs_size_themselves(tmp_path: Path) -> None:
    workload = convert(small(), 0.6, 5)
    sizing = make_evolving(workload, 0.5, 5, 0.9)
    chosen = {job.job_id for job in sizing.jobs if job.target_efficiency == 0.9}
    assert {job.job_id for job in make_evolving(workload, 0.5, 5).jobs if job.wishes} <= chosen
    write_swf(sizing, tmp_path / "sizing.swf")
    read = load(tmp_path / "sizing.swf").jobs
    assert {job.job_id for job in read if job.target_efficiency == 0.9} == chosen
    with pytest.raises(InvalidJobError, match="target_efficiency is 2"):
        make_evolving(workload, 0.5, 5, 2.0)
    with pytest.raises(InvalidJobError, match="target_efficiency"):
        TraceJob(1, 0.0, 10.0, 10.0, 2, target_efficiency=0.9)


def test_only_malleable_jobs_have_wishes_in_order() -> None:
    malleable = TraceJob(1, 0.0, 10.0, 10.0, 2, 1, 4, "malleable")
    rigid = TraceJob(1, 0.0, 10.0, 10.0, 2)
    for job, wishes in ((rigid, ((0.5, 1),)), (malleable, ((0.5, 1), (0.2, -1))), (malleable, ((1.0, 1),))):
        with pytest.raises(InvalidJobError, match="wishes"):
            structs.replace(job, wishes=wishes)
