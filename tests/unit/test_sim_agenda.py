"""What is to happen in a simulation, and what was predicted and will not."""

from __future__ import annotations

import math

from support.simulated import simulated

from scheduler_bridge.core.events import JobEnded, JobStarted
from scheduler_bridge.model import JobSpec
from scheduler_bridge.sim.agenda import Agenda
from scheduler_bridge.sim.jobs import Change, Run


def job(job_id: int) -> Run:
    return Run(*simulated(JobSpec(job_id, "j", "u", "rigid", 1, 1, 1, 10.0, 0.0), 10.0), ("n0",), 10.0, 0.0)


def test_what_is_entered_first_comes_first_among_what_happens_at_one_time() -> None:
    agenda, first, second = Agenda(), job(1), job(2)
    agenda.push(5.0, JobEnded(2, "completed"), second)
    agenda.push(5.0, JobEnded(1, "completed"), first)
    agenda.push(3.0, JobStarted(9), None)
    assert agenda.pop(2.0) is None
    assert [agenda.pop(5.0) for _ in range(4)] == [
        (3.0, JobStarted(9), None),
        (5.0, JobEnded(2, "completed"), second),
        (5.0, JobEnded(1, "completed"), first),
        None,
    ]
    assert agenda.next_s() == math.inf


def test_an_end_that_was_predicted_before_a_change_of_speed_does_not_come() -> None:
    agenda, run = Agenda(), job(1)
    agenda.push(5.0, JobEnded(1, "completed"), run)
    agenda.push(6.0, Change(2), run)
    run.version += 1
    agenda.push(8.0, JobEnded(1, "completed"), run)
    assert (agenda.next_s(), agenda.pop(1e9)) == (6.0, (6.0, Change(2), run))
    assert (agenda.next_s(), agenda.pop(1e9)) == (8.0, (8.0, JobEnded(1, "completed"), run))


def test_nothing_comes_of_a_job_that_is_over() -> None:
    agenda, run = Agenda(), job(1)
    agenda.push(6.0, Change(2), run)
    run.over = True
    assert agenda.next_s() == math.inf


def test_outdated_predictions_do_not_pile_up() -> None:
    agenda, run, other = Agenda(), job(1), job(2)
    agenda.push(7.0, JobEnded(2, "completed"), other)
    for number in range(10_000):
        run.version += 1
        agenda.push(1e6 - number, JobEnded(1, "completed"), run)
    assert len(agenda) < 2000
    assert (agenda.next_s(), agenda.pop(1e9)) == (7.0, (7.0, JobEnded(2, "completed"), other))
    assert (agenda.next_s(), agenda.pop(1e9)) == (1e6 - 9999, (1e6 - 9999, JobEnded(1, "completed"), run))
    assert agenda.next_s() == math.inf
