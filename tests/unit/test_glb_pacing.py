"""Granularity and pace."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from glb.core.pacing import MOST_BACKING_UP, Backups, Granularity, Pacer


@pytest.mark.parametrize("per_task_s", [3e-9, 1e-6, 1e-4, 0.05])
def test_granularity_reaches_its_target(per_task_s: float) -> None:
    granularity = Granularity(target_s=0.0003)
    assert granularity.n == 1
    for _ in range(12):
        granularity.observe(granularity.n, granularity.n * per_task_s)
    assert granularity.n == pytest.approx(max(1, 0.0003 / per_task_s), rel=0.01)


@pytest.mark.parametrize(
    ("granularity", "tasks", "seconds", "long", "very_long"),
    [
        (Granularity(), 1, 0.0001, False, False),
        (Granularity(), 1, 0.02, True, False),
        (Granularity(), 1, 2.0, True, True),
        (Granularity(fixed=50), 50, 0.0005, False, False),
        (Granularity(fixed=50), 50, 0.02, True, False),
        (Granularity(rate=10.0), 1, 0.05, True, True),
        (Granularity(rate=1e6), 1, 1e-6, False, False),
        # the bag returns early, so that its worker can look
        (Granularity(), 0, 0.02, False, False),
    ],
)
def test_long_calls_are_known_in_advance(
    granularity: Granularity, tasks: int, seconds: float, long: bool, very_long: bool
) -> None:
    assert granularity.long  # nothing is known yet
    assert granularity.very_long
    for _ in range(3):
        granularity.observe(tasks, seconds)
    assert (granularity.long, granularity.very_long) == (long, very_long)


def is_long(granularity: Granularity) -> bool:
    return granularity.long


def test_a_surprisingly_long_call_is_believed_for_one_more() -> None:
    granularity = Granularity()
    for _ in range(20):
        granularity.observe(granularity.n, granularity.n * 1e-6)
    assert not is_long(granularity)
    granularity.observe(granularity.n, 0.5)
    assert is_long(granularity)
    granularity.observe(1, 1e-6)
    assert not is_long(granularity)
    # to have waited for a core is no surprise
    granularity.observe(granularity.n, 0.02)
    assert not is_long(granularity)


def test_a_slow_start_is_survived() -> None:
    granularity = Granularity(target_s=0.0003)
    granularity.observe(1, 0.2)
    for _ in range(80):
        granularity.observe(granularity.n, granularity.n * 1e-7)
    assert granularity.n > 2000


def calls(granularity: Granularity, clock_s: float, until_s: float, cost: Callable[[float], float]) -> list[float]:
    """Let a simulated worker process until ``until_s``, with ``cost(now)`` seconds per task; return each call's."""
    lasted = []
    while clock_s < until_s:
        tasks = granularity.n
        seconds = tasks * cost(clock_s)
        granularity.observe(tasks, seconds)
        clock_s += seconds
        lasted.append(seconds)
    return lasted


def test_a_thread_that_waits_for_a_core_keeps_its_granularity() -> None:
    """Eight workers share two cores: of every 12 ms a worker has 3; a call that is interrupted takes 9 ms more."""
    granularity = Granularity(target_s=0.0003)
    rng = Random(1)
    sizes = []
    cpu_s = 0.0
    for _ in range(4000):
        tasks = granularity.n
        worked_s = tasks * 1e-8
        waits = int((cpu_s + worked_s) / 0.003) - int(cpu_s / 0.003)
        cpu_s += worked_s
        granularity.observe(tasks, worked_s + waits * 0.009 * rng.uniform(0.5, 1.5))
        sizes.append(tasks)
    settled = sorted(sizes[100:])
    # the calls stay near 0.3 ms of work; without a limit to outliers they would be a third of that
    assert settled[len(settled) // 2] * 1e-8 > 0.00022


@pytest.mark.parametrize("factor", [0.001, 0.1, 10.0, 1000.0])
def test_tasks_that_change_for_good_are_followed(factor: float) -> None:
    granularity = Granularity(target_s=0.0003)
    lasted = calls(granularity, 0.0, 2.0, lambda now: 1e-7 if now < 0.5 else 1e-7 * factor)
    assert lasted[-1] == pytest.approx(0.0003, rel=0.02)
    # a thief waits for one call at most; longer ones, after the change, are few
    assert sum(seconds > 0.0006 for seconds in lasted) <= 3
    assert max(lasted) <= 0.0003 * max(1.0, factor) * 1.05


def test_varied_tasks_are_processed_in_calls_of_about_the_target() -> None:
    rng = Random(2)
    granularity = Granularity(target_s=0.0005)
    lasted = calls(granularity, 0.0, 2.0, lambda _: 1e-7 * rng.uniform(0.3, 1.7))
    assert sum(lasted[50:]) / len(lasted[50:]) == pytest.approx(0.0005, rel=0.1)


def test_fixed_granularity_stays() -> None:
    granularity = Granularity(fixed=511)
    granularity.observe(511, 10.0)
    assert granularity.n == 511


def test_paced_chunks_last_ten_milliseconds_at_most() -> None:
    granularity = Granularity(rate=1000.0)
    for _ in range(5):
        granularity.observe(granularity.n, 0.001)
    assert granularity.n == 10
    assert Granularity(rate=3.0).n == 1


def test_target_is_never_below_the_cost_of_handing_over() -> None:
    granularity = Granularity(target_s=0.000001)
    for _ in range(10):
        granularity.observe(granularity.n, granularity.n * 1e-6)
    assert granularity.n == 50


def test_ahead_of_schedule_pauses() -> None:
    pacer = Pacer(100.0, 10.0)
    assert pacer.done(50, 10.1) == pytest.approx(10.5)
    assert pacer.worst_lag_s == 0.0


def test_behind_schedule_catches_up_by_a_quarter_second() -> None:
    pacer = Pacer(100.0, 0.0)
    assert pacer.done(10, 1.0) == pytest.approx(0.75)
    assert pacer.worst_lag_s == pytest.approx(0.9)
    assert pacer.given_up_s == pytest.approx(0.65)
    assert pacer.done(50, 1.0) == pytest.approx(1.25)


def test_idle_time_earns_no_credit_and_forgives_no_debt() -> None:
    pacer = Pacer(100.0, 0.0)
    pacer.resume(5.0)
    assert pacer.done(10, 5.0) == pytest.approx(5.1)
    pacer.resume(5.05)
    assert pacer.done(10, 5.05) == pytest.approx(5.2)


def test_backups_are_due_after_each_second_of_work() -> None:
    backups = Backups(1.0, now=10.0)
    assert not backups.due(10.9), "place 0 knows what a place begins with"
    assert backups.due(11.0)
    assert not backups.due(11.5)
    backups.made(11.5)  # with a bag that was given away
    assert not backups.due(12.4)
    backups.waited(3.0)
    assert not backups.due(15.4)
    assert backups.due(15.6)


def test_backups_that_take_long_are_rarer_and_take_the_same_share_then() -> None:
    backups, took_s, now, made = Backups(1.0, now=0.0), 0.02, 0.0, 0
    while now < 400.0:
        now += 0.25
        if backups.due(now):
            made += 1
            backups.spent(took_s, now)
            backups.made(now)  # it counts as one that has all, and is no reason for the next one to come earlier
    assert made == 100
    assert made * took_s <= MOST_BACKING_UP * now
