"""Commands that are given several jobs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from scheduler_bridge.cli import jobs
from scheduler_bridge.cli.app import run
from scheduler_bridge.daemon import ControlError, RefusedError
from scheduler_bridge.daemon.requests import Hold


@dataclass
class Scheduler:
    """Does what it is asked for, unless job 6 is meant."""

    is_there: bool = True
    asked: list[int] = field(default_factory=list)

    def cancel(self, job_id: int) -> None:
        self.asked.append(job_id)
        if not self.is_there:
            raise ControlError("no scheduler serves it", "start one")
        if job_id in (6, 10):
            raise RefusedError(f"job {job_id} has ended already")

    def manage(self, request: Hold) -> str:
        self.cancel(request.job)
        return f"job {request.job} is {'held' if request.held else 'released'}"


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    found = Scheduler()
    monkeypatch.setattr(jobs, "client", lambda _: found)
    return found


@pytest.mark.parametrize(
    ("command", "out", "asked"),
    [
        ("cancel", "", [7, 5, 3]),
        ("hold", "job 3 is held\njob 5 is held\njob 7 is held\n", [7, 5, 3]),
        ("release", "job 3 is released\njob 5 is released\njob 7 is released\n", [3, 5, 7]),
    ],
)
def test_several_jobs_are_given_by_their_numbers(
    command: str, out: str, asked: list[int], scheduler: Scheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "5,3,7-7,5"]) == 0
    assert capsys.readouterr().out == out
    assert scheduler.asked == asked


def test_the_others_are_cancelled_also_if_some_cannot_be(
    scheduler: Scheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cancel", "5-10", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out) == [{"job": job, "cancelled": True} for job in (5, 7, 8, 9)]
    assert err.splitlines() == ["job 6 has ended already", "job 10 has ended already"]
    assert scheduler.asked == [10, 9, 8, 7, 6, 5]


def test_one_job_is_one_document(scheduler: Scheduler, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hold", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"job": 3, "done": "job 3 is held"}
    assert scheduler.asked == [3]


def test_no_scheduler_is_asked_once(scheduler: Scheduler, capsys: pytest.CaptureFixture[str]) -> None:
    scheduler.is_there = False
    assert run(["cancel", "5-10"]) == 1
    assert capsys.readouterr().err.splitlines() == ["no scheduler serves it", "start one"]
    assert scheduler.asked == [10]


def test_what_are_no_jobs_is_said(scheduler: Scheduler, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cancel", "sleep"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "malleable cancel sleep", "numbers are given as 3,5-7", "for example malleable cancel 1-3",
    ]  # fmt: skip
    assert run(["cancel", "3,7-5"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "malleable cancel 3,7-5", "there is no number in 7-5", "for example malleable cancel 1-3",
    ]  # fmt: skip
    assert not scheduler.asked
