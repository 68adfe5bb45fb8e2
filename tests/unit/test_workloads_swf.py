"""The reader of the Standard Workload Format, by its rules."""

from __future__ import annotations

import gzip
import math
import pickle
from pathlib import Path

import pytest

from scheduler_bridge.workloads import SwfOptions, TraceError, Workload, read_swf, write_swf

GOOD = "1 0 5 100 8 -1 -1 8 200 -1 1 3 4 -1 2 1 -1 -1"


def line(job: int = 1, submit: float = 0, run: float = 100, processors: int = 8, requested_s: float = 200) -> str:
    return f"{job} {submit} 5 {run} {processors} -1 -1 {processors} {requested_s} -1 1 3 4 -1 2 1 -1 -1"


NODES = SwfOptions(nodes=16)
"""Of a machine whose file does not say how many it has."""


def read(tmp_path: Path, *lines: str, options: SwfOptions | None = None) -> Workload:
    path = tmp_path / "small.swf"
    path.write_text("".join(f"{text}\n" for text in lines))
    return read_swf(path, options)


def skipped(workload: Workload) -> dict[str, int]:
    return {reason: found.count for kind, reason, found in workload.findings.rows() if kind == "skipped"}


def noted(workload: Workload) -> dict[str, int]:
    return {reason: found.count for kind, reason, found in workload.findings.rows() if kind == "kept"}


def test_a_line_becomes_a_job(tmp_path: Path) -> None:
    workload = read(tmp_path, "; MaxNodes: 4", "; MaxProcs: 16", "; UnixStartTime: 1000", GOOD)
    (job,) = workload.jobs
    assert (job.job_id, job.submit_s, job.runtime_s, job.walltime_s, job.nodes) == (1, 0, 100, 200, 2)
    assert (job.wait_s, job.user, job.group, job.queue, job.partition, job.processors) == (5, "3", "4", "2", "1", 8)
    assert (job.status, job.job_class, job.min_nodes, job.max_nodes) == ("completed", "rigid", 2, 2)
    assert (workload.nodes, workload.start_unix_s, workload.synthetic) == (4, 1000, False)
    assert not list(workload.findings.rows())


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("2 0 5 100", "not 18 numbers"),
        (GOOD.replace("100", "soon"), "not 18 numbers"),
        (GOOD.replace("100", "nan"), "not 18 numbers"),
        (GOOD.replace("100", "1e300"), "not 18 numbers"),
        (line(2, submit=-7), "submission time negative or unknown"),
        (line(2, run=-1), "runtime negative or unknown"),
        (line(2, run=0), "runtime zero: it never ran"),
        (line(2, processors=-1), "number of processors unknown"),
        (line(2, processors=17), "larger than the machine (4 nodes)"),
        (line(1, submit=9), "an id that an earlier record has"),
        (line(-3), "no id"),
    ],
)
def test_broken_records_are_left_out_and_counted(tmp_path: Path, bad: str, reason: str) -> None:
    workload = read(tmp_path, "; MaxNodes: 4", "; MaxProcs: 16", GOOD, bad)
    assert [job.job_id for job in workload.jobs] == [1]
    assert skipped(workload) == {reason: 1}
    assert workload.findings.skipped[reason].lines == [4]
    assert workload.findings.records == 2


def test_odd_records_are_kept_and_counted(tmp_path: Path) -> None:
    workload = read(tmp_path, line(1, 50, requested_s=-1), line(2, 10, run=300), line(3, 60) + " 0.9", options=NODES)
    assert [job.job_id for job in workload.jobs] == [2, 1, 3]
    assert workload.jobs[1].walltime_s == 125
    assert noted(workload) == {
        "no estimate: 1.25 times the runtime": 1,
        "out of order": 1,
        "ran longer than its estimate": 1,
        "more than 18 fields": 1,
    }


def test_text_that_is_not_utf_8_costs_only_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "odd.swf"
    path.write_bytes(b"; Installation: Universit\xe4t\n" + GOOD.encode() + b"\n\xff\xfe 1 2\n")
    workload = read_swf(path, NODES)
    assert len(workload) == 1
    assert skipped(workload) == {"not UTF-8": 1}
    assert noted(workload) == {"comments that are not UTF-8": 1}


def test_a_file_that_is_cut_off_is_refused_unless_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "cut.swf.gz"
    whole = gzip.compress("".join(f"{line(job, run=job * 7919 % 977 + 1)}\n" for job in range(5000)).encode())
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TraceError, match=r"cut.swf.gz: the compressed file ends early"):
        read_swf(path)
    workload = read_swf(path, SwfOptions(nodes=16, keep_cut_off=True))
    assert 100 < len(workload) < 5000
    assert noted(workload)["the compressed file is cut off here"] == 1


@pytest.mark.parametrize("content", [b"", b"; only comments\n", b"\x00\xff" * 400, b"not a trace\n"])
def test_a_file_without_a_job_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "none.swf"
    path.write_bytes(content)
    with pytest.raises(TraceError, match="no usable job"):
        read_swf(path)


def test_processors_become_nodes(tmp_path: Path) -> None:
    lines = (GOOD, line(2, processors=9))
    by_node = read(tmp_path, "; MaxProcs: 40", *lines, options=SwfOptions(processors_per_node=4))
    assert (by_node.nodes, [job.nodes for job in by_node.jobs]) == (10, [2, 3])
    plain = read(tmp_path, "; MaxProcs: 9", *lines)
    assert (plain.nodes, [job.nodes for job in plain.jobs]) == (9, [8, 9])
    assert read(tmp_path, *lines, options=SwfOptions(nodes=8)).nodes == 8


def test_what_was_requested_or_allocated(tmp_path: Path) -> None:
    text = "1 0 5 100 12 -1 -1 8 200 -1 1 3 4 -1 2 1 -1 -1"
    assert read(tmp_path, text, options=NODES).jobs[0].nodes == 8
    assert read(tmp_path, text, options=SwfOptions(nodes=16, size="allocated")).jobs[0].nodes == 12
    unknown = text.replace(" 8 ", " -1 ")
    assert read(tmp_path, unknown, options=NODES).jobs[0].nodes == 12


def test_filters(tmp_path: Path) -> None:
    other = "2 0 5 100 8 -1 -1 8 200 -1 5 3 4 -1 3 2 -1 -1"
    for options in (
        SwfOptions(nodes=8, partitions=frozenset({2})),
        SwfOptions(nodes=8, queues=frozenset({3})),
        SwfOptions(nodes=8, statuses=frozenset({5})),
    ):
        workload = read(tmp_path, GOOD, other, options=options)
        assert [(job.job_id, job.status) for job in workload.jobs] == [(2, "cancelled")]
        assert workload.findings.total_skipped == 1


def test_times_since_1970_are_brought_to_the_start(tmp_path: Path) -> None:
    workload = read(tmp_path, "; MaxNodes: 9", "; UnixStartTime: 1668693697", line(1, 1668693697), line(2, 1668693700))
    assert [job.submit_s for job in workload.jobs] == [0, 3]


def test_a_window_counts_from_its_beginning(tmp_path: Path) -> None:
    workload = read(
        tmp_path, "; MaxNodes: 9", "; UnixStartTime: 1000", *(line(job, submit=100 * job) for job in range(5))
    )
    window = workload.window(100, 300)
    assert [(job.job_id, job.submit_s) for job in window.jobs] == [(1, 0), (2, 100)]
    assert window.start_unix_s == 1100


def test_synthetic_files_say_so(tmp_path: Path) -> None:
    workload = read(tmp_path, "; Note: SYNTHETIC: drawn by a generator", "; MaxNodes: 9", GOOD)
    assert workload.synthetic
    assert workload.label == "small (synthetic)"


@pytest.mark.parametrize("header", [(), ("; MaxNodes: -1", "; MaxProcs: many")])
def test_a_machine_of_unknown_size_is_refused_with_numbers_that_help(tmp_path: Path, header: tuple[str, ...]) -> None:
    lines = [f"{job} {10 * job} 0 100 4 -1 -1 4 200 -1 1 3 4 -1 2 1 -1 -1" for job in range(20)]
    with pytest.raises(TraceError, match="how many nodes the machine has is not known") as caught:
        read(tmp_path, *header, *lines)
    # 20 jobs of 400 node-seconds in 290 s; ten of them at once, but for the instants at which one follows another
    assert "the largest job has 4" in caught.value.why
    assert "make 28 busy to 100 %, 40 to 70 %" in caught.value.why
    assert "as recorded, up to 40 were in use at once" in caught.value.why
    assert caught.value.hint == "say it, for example --nodes 40"
    assert read(tmp_path, *header, *lines, options=SwfOptions(nodes=40)).nodes == 40


def test_so_is_one_whose_job_is_shorter_than_its_submission_is_exact(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="how many nodes the machine has is not known"):
        read(tmp_path, line(1, 2**53 - 1, run=0.1).replace(" 5 0.1", " -1 0.1"))


def test_a_header_that_cannot_be_is_refused_by_line_and_value(tmp_path: Path) -> None:
    for text in ("; MaxNodes: 1000000000", "; MaxProcs: 1000000000 (cores)"):
        with pytest.raises(TraceError, match=r"small.swf:2: Max\w+ is 1000000000$"):
            read(tmp_path, "; Version: 2", text, GOOD)
        assert read(tmp_path, text, GOOD, options=NODES).nodes == 16


def test_ids_may_have_nineteen_digits(tmp_path: Path) -> None:
    large = 10**18
    text = GOOD.split(" ", 1)[1]
    last = f"{large + 2} {text}".replace(" -1 -1", f" {large + 1} 60").replace(f"8 {large + 1} 60", "8 -1 -1")
    workload = read(tmp_path, f"{large + 1} {text}", last, f"{2**63} {text}", options=NODES)
    assert [(job.job_id, job.preceding_job, job.think_s) for job in workload.jobs] == [
        (large + 1, -1, 0),
        (large + 2, large + 1, 60),
    ]
    assert skipped(workload) == {f"id beyond {2**63 - 1}": 1}
    assert pickle.loads(pickle.dumps(workload)) == workload
    write_swf(workload, tmp_path / "again.swf")
    assert read_swf(tmp_path / "again.swf").jobs[1].preceding_job == large + 1


@pytest.mark.parametrize(
    ("bad", "example"),
    [
        (GOOD.replace("100", "soon"), "run time is 'soon'"),
        (GOOD.replace("-1 -1 8", "-1 x 8"), "used memory is 'x'"),
        ("2 0 5", "3 fields"),
        (line(2, submit=-7), "submit time is -7"),
        (line(2, run=math.inf), "run time is inf"),
        (line(2, run=1e300), "run time is 1e+300"),
    ],
)
def test_the_first_line_field_and_value_of_each_kind_are_named(tmp_path: Path, bad: str, example: str) -> None:
    (found,) = read(tmp_path, GOOD, bad, options=NODES).findings.skipped.values()
    assert (found.lines, found.example) == ([2], example)
    with pytest.raises(TraceError, match="no usable job") as caught:
        read(tmp_path, bad, options=NODES)
    assert f"(line 1: {example})" in caught.value.why


def test_comments_are_understood_wherever_they_stand(tmp_path: Path) -> None:
    other = line(2, 10)
    after = read(tmp_path, GOOD, other, "; MaxNodes: 16", "; User: 3 anna", "; Malleable: 2 4 16 0.1 0 linear")
    before = read(tmp_path, "; MaxNodes: 16", "; User: 3 anna", "; Malleable: 2 4 16 0.1 0 linear", GOOD, other)
    assert after.jobs == before.jobs
    assert [(job.user, job.max_nodes) for job in after.jobs] == [("anna", 8), ("anna", 16)]


def test_the_real_traces_are_read(data_folder: Path) -> None:
    theta = read_swf(data_folder / "traces/theta_2023_feb_dec_dras.swf.gz")
    assert (len(theta), theta.nodes) == (26_671, 4360)
    august = 1690848000 - (theta.start_unix_s or 0)
    assert len(theta.window(august, august + 28 * 86_400)) == 1617
    atlas = read_swf(data_folder / "traces/LLNL-Atlas-2006-2.1-cln.swf.gz")
    assert (len(atlas), atlas.nodes) == (36_600, 1152)
    assert skipped(atlas) == {"runtime zero: it never ran": 7178}
    curie = read_swf(
        data_folder / "traces/CEA-Curie-sample-unfiltered.swf.gz",
        SwfOptions(processors_per_node=16, partitions=frozenset({10})),
    )
    assert (len(curie), curie.nodes) == (18_368, 5832)
