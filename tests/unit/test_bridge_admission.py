"""Admission: which jobs are kept back, and why."""

from __future__ import annotations

from typing import Any, get_args
from unittest.mock import Mock

from scheduler_bridge.core.events import Outcome
from scheduler_bridge.daemon import JobRequest
from scheduler_bridge.daemon.admission import JobFacts, admissions, admitted, ahead_of, blocked, crowded, hopeless
from scheduler_bridge.daemon.config import Limits
from scheduler_bridge.daemon.control.submission import _CHANGES, Submissions
from scheduler_bridge.daemon.requests import HeldBy, NodeChange
from scheduler_bridge.daemon.storage.log_state import LogState, spec_of
from scheduler_bridge.daemon.storage.store import Era


def job(
    job_id: int, *, user: str = "u", priority: int = 0, held_by: HeldBy | None = None,
    after_ok: tuple[int, ...] = (), after_any: tuple[int, ...] = (),
) -> JobFacts:  # fmt: skip
    request = JobRequest(name="j", command=("x",), user=user, after_ok=after_ok, after_any=after_any)
    return JobFacts(request, spec_of(job_id, request, float(job_id)), held_by, priority)


ENDED: dict[int, Outcome] = {1: "completed", 2: "failed"}


def test_a_job_waits_for_those_it_comes_after() -> None:
    assert blocked(job(9, after_ok=(1,), after_any=(2,)), ENDED.get) == ""
    assert blocked(job(9, after_any=(1, 3, 4)), ENDED.get) == "it waits for the end of jobs 3, 4"


def test_it_is_said_who_holds_a_job_back() -> None:
    assert blocked(job(9, held_by="user", after_any=(3,)), ENDED.get) == "its user holds it"
    assert blocked(job(9, held_by="operator"), ENDED.get) == "an operator holds it"


def test_a_job_that_comes_after_a_failure_never_starts() -> None:
    assert hopeless(job(9, after_ok=(1, 2)), ENDED.get) == "job 2 did not complete"
    assert hopeless(job(9, after_ok=(1,), after_any=(2,)), ENDED.get) == ""
    kept = job(9, after_ok=(2,))
    assert admissions([9], {9: kept}, ENDED.get, None) == [(kept, "job 2 did not complete")]


def test_users_have_so_many_jobs_at_most() -> None:
    jobs = {1: job(1), 2: job(2), 3: job(3, priority=5), 4: job(4, user="v")}
    found = [job.spec.job_id for job, _ in admissions([2, 3, 4], jobs, ENDED.get, 2)]
    assert found == [3, 4]
    counts = admitted(jobs, [2, 3, 4])
    assert crowded(jobs[2].request, counts, 1).startswith("its user has 1 jobs")
    assert crowded(jobs[4].request, counts, 1) == ""
    assert crowded(jobs[2].request, counts, None) == ""


def test_the_users_jobs_are_counted_once_for_all_that_are_kept() -> None:
    """Not once for each: ten thousand times ten thousand jobs keep a scheduler from everything else."""
    log_state = LogState(Era(
        nodes=("a",), policy="easy", parameters={}, first_job=1, started_at="", wall_s=0.0, boot="", monotonic_s=0.0
    ))  # fmt: skip
    looked = 0

    class Counted(dict[int, JobFacts]):
        def items(self) -> Any:
            nonlocal looked
            looked += 1
            return super().items()

    log_state.jobs = Counted({number: job(number) for number in range(1, 100)})
    log_state.kept = set(range(2, 100))
    submissions = Submissions(log_state, Mock(), lambda: 0.0, Limits(), 1)
    assert submissions.why_kept() == dict.fromkeys(
        range(2, 100), "its user has 1 jobs waiting or running, the most allowed"
    )
    assert looked == 1


def test_priority_counts_and_then_age() -> None:
    jobs = {number: job(number, priority=priority) for number, priority in ((1, 5), (2, 0), (3, 0), (4, -1))}
    assert ahead_of(job(9, priority=7), jobs, jobs) == 1
    assert ahead_of(job(9), jobs, jobs) == 4
    assert ahead_of(job(9, priority=-1), jobs, jobs) is None
    assert ahead_of(jobs[2], [1, 3, 2, 4], jobs) == 3


def test_there_is_an_event_for_each_change_of_a_node() -> None:
    assert set(_CHANGES) == set(get_args(NodeChange))
