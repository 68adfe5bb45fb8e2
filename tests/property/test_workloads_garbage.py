"""Garbage is refused with a clear error or counted; it never crashes a reader, and never becomes an impossible job."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler_bridge.workloads import SwfOptions, TraceError, Workload, read_swf

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


def attempt(path: Path, options: SwfOptions) -> None:
    refusal: TraceError | None = None
    try:
        workload = read_swf(path, options)
    except TraceError as error:
        refusal = error
    else:
        check(workload)
    assert refusal is None or (str(path) in str(refusal) and refusal.hint)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
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
