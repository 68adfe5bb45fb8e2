"""What submissions may cost: an array is kept once, and what the log could not take is refused before it is taken."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from scheduler_bridge.core import events as ev
from scheduler_bridge.core.events import Effect
from scheduler_bridge.daemon import JobRequest
from scheduler_bridge.daemon.config import Limits
from scheduler_bridge.daemon.control.submission import Submissions
from scheduler_bridge.daemon.requests import ENV_INDEX, REQUEST_MOST_BYTES, SubmitError
from scheduler_bridge.daemon.storage import log_entries
from scheduler_bridge.daemon.storage.log_entries import Entry, Row, TooLongError, decode, draft
from scheduler_bridge.daemon.storage.log_state import LogState
from scheduler_bridge.daemon.storage.store import Era

ERA = Era(
    nodes=("a", "b"), policy="easy", parameters={}, first_job=1, started_at="2026-01-01T00:00:00+00:00", wall_s=0.0,
    boot="", monotonic_s=0.0,
)  # fmt: skip
MANY = 2_000
LARGE = JobRequest(name="large", user="eve", command=(sys.executable, *["x" * 30_000] * 7))


class Log:
    """Submissions to the state of a log, and what was written of them."""

    def __init__(self, limits: Limits | None = None, user_jobs: int | None = None) -> None:
        self.log_state = LogState(ERA)
        self.rows: list[Row] = []
        self.behind = ""
        self.submissions = Submissions(
            self.log_state,
            self.handle,
            lambda: float(len(self.rows)),
            limits or Limits(),
            user_jobs,
            log_behind=lambda: self.behind,
        )

    def handle(
        self, *events: ev.Event, facts: Sequence[log_entries.AnyFact] = (), then: Callable[[], None] | None = None
    ) -> list[Effect]:
        entry = Entry(float(len(self.rows)), events, tuple(facts))
        made = draft(entry)
        effects = self.log_state.take(entry)
        self.rows.append(made.with_effects(effects))
        return effects

    def again(self) -> LogState:
        log_state = LogState(ERA)
        for row in self.rows:
            entry, effects = decode(row)
            assert log_state.take(entry) == effects
        return log_state


def same(one: LogState, other: LogState) -> bool:
    return (one.jobs, one.kept, one.next_job_id, one.core.snapshot(), one.recorder.record(), one.request_bytes) == (
        other.jobs, other.kept, other.next_job_id, other.core.snapshot(), other.recorder.record(), other.request_bytes
    )  # fmt: skip


@pytest.mark.parametrize("wishes", [{}, {"hold": True}, {"priority": 7}])
def test_an_array_is_written_once_and_expanded_when_read(wishes: dict[str, Any]) -> None:
    log = Log()
    (other,) = log.submissions.submit(JobRequest(name="other", command=(sys.executable,), nodes=2))
    before = len(log.rows)
    jobs = log.submissions.submit(msgspec.structs.replace(LARGE, **wishes), range(MANY))
    assert jobs == list(range(other + 1, other + 1 + MANY))
    (row,) = log.rows[before:]
    assert len(row.events) + len(row.facts) + len(row.effects) < REQUEST_MOST_BYTES + 100 * MANY
    last = log.log_state.jobs[jobs[-1]]
    assert last.request is log.log_state.jobs[jobs[0]].request, "kept once in memory, too"
    assert last.spec.name == last.alone().name == f"large[{MANY - 1}]"
    assert last.alone().environment == {ENV_INDEX: str(MANY - 1)}
    assert last.alone().command == LARGE.command
    assert (jobs[-1] in log.log_state.kept) == ("hold" in wishes)
    read = log.again()
    assert same(read, log.log_state)
    assert same(LogState.thaw(ERA, log.log_state.freeze()), log.log_state)
    assert len(log.log_state.freeze()) < 1_000 * MANY
    assert len(msgspec.json.encode(log.log_state.recorder.record())) < 5_000 * MANY


def test_those_jobs_of_an_array_that_a_user_may_have_are_considered() -> None:
    log = Log(user_jobs=3)
    (first,) = log.submissions.submit(JobRequest(name="one", user="eve", command=(sys.executable,)))
    jobs = log.submissions.submit(JobRequest(name="many", user="eve", command=(sys.executable,)), (4, 9, 10, 16))
    assert set(log.log_state.jobs) == {first, *jobs}
    assert log.log_state.kept == set(jobs[2:])
    assert same(log.again(), log.log_state)


def test_an_array_that_has_a_number_twice_is_refused() -> None:
    log = Log()
    with pytest.raises(SubmitError, match="the array has number 2 more than once") as caught:
        log.submissions.submit(LARGE, (0, 1, 2, 3, 2))
    assert caught.value.field == "array"
    assert not log.rows


def test_a_request_that_is_too_long_is_refused() -> None:
    log = Log()
    for long in ({"command": (sys.executable, *["x" * 30_000] * 9)}, {"environment": {"A": "x" * REQUEST_MOST_BYTES}}):
        with pytest.raises(SubmitError, match="bytes, more than 262144"):
            log.submissions.submit(msgspec.structs.replace(LARGE, **long))
    assert not log.rows
    assert not log.log_state.jobs


def test_what_one_user_keeps_is_bounded_and_free_again_when_the_jobs_are_over() -> None:
    log = Log(Limits(user_bytes=1_000_000))
    taken = [log.submissions.submit(LARGE, (1, 2)) for _ in range(4)]  # of 210 KB each
    for request in (LARGE, msgspec.structs.replace(LARGE, command=(sys.executable, *["x" * 30_000] * 4))):
        with pytest.raises(SubmitError, match="the requests of eve have 84"):
            log.submissions.submit(msgspec.structs.replace(request, environment={"A": "x" * 40_000}))
    assert log.submissions.submit(msgspec.structs.replace(LARGE, user="anna"))
    log.submissions.cancel(taken[3][0])
    with pytest.raises(SubmitError, match="the requests of eve have 84"):
        log.submissions.submit(LARGE)
    log.submissions.cancel(taken[3][1])
    log.submissions.submit(LARGE)
    for job_id in (*taken[2], log.log_state.next_job_id - 1):
        log.submissions.cancel(job_id)
    assert log.log_state.request_bytes["eve"] < 500_000
    assert same(log.again(), log.log_state)


def test_nothing_is_taken_while_the_log_cannot_be_written() -> None:
    log = Log()
    (job_id,) = log.submissions.submit(msgspec.structs.replace(LARGE, hold=True))
    log.behind = "disk full"
    with pytest.raises(SubmitError, match="no job is taken now: the log cannot be written: disk full"):
        log.submissions.submit(LARGE)
    log.submissions.retract([job_id, 99])
    assert not log.log_state.request_bytes


def test_an_entry_that_no_row_could_hold_is_refused_before_anything_comes_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_entries, "_MOST_CHARACTERS", 1000)
    with pytest.raises(TooLongError, match="characters are more than an entry of the log may have, 1000"):
        draft(Entry(0.0, (), (log_entries.Noted("x" * 1000),)))
