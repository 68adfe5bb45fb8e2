"""Who belongs to the job."""

from __future__ import annotations

import pytest

from apgas.core.effects import Ends, PlaceLost, Send
from apgas.core.membership import Membership
from apgas.core.messages import Lost, PlaceInfo
from apgas.core.place import PlaceCore
from apgas.errors import InvariantError


def _info(place: int) -> PlaceInfo:
    return PlaceInfo(place, "h", 1, "n", place)


def test_ids_of_newcomers_that_come_too_late_are_not_used_again() -> None:
    membership = Membership([_info(0), _info(1)], 0)
    late = membership.new_ids(2)
    in_time = membership.new_ids(1)
    assert (list(late), list(in_time)) == ([2, 3], [4])
    membership.commit(1, [_info(place) for place in in_time], [])
    assert list(membership.new_ids(1)) == [5]


@pytest.mark.parametrize("epoch", [3, 4, 6])
def test_an_epoch_follows_on_the_one_before(epoch: int) -> None:
    """A gap means that a change was missed, a repetition that one would be made twice."""
    membership = Membership([_info(0), _info(1)], 4)
    with pytest.raises(InvariantError, match=f"epoch {epoch} cannot follow on 4"):
        membership.commit(epoch, [_info(2)], [])
    assert (membership.epoch, sorted(membership.members)) == (4, [0, 1])
    membership.commit(5, [_info(2)], [])
    assert (membership.epoch, sorted(membership.members)) == (5, [0, 1, 2])


def test_place_0_takes_note_of_every_member_that_is_lost() -> None:
    core = PlaceCore(0, [_info(0), _info(1)], 0)
    assert core.lost(1, "gone") == [PlaceLost(1, "gone")]
    assert core.lost(2, "gone") == [], "it was none"


def test_a_place_that_has_lost_place_0_is_abandoned() -> None:
    core = PlaceCore(1, [_info(0), _info(1), _info(2)], 0)
    assert core.lost(2, "gone") == [Send(0, Lost(0, 2, "gone"), [])], "place 0 decides"
    before = core.abandoned
    assert core.lost(0, "reset") == [Ends("lost place 0: reset")]
    assert (before, core.abandoned) == (False, True)
    assert core.lost(0, "reset") == [], "once"


def test_an_immediate_goes_to_members_that_stay_and_to_no_others() -> None:
    core = PlaceCore(0, [_info(0), _info(1), _info(2)], 0)
    assert [len(core.immediate(dst, [])) for dst in (1, 2, 3)] == [1, 1, 0]
    core.prepare_shrink(1, (2,))
    assert [len(core.immediate(dst, [])) for dst in (1, 2, 3)] == [1, 0, 0]
