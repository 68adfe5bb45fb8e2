"""What the table of the queue says about a job."""

from __future__ import annotations

import pytest

from scheduler_bridge.cli.queue import _remark
from scheduler_bridge.live import JobStatus


@pytest.mark.parametrize(
    ("state", "progress", "total", "remark"),
    [
        ("running", 56_057_900.0, None, "56.1 M nodes"),
        ("running", 2.5e9, 1e10, "25 % of 10 G nodes"),
        ("running", None, None, "told to grow by 1 node: idle nodes"),
        ("waiting", None, None, "told to grow by 1 node: idle nodes"),
    ],
)
def test_progress_is_said_in_words(state: str, progress: float | None, total: float | None, remark: str) -> None:
    job = JobStatus(
        job=1, name="uts", user="me", job_class="malleable", state=state, nodes=("a",), wanted_nodes=1, min_nodes=1,
        max_nodes=2, walltime_s=60.0, submit_s=0.0, start_s=0.0, end_s=None, grows=0, shrinks=0,
        reason="told to grow by 1 node:\nidle nodes", progress=progress, progress_total=total, progress_unit="nodes",
    )  # fmt: skip
    assert _remark(job, 0.0) == remark
