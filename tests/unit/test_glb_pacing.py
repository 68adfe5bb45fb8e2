"""Granularity and pace."""

from __future__ import annotations

import pytest

from glb.core.pacing import Granularity, Pacer


@pytest.mark.parametrize("per_task_s", [3e-9, 1e-6, 1e-4, 0.05])
def test_granularity_reaches_its_target(per_task_s: float) -> None:
    granularity = Granularity(target_s=0.0003)
    assert granularity.n == 1
    for _ in range(12):
        granularity.observe(granularity.n, granularity.n * per_task_s)
    assert granularity.n == pytest.approx(max(1, 0.0003 / per_task_s), rel=0.01)


def test_a_slow_start_is_survived() -> None:
    granularity = Granularity(target_s=0.0003)
    granularity.observe(1, 0.2)
    for _ in range(80):
        granularity.observe(granularity.n, granularity.n * 1e-7)
    assert granularity.n > 2000


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
    assert pacer.done(50, 1.0) == pytest.approx(1.25)


def test_idle_time_earns_no_credit_and_forgives_no_debt() -> None:
    pacer = Pacer(100.0, 0.0)
    pacer.resume(5.0)
    assert pacer.done(10, 5.0) == pytest.approx(5.1)
    pacer.resume(5.05)
    assert pacer.done(10, 5.05) == pytest.approx(5.2)
