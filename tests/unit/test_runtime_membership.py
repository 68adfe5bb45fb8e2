"""Who belongs to the job."""

from __future__ import annotations

from apgas.core.membership import Membership
from apgas.core.messages import PlaceInfo


def _info(place: int) -> PlaceInfo:
    return PlaceInfo(place, "h", 1, "n", place)


def test_ids_of_newcomers_that_come_too_late_are_not_used_again() -> None:
    membership = Membership([_info(0), _info(1)], 0)
    late = membership.new_ids(2)
    in_time = membership.new_ids(1)
    assert (list(late), list(in_time)) == ([2, 3], [4])
    membership.commit(1, [_info(place) for place in in_time], [])
    assert list(membership.new_ids(1)) == [5]
