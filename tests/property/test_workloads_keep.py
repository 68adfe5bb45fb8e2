"""What must stay: jobs through a file and back, and bounds through every conversion."""

from __future__ import annotations

import random
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from scheduler_bridge.workloads import (
    TraceJob,
    Workload,
    amdahl_logs_rule,
    amdahl_rule,
    convert,
    in_order,
    mebf_rule,
    read_swf,
    write_swf,
)
from scheduler_bridge.workloads.accounting import read_clean_csv
from scheduler_bridge.workloads.conversion import Rule

NODES = 64
seconds = st.one_of(st.integers(1, 10**7).map(float), st.floats(1e-3, 1e7))
words = st.text("abc _-:;=", min_size=1, max_size=8).map(str.split).map(" ".join)


@st.composite
def jobs(draw: st.DrawFn, job_id: int) -> TraceJob:
    low, nodes, high = sorted(draw(st.lists(st.integers(1, NODES), min_size=3, max_size=3)))
    malleable = draw(st.booleans())
    shares = sorted(draw(st.lists(st.floats(0, 1, exclude_max=True), max_size=3))) if malleable else []
    sizes = draw(st.lists(st.tuples(seconds, st.integers(1, NODES)), max_size=3))
    return TraceJob(
        job_id=job_id,
        submit_s=draw(seconds),
        runtime_s=draw(seconds),
        walltime_s=draw(seconds),
        nodes=nodes,
        min_nodes=low if malleable else nodes,
        max_nodes=high if malleable else nodes,
        job_class="malleable" if malleable else "rigid",
        user=draw(words),
        name=draw(words),
        wait_s=draw(st.one_of(st.none(), seconds)),
        status=draw(st.sampled_from(["completed", "failed", "cancelled", "unknown"])),
        rho=draw(st.floats(0, 1)) if malleable else 0.0,
        speedup=draw(st.sampled_from(["linear", "amdahl:0.99", "table:1=9.5,2=5.25"])) if malleable else "linear",
        steps=draw(st.integers(0, 9)) if malleable else 0,
        queue=draw(words),
        processors=nodes,
        allocations=tuple(sizes),
        wishes=tuple((share, draw(st.integers(-NODES, NODES))) for share in shares),
    )


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    ids = draw(st.lists(st.integers(0, 99), min_size=1, max_size=6, unique=True))
    return Workload("any", NODES, in_order(draw(jobs(job_id)) for job_id in ids), synthetic=draw(st.booleans()))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80, deadline=None)
@given(workload=workloads())
def test_what_is_written_is_read_again(tmp_path: Path, workload: Workload) -> None:
    path = tmp_path / "any.swf"
    write_swf(workload, path)
    again = read_swf(path)
    assert again.jobs == workload.jobs
    assert (again.nodes, again.synthetic) == (NODES, workload.synthetic)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(workload=workloads(), order=st.randoms(use_true_random=False))
def test_the_order_of_the_records_does_not_matter(tmp_path: Path, workload: Workload, order: random.Random) -> None:
    head = "; MaxNodes: 64\n"
    lines = [f"{job.job_id} {int(job.submit_s) % 3} -1 9 1 -1 -1 1 9 -1 1 1 1 -1 1 1 -1 -1\n" for job in workload.jobs]
    (tmp_path / "one.swf").write_text(head + "".join(lines))
    order.shuffle(lines)
    (tmp_path / "other.swf").write_text(head + "".join(lines))
    assert read_swf(tmp_path / "one.swf").jobs == read_swf(tmp_path / "other.swf").jobs


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(
    records=st.lists(st.tuples(*[st.integers(1, 2)] * 5), min_size=1, max_size=8),
    order=st.randoms(use_true_random=False),
)
def test_nor_does_it_where_records_have_one_id(
    tmp_path: Path, records: list[tuple[int, ...]], order: random.Random
) -> None:
    swf = [f"{job} {at} -1 {run} 1 -1 -1 {size} 9 -1 1 {user} 1 -1 1 1 -1 -1\n" for job, at, run, size, user in records]
    csv = [",".join(map(str, record)) + "\n" for record in records]
    head = "job,submit_time,run_time,node_num,wall_time\n"
    for lines, name, text, read in (
        (swf, "any.swf", "; MaxNodes: 2\n", read_swf),
        (csv, "any.csv", head, read_one_csv),
    ):
        (tmp_path / name).write_text(text + "".join(lines))
        before = read(tmp_path / name).jobs
        order.shuffle(lines)
        (tmp_path / name).write_text(text + "".join(lines))
        assert read(tmp_path / name).jobs == before


def read_one_csv(path: Path) -> Workload:
    return read_clean_csv([path])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(
    tasks=st.lists(st.tuples(st.sampled_from("123"), st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=8),
    letters=st.booleans(),
    order=st.randoms(use_true_random=False),
)
def test_nor_does_it_where_ids_are_words_or_shared_by_the_tasks_of_an_array(
    tmp_path: Path, tasks: list[tuple[str, int, int]], letters: bool, order: random.Random
) -> None:
    lines = [f"{'j' if letters else ''}{job},{submit_s},{run_s},1\n" for job, submit_s, run_s in tasks]
    head = "job_id,submit_time,run_time,nodes_req\n"
    (tmp_path / "one.csv").write_text(head + "".join(lines))
    order.shuffle(lines)
    (tmp_path / "other.csv").write_text(head + "".join(lines))
    assert read_clean_csv([tmp_path / "one.csv"]).jobs == read_clean_csv([tmp_path / "other.csv"]).jobs


def test_one_number_written_in_two_ways_is_one_id(tmp_path: Path) -> None:
    path = tmp_path / "any.csv"
    path.write_text("job,submit_time,run_time,wall_time,node_num\n7,0,5,9,1\n007,1,5,9,1\n")
    assert [job.job_id for job in read_clean_csv([path]).jobs] == [7]


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=30),
    share=st.floats(0, 1),
    seed=st.integers(0, 5),
    rule=st.sampled_from([amdahl_rule, amdahl_logs_rule, mebf_rule("high"), mebf_rule("medium"), mebf_rule("low")]),
)
def test_bounds_include_the_size_and_fit_the_machine(sizes: list[int], share: float, seed: int, rule: Rule) -> None:
    machine = max(sizes)
    rigid = Workload("any", machine, tuple(TraceJob(job, 0.0, 9.0, 9.0, size) for job, size in enumerate(sizes)))
    converted = convert(rigid, share, seed, rule)
    assert sum(job.is_malleable for job in converted.jobs) == round(share * len(sizes))
    for before, after in zip(rigid.jobs, converted.jobs, strict=True):
        assert 1 <= after.min_nodes <= before.nodes <= after.max_nodes <= machine
        assert after.nodes == before.nodes
        if not after.is_malleable:
            assert structs.replace(after) == before
