"""One rule judges the claims of all papers: how its verdicts follow from what is printed and what is found."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from scheduler_bridge.experiments.study import (
    FACTOR,
    TOLERANCE,
    ClaimVerdict,
    Judge,
    Word,
    together,
    word_for,
    word_for_times,
)

RANK: dict[Word, int] = {"differs": 0, "right direction": 1, "held": 2}
CHANGES = (st.integers(-64, 64) | st.integers(-800, 800)).map(lambda eighths: eighths / 8)
TIMES = st.integers(1, 800).map(lambda eighths: eighths / 8)
WORDS: st.SearchStrategy[Word] = st.sampled_from(("held", "right direction", "differs", "not judged"))
POLICIES = ("a", "b", "c", "d")


@given(CHANGES, st.booleans())
def test_what_is_printed_is_held(printed: float, still: bool) -> None:
    assert word_for(printed, printed, still=still) == "held"


@given(CHANGES, CHANGES, st.booleans())
def test_a_verdict_is_the_same_of_losses_as_of_gains(found: float, printed: float, still: bool) -> None:
    assert word_for(found, printed, still=still) == word_for(-found, -printed, still=still)


@given(CHANGES, CHANGES, st.booleans())
def test_a_verdict_says_how_far_both_are_apart(found: float, printed: float, still: bool) -> None:
    near = abs(found - printed) <= TOLERANCE
    alike = (found > 0) == (printed > 0) and found != 0
    match word_for(found, printed, still=still):
        case "held":
            assert near
            assert alike or still or printed == 0
        case "right direction":
            assert not near
            assert not still
            assert alike
            assert 1 / FACTOR <= Fraction(found) / Fraction(printed) <= FACTOR
        case "differs":
            assert not near or not alike
        case other:
            raise AssertionError(other)


@given(CHANGES, CHANGES, st.booleans(), st.integers(0, 4))
def test_what_is_nearer_is_judged_no_worse(found: float, printed: float, still: bool, quarters: int) -> None:
    nearer = found + (printed - found) * quarters / 4
    assert RANK[word_for(nearer, printed, still=still)] >= RANK[word_for(found, printed, still=still)]


@given(TIMES, TIMES, st.booleans())
def test_a_number_of_times_is_judged_as_a_change_or_more_strictly(found: float, printed: float, still: bool) -> None:
    word = word_for_times(found, printed, still=still)
    assert RANK[word] <= RANK[word_for(100 * (1 / found - 1), 100 * (1 / printed - 1), still=still)]
    if word == "right direction":
        assert 1 / FACTOR <= Fraction(found) / Fraction(printed) <= FACTOR


@given(TIMES)
def test_the_printed_number_of_times_is_held(printed: float) -> None:
    assert word_for_times(printed, printed) == "held"


@given(st.lists(st.integers(-3, 3).map(float), min_size=4, max_size=4), st.booleans())
def test_one_policy_is_best_of_all_or_none_is(values: list[float], highest: bool) -> None:
    found = dict(zip(POLICIES, values, strict=True))
    claim = {"rule": "first", "workload": "any", "among": POLICIES, "form": "", "highest": highest}
    by = Judge(lambda of: found[of["policy"]])
    words = {policy: by.judged({**claim, "policy": policy}).word for policy in POLICIES}
    extreme = (max if highest else min)(values)
    if len(set(values)) == 1:
        assert set(words.values()) == {"not judged"}
    else:
        held = [policy for policy, word in words.items() if word == "held"]
        assert held == [policy for policy in POLICIES if found[policy] == extreme and values.count(extreme) == 1]


@given(st.lists(st.integers(-3, 3).map(float), min_size=2, max_size=5))
def test_an_order_is_held_where_no_step_is_level(values: list[float]) -> None:
    by = Judge(lambda of: values[int(of["policy"])])
    falls = by.judged({"rule": "falls", "workload": "any", "policy": [str(at) for at in range(len(values))]})
    assert (falls.word == "held") == all(b < a for a, b in itertools.pairwise(values))


@given(st.lists(WORDS, min_size=1, max_size=4))
def test_forms_of_a_workload_count_once_by_the_worst(words: list[Word]) -> None:
    verdict = together([ClaimVerdict("claim", "-1 %", "-1 %", word, where=("Fig. 1",)) for word in words])
    judged = [word for word in words if word != "not judged"]
    assert verdict.word == min(judged, key=RANK.__getitem__, default="not judged")
    assert verdict.where == ("Fig. 1",)
