"""What the table of the queue says about a job."""

from __future__ import annotations

import msgspec
import pytest

from scheduler_bridge.cli.queue import queue_lines
from scheduler_bridge.cli.queue import remark as worded
from scheduler_bridge.daemon import JobStatus

JOB = JobStatus(
    job=1, name="uts", user="me", job_class="malleable", state="running", nodes=("a",), wanted_nodes=1, min_nodes=1,
    max_nodes=2, walltime_s=60.0, submit_s=0.0, start_s=0.0, end_s=None, grows=0, shrinks=0,
    reason="ordered to grow by 1 node:\nidle nodes", progress_unit="nodes",
)  # fmt: skip


@pytest.mark.parametrize(
    ("state", "progress", "total", "remark"),
    [
        ("running", 56_057_900.0, None, "56.1 M nodes"),
        ("running", 2.5e9, 1e10, "25 % of 10 G nodes"),
        ("running", None, None, "ordered to grow by 1 node: idle nodes"),
        ("waiting", None, None, "ordered to grow by 1 node: idle nodes"),
    ],
)
def test_progress_is_said_in_words(state: str, progress: float | None, total: float | None, remark: str) -> None:
    job = msgspec.structs.replace(JOB, state=state, progress=progress, progress_total=total)
    assert worded(job, 0.0) == remark


@pytest.mark.parametrize(
    ("changes", "heads"),
    [
        ({}, []),
        ({"user": "you"}, ["USER"]),
        ({"priority": 3}, ["PRIO"]),
        ({"user": "you", "priority": 3}, ["USER", "PRIO"]),
    ],
)
def test_who_and_how_urgent_is_said_where_it_differs(changes: dict[str, object], heads: list[str]) -> None:
    lines = queue_lines([JOB, msgspec.structs.replace(JOB, job=2, **changes)], 0.0, None)
    words = lines.head.plain.split()
    assert [head for head in words if head in ("USER", "PRIO")] == heads
    assert all(str(value) in lines.jobs[1][0].plain for value in changes.values())


def test_a_long_remark_leaves_room_for_other_jobs() -> None:
    failed = msgspec.structs.replace(JOB, state="failed", reason="word " * 400)
    on_terminal, elsewhere = (queue_lines([failed], 0.0, width).jobs[0] for width in (80, None))
    assert len(on_terminal) < 12
    assert on_terminal[-1].plain.endswith("… (malleable explain)")
    assert elsewhere[0].plain.count("word") == 400


@pytest.mark.parametrize(
    ("reason", "remark"),
    [
        ("2 nodes are reserved for job 2 at 123.2 s", "2 nodes are reserved for job 2 in 23 s"),
        ("it may end at 90 s", "it may end 10 s ago"),
        ("it ends before 700.0 s", "it ends within 10.0 min"),
        ("kept until 102 s; no outcome within 60 s", "kept for 2.0 s more; no outcome within 60 s"),
        ("kept until 95 s", "kept until 5.0 s ago"),
    ],
)
def test_times_in_remarks_count_from_now(reason: str, remark: str) -> None:
    assert worded(msgspec.structs.replace(JOB, state="waiting", reason=reason), 100.0) == remark
