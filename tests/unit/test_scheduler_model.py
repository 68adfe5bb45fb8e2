"""Jobs, allocations and reservations."""

from __future__ import annotations

import math
import random

import pytest
from msgspec import structs

from scheduler_bridge.model import Allocation, InvalidJobError, JobSpec, Reservation, wording
from scheduler_bridge.model.allocation import highest, lowest, members

GOOD = JobSpec(7, "uts", "ann", "malleable", 4, 2, 8, 60.0, 0.0, ("python", "-m", "x"))


@pytest.mark.parametrize(
    ("wrong", "culprit"),
    [
        ({"job_id": -1}, "job_id is -1"),
        ({"job_class": "moldable"}, "job_class is 'moldable'"),
        ({"min_nodes": 0}, "min_nodes is 0"),
        ({"nodes": 1}, "nodes is 1, below min_nodes 2"),
        ({"nodes": 9}, "nodes is 9, above max_nodes 8"),
        ({"job_class": "rigid"}, "a rigid job has one size"),
        ({"walltime_s": 0.0}, "walltime_s is 0.0"),
        ({"walltime_s": math.inf}, "walltime_s is inf"),
        ({"walltime_s": math.nan}, "walltime_s is nan"),
        ({"submit_s": math.nan}, "submit_s is nan"),
    ],
)
def test_a_wrong_job_names_the_culprit(wrong: dict[str, object], culprit: str) -> None:
    with pytest.raises(InvalidJobError, match=rf"job {wrong.get('job_id', 7)} \('uts'\): {culprit}"):
        structs.replace(GOOD, **wrong)


def test_allocations_grow_at_the_end_and_keep_their_order() -> None:
    grown = Allocation((0b1100,)).plus(0b0011)
    assert in_order(grown) == [2, 3, 0, 1]
    assert in_order(grown.minus(0b1010)) == [2, 0]
    assert len(grown) == 4
    assert grown.ranks == 0b1111


def test_the_last_nodes_of_an_allocation_are_those_that_came_last() -> None:
    grown = Allocation((0b110000,)).plus(0b001011)  # 4, 5, then 0, 1, 3
    assert [in_order(grown.last(count)) for count in range(6)] == [
        [],
        [3],
        [1, 3],
        [0, 1, 3],
        [5, 0, 1, 3],
        [4, 5, 0, 1, 3],
    ]


def in_order(allocation: Allocation) -> list[int]:
    return [rank for chunk in allocation.chunks for rank in members(chunk)]


def test_allocations_refuse_doubled_and_missing_nodes() -> None:
    with pytest.raises(ValueError, match=r"\[0\] in the allocation"):
        Allocation((0b01,)).plus(0b11)
    with pytest.raises(ValueError, match=r"\[1, 2\] not in the allocation"):
        Allocation((0b001,)).minus(0b110)


def test_bitsets_are_taken_apart_at_any_size() -> None:
    rng = random.Random(1)
    for size in (1, 7, 64, 1000):
        for _ in range(50):
            ranks = sorted(rng.sample(range(size), rng.randint(1, size)))
            bits = sum(1 << rank for rank in ranks)
            assert list(members(bits)) == ranks
            count = rng.randint(1, len(ranks))
            assert list(members(lowest(bits, count))) == ranks[:count]
            assert list(members(highest(bits, count))) == ranks[-count:]


def test_a_reservation_admits_what_ends_in_time_or_is_spare() -> None:
    reservation = Reservation(1, 100.0, 4, 2)
    assert reservation.admits(5, 100.0)
    assert reservation.admits(2, 1e9)
    assert not reservation.admits(3, 100.1)


@pytest.mark.parametrize(("value_s", "said"), [(100.0, "100 s"), (304.249, "304.2 s"), (2419200.5, "2419200.5 s")])
def test_times_are_worded_to_a_tenth_of_a_second(value_s: float, said: str) -> None:
    assert wording.seconds(value_s) == said
    assert str(Reservation(2, value_s, 4, 0)) == f"4 nodes are reserved for job 2 at {said}"
