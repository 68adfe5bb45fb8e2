"""Jobs, allotments and reservations."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from scheduler_bridge.model import Allotment, InvalidJobError, JobSpec, Reservation

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
        replace(GOOD, **wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_allotments_grow_at_the_end_and_keep_their_order() -> None:
    grown = Allotment(("a", "b")).plus(("c", "d"))
    assert grown.nodes == ("a", "b", "c", "d")
    assert grown.minus({"b", "d"}).nodes == ("a", "c")
    assert len(grown) == 4
    assert "d" in grown


def test_allotments_refuse_doubled_and_missing_nodes() -> None:
    with pytest.raises(ValueError, match="named twice"):
        Allotment(("a",)).plus(("a",))
    with pytest.raises(ValueError, match="b, c not in the allotment"):
        Allotment(("a",)).minus(("c", "b"))


def test_a_reservation_admits_what_ends_in_time_or_is_spare() -> None:
    reservation = Reservation(1, 100.0, 4, 2)
    assert reservation.admits(5, 100.0)
    assert reservation.admits(2, 1e9)
    assert not reservation.admits(3, 100.1)
