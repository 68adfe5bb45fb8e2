"""What users used."""

from __future__ import annotations

import pytest

from scheduler_bridge.record import JobRecord, JobState, RunRecord, Segment, UserUse, use_by_user


def job(
    job_id: int, user: str, state: JobState, start_s: float | None, end_s: float | None, *parts: Segment
) -> JobRecord:
    return JobRecord(
        job_id,
        "j",
        user,
        "rigid",
        1,
        1,
        1,
        100.0,
        10.0,
        start_s=start_s,
        end_s=end_s,
        state=state,
        segments=list(parts),
    )


def test_users_are_summed_up_over_runs() -> None:
    first = RunRecord(
        "easy",
        ["a", "b"],
        jobs=[
            job(1, "anna", "completed", 20.0, 70.0, Segment(20.0, 50.0, ("a",)), Segment(50.0, 70.0, ("a", "b"))),
            job(2, "ben", "failed", 30.0, 40.0, Segment(30.0, 40.0, ("b",), share=0.5)),
            job(3, "ben", "refused", None, None),
            job(4, "ben", "cancelled", None, 50.0),
        ],
    )
    second = RunRecord(
        "easy", ["a"], jobs=[job(5, "anna", "timeout", 10.0, 120.0), job(6, "anna", "waiting", None, None)]
    )
    assert use_by_user([first, second]) == [
        UserUse("anna", 3, 1, 1, 1, 70.0, 5.0, 80.0, 0.75),
        UserUse("ben", 2, 0, 1, 0, 5.0, 20.0, 10.0, None),
    ]


def test_the_last_ten_jobs_tell_how_good_walltimes_are() -> None:
    jobs = [job(number, "u", "completed", 0.0, 100.0 if number < 5 else 20.0) for number in range(15)]
    jobs[14].end_s = 30.0
    for number, one in enumerate(jobs):
        one.start_s, one.end_s = 1000.0 * number, 1000.0 * number + (one.end_s or 0.0)
    (use,) = use_by_user([RunRecord("easy", ["a"], jobs=jobs)])
    assert use.accuracy == pytest.approx((9 * 0.2 + 0.3) / 10)
