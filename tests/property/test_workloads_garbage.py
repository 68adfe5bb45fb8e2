"""Garbage is refused with a clear error or counted; it never crashes a reader, and never becomes an impossible job."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler_bridge import policies
from scheduler_bridge.sim import replay
from scheduler_bridge.workloads import SwfOptions, TraceError, Workload, load

number = st.one_of(
    st.integers(-2, 50).map(str),
    st.floats(allow_nan=True, allow_infinity=True).map(str),
    st.integers().map(str),
    st.sampled_from(["1e999", "-", "0x7", "١٢", "1_000", "", "1,5"]),
)
records = st.lists(number, min_size=0, max_size=21).map(" ".join)
good = st.builds(
    lambda job, submit, run, size, wall: f"{job} {submit} -1 {run} {size} -1 -1 -1 {wall} -1 1 1 1 -1 1 1 -1 -1",
    st.integers(-1, 9),
    st.integers(-5, 90),
    st.integers(-2, 90),
    st.integers(-1, 9),
    st.integers(-1, 90),
)
header = st.sampled_from(["; MaxNodes: 4", "; MaxProcs: 8", "; MaxNodes: -3", "; MaxProcs: many", "; UnixStartTime: x"])
content = st.one_of(
    st.binary(max_size=300),
    st.lists(st.one_of(records, good, header, st.text(max_size=20)), max_size=30).map(lambda x: "\n".join(x).encode()),
)


def check(workload: Workload) -> None:
    assert workload.jobs
    assert len({job.job_id for job in workload.jobs}) == len(workload)
    assert [job.submit_s for job in workload.jobs] == sorted(job.submit_s for job in workload.jobs)
    assert len(workload) + workload.findings.total_skipped == workload.findings.records
    for job in workload.jobs:
        assert 1 <= job.nodes <= workload.nodes
        assert job.runtime_s > 0
        assert math.isfinite(job.spec().walltime_s)
    records = replay(workload, policies.get("avg")).result.records
    assert all(record.end_s is not None and math.isfinite(record.end_s) for record in records.values())


def attempt(path: Path, options: SwfOptions | None = None) -> None:
    refusal: TraceError | None = None
    try:
        workload = load(path, swf=options)
    except TraceError as error:
        refusal = error
    else:
        check(workload)
    assert refusal is None or (str(path) in str(refusal) and refusal.hint)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=120, deadline=None)
@given(content=content, nodes=st.one_of(st.none(), st.integers(1, 8)), per_node=st.one_of(st.none(), st.integers(1, 4)))
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes, nodes: int | None, per_node: int | None) -> None:
    path = tmp_path / "any.swf"
    path.write_bytes(content)
    attempt(path, SwfOptions(nodes=nodes, processors_per_node=per_node))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)
@given(lines=st.lists(good, min_size=1, max_size=40), cut=st.floats(0, 1), noise=st.binary(max_size=20))
def test_damaged_archives_are_refused_or_their_beginning_is_read(
    tmp_path: Path, lines: list[str], cut: float, noise: bytes
) -> None:
    path = tmp_path / "damaged.swf.gz"
    whole = gzip.compress("\n".join(lines).encode())
    path.write_bytes(whole[: int(cut * len(whole))] + noise)
    for keep in (False, True):
        attempt(path, SwfOptions(keep_cut_off=keep))


COLUMNS = (
    "job_id,submit_time,nodes_req,run_time,wallclock_req,gpus_req,state",
    "Job,Submit,Start,End,Elapsed Secs,Nodes Allocated,Raw Hours,Host Name",
    "job,submit_time,node_num,run_time,wall_time,wait_time",
)
cell = st.one_of(
    number, st.sampled_from(["2022-11-06 23:00:00", "2022-11-07 00:00:00", "0001-01-01", '"', '"a,b"', "²"])
)
rows = st.lists(cell, min_size=4, max_size=9).map(",".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=120, deadline=None)
@given(header=st.sampled_from(COLUMNS), lines=st.lists(st.one_of(rows, st.text(max_size=30)), max_size=20))
def test_any_accounting_file_is_read_or_refused(tmp_path: Path, header: str, lines: list[str]) -> None:
    path = tmp_path / "any.csv"
    path.write_bytes("\n".join([header, *lines]).encode("utf-8", "surrogatepass"))
    attempt(path)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)
elastisim_job = st.fixed_dictionaries(
    {"application_model": st.just("m.json")},
    optional={
        "type": st.one_of(st.sampled_from(["MALLEABLE", "rigid", "moldable"]), json_values),
        "submit_time": st.one_of(st.integers(0, 9), json_values),
        "num_nodes_min": st.one_of(st.integers(1, 4), json_values),
        "num_nodes_max": st.one_of(st.integers(1, 9), json_values),
        "arguments": st.one_of(
            st.fixed_dictionaries({"f": st.floats()}, optional={"id": st.integers(-1, 2)}),
            json_values,
        ),
    },
)
formula = st.one_of(
    st.just("f / num_nodes"), st.text("f()+-*/. 0129num_ods", max_size=12), st.just("9" * 400), st.floats().map(str)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=120, deadline=None)
@given(jobs=st.one_of(json_values, st.lists(elastisim_job, max_size=4)), flops=formula, noise=st.binary(max_size=3))
def test_any_elastisim_file_is_read_or_refused(tmp_path: Path, jobs: object, flops: str, noise: bytes) -> None:
    (tmp_path / "crossbar.xml").write_text('<cluster radical="0-7" speed="1Gf"/>')
    model = {"phases": [{"tasks": [{"type": "cpu", "flops": flops}]}]}
    (tmp_path / "m.json").write_text(json.dumps(model))
    path = tmp_path / "any.json"
    path.write_bytes(json.dumps({"jobs": jobs}).encode() + noise)
    attempt(path)


keys = st.sampled_from(["nodes", "max_nodes", "count", "runtime_s", "class", "rho", "steps"])
toml_values = st.sampled_from(
    ["1", "3", "-2", "1e3", "inf", "nan", "true", '"malleable"', "[1]", "9" * 30, "2000-01-01"]
)
toml_lines = st.one_of(st.just("[[job]]"), st.builds("{} = {}".format, keys, toml_values), st.text(max_size=10))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=120, deadline=None)
@given(lines=st.lists(toml_lines, max_size=12))
def test_any_job_file_is_read_or_refused(tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "any.toml"
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    attempt(path)
