"""Figures, goals, ratios: from samples to verdicts, without a process."""

from __future__ import annotations

import pytest

from benchmarks.compare.contender import of_samples, percentile
from benchmarks.compare.display import Unit, ratio_written, written
from benchmarks.compare.engine import Goal, judge, ratio


def test_a_percentile_is_the_sample_of_nearest_rank() -> None:
    samples = [float(n) for n in range(100, 0, -1)]
    assert percentile(samples, 0.99) == 99
    assert percentile(samples, 1) == 100
    assert percentile(samples, 0.001) == 1
    assert percentile([7.0], 0.99) == 7


@pytest.mark.parametrize(("samples", "share"), [([], 0.5), ([1.0], 0.0), ([1.0], 1.1)])
def test_a_percentile_of_nothing_is_refused(samples: list[float], share: float) -> None:
    with pytest.raises(ValueError, match="no percentile"):
        percentile(samples, share)


def test_samples_become_median_p99_and_their_number() -> None:
    assert of_samples([3.0, 1.0, 2.0, 50.0]) == {"median_s": 2.5, "p99_s": 50.0, "samples": 4}


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.5, "s", "1.50 s"),
        (0.0123, "s", "12.3 ms"),
        (0.9996, "s", "1.00 s"),
        (54.2e-6, "s", "54.2 µs"),
        (123e-9, "s", "0.12 µs"),
        (16_500.0, "1/s", "16.5 k/s"),
        (570.0, "1/s", "570 /s"),
        (1.604e9, "B/s", "1.60 GB/s"),
        (50.8 * 2**20, "bytes", "50.8 MiB"),
        (0.003, "share", "0.300 %"),
        (0.152, "share", "15.2 %"),
        (-0.004, "share", "-0.400 %"),
    ],
)
def test_figures_have_three_digits_and_a_unit(value: float, unit: Unit, text: str) -> None:
    assert written(value, unit) == text


def test_ratios_are_short() -> None:
    assert [ratio_written(value) for value in (0.0313, 0.5, 3.14, 31.4, 314.0)] == [
        "0.031x",
        "0.5x",
        "3.1x",
        "31x",
        "314x",
    ]


def test_a_goal_beside_another_is_judged_by_the_ratio() -> None:
    medians = {"ours": 3.0, "socket": 1.0, "pool": 4.0}
    assert judge(Goal("<=", 4, "socket"), medians).met is True
    assert judge(Goal("<=", 2, "socket"), medians).met is False
    assert judge(Goal("<=", 3, "socket"), medians).met is True
    missed = judge(Goal(">=", 2, "pool"), medians)
    assert (missed.reached, missed.met) == (0.75, False)


def test_a_goal_in_itself_is_judged_by_the_figure() -> None:
    assert judge(Goal("<", 0.003), {"ours": 0.003}).met is False
    assert judge(Goal("<", 0.003), {"ours": 0.0}).met is True


def test_a_goal_beside_somebody_who_was_not_measured_is_not_known() -> None:
    for medians in ({"ours": 1.0}, {"ray": 1.0}, {"ours": 1.0, "ray": 0.0}):
        verdict = judge(Goal(">=", 10, "ray"), medians)
        assert (verdict.reached, verdict.met) == (None, None)
        assert verdict.spoken("1/s") == "not known"


def test_goals_and_verdicts_are_spoken_in_their_terms() -> None:
    labels = {"socket": "raw socket"}
    assert Goal("<=", 0.6, "socket").spoken(labels, "s") == "<= 0.6x raw socket"
    assert Goal("<", 0.003).spoken(labels, "share") == "< 0.300 %"
    assert judge(Goal("<=", 4, "socket"), {"ours": 3.0, "socket": 1.0}).spoken("s") == "met, 3x"
    assert judge(Goal("<", 0.003), {"ours": 0.01}).spoken("share") == "MISSED, 1.00 %"


def test_there_is_no_ratio_to_nothing() -> None:
    assert ratio(1.0, 2.0) == 0.5
    assert ratio(0.0, 2.0) == 0
    assert ratio(1.0, 0.0) is ratio(None, 1.0) is ratio(1.0, None) is None
