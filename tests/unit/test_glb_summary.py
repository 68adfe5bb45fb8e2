"""What the statistics say for people, and how those of many places travel."""

from __future__ import annotations

import io
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import glb
from benchmarks.harness.measurement import Measurement, show_statistics
from benchmarks.levelbag import Count
from benchmarks.uts.command import benchmark_of
from benchmarks.uts.tree import Tree
from glb import Statistics
from glb.statistics import (
    SUMMARY_HEADS,
    ByPlace,
    added_up,
    packed,
    places_in,
    summary_finding,
    summary_rows,
    summary_text,
)

BUSY = Statistics(tasks=900, busy_s=9.6, balancing_s=0.1, stealing_s=0.1, starving_s=0.2, steals_won=3, steals_tried=9)
IDLE = Statistics(tasks=100, busy_s=2.0, starving_s=8.0, lifeline_deals=2, evacuation_deals=1, bytes_sent=12_345)


def summed(*places: Statistics) -> Statistics:
    total = Statistics()
    for place in places:
        total.merge(place)
    return total


def test_a_row_per_place_and_one_for_all() -> None:
    lines = summary_rows({2: IDLE, 0: BUSY}, summed(BUSY, IDLE))
    assert [line[0] for line in lines] == ["0", "2", "all"]
    first, second, both = (dict(zip(SUMMARY_HEADS, line, strict=True)) for line in lines)
    assert first["share"] == "90.0 %"
    assert first["busy"] == "96.0 %"
    assert first["steals won"] == "3 of 9"
    assert (second["starving"], second["given"], second["sent"]) == ("80.0 %", "2 (1)", "12.3 kB")
    assert (both["tasks"], both["busy"]) == ("1 k", "58.0 %")


@pytest.mark.parametrize(
    ("statistics", "said"),
    [
        (BUSY, "Workers were busy 96.0 % of the time."),
        (Statistics(busy_s=1, starving_s=3, stealing_s=1), "60.0 % waited for work that no place had"),
        (Statistics(busy_s=1, stealing_s=3), "75.0 % waited for the answers of victims"),
        (Statistics(busy_s=1, balancing_s=3), "75.0 % went into giving work away"),
        (Statistics(), "busy 0.0 %"),
    ],
)
def test_the_sentence_names_the_largest_loss(statistics: Statistics, said: str) -> None:
    assert said in summary_finding({0: statistics}, statistics)


def test_uneven_places_are_named() -> None:
    assert "Place 0 worked 9.60 s, place 1 2.00 s" in summary_finding({0: BUSY, 1: IDLE}, summed(BUSY, IDLE))
    assert "about equally" in summary_finding({0: BUSY, 1: BUSY}, summed(BUSY, BUSY))


def test_the_outcome_and_the_benchmarks_show_the_same() -> None:
    total = summed(BUSY, IDLE)
    outcome = glb.Outcome(None, 1.0, total, {0: BUSY, 1: IDLE}, 1)  # type: ignore[type-var]  # no result is needed
    said = summary_text({0: BUSY, 1: IDLE}, total)
    assert outcome.summary() == said
    stream = io.StringIO()
    measurement = Measurement(benchmark_of(Tree(5)), 1, 2)
    measurement.outcome = glb.Outcome(Count(), 10.0, total, {0: BUSY, 1: IDLE}, 1)
    show_statistics(measurement, stream)
    for line in summary_rows({0: BUSY, 1: IDLE}, total):
        for cell in line:
            assert cell in stream.getvalue()
            assert cell in said
    assert said.splitlines()[-1] in stream.getvalue()


COUNTS = st.builds(
    Statistics,
    **{
        name: st.floats(0, 1e6) if name.endswith("_s") else st.integers(0, 2**40)
        for name in Statistics.__dataclass_fields__
    },
)


@given(counts=st.dictionaries(st.integers(0, 10**6), COUNTS, max_size=5), before=COUNTS)
def test_packed_counts_are_what_they_were(counts: dict[int, Statistics], before: Statistics) -> None:
    rows = b"".join(packed(place, each) for place, each in counts.items())
    assert places_in(rows) == list(counts)
    assert added_up(rows) == summed(*counts.values())
    found = ByPlace(rows, {0: before, 7: before})
    added = {place: summed(before, counts.get(place, Statistics())) for place in (0, 7)}
    assert dict(found) == counts | added
    assert list(pickle.loads(pickle.dumps(found))) == sorted({*counts, 0, 7})


def test_counts_in_numbers_of_a_library_are_packed() -> None:
    numpy = pytest.importorskip("numpy")
    mine = Statistics(tasks=numpy.int64(7), busy_s=numpy.float32(0.5))
    assert ByPlace(packed(3, mine), {})[3] == Statistics(tasks=7, busy_s=0.5)
