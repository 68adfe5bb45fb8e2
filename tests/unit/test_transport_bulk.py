from __future__ import annotations

import pytest

from apgas.errors import ProtocolError
from apgas.transport import mpi
from apgas.transport.base import Buffer
from apgas.transport.mpi import Announcement, Part


def test_large_buffers_are_found_with_their_positions() -> None:
    views: list[Buffer] = [b"", b"x" * 10, b"y" * 9, memoryview(b"z" * 11)]
    assert mpi.large_parts(views, 10) == [Part(1, 10), Part(3, 11)]


@pytest.mark.parametrize("parts", [(), (Part(0, 5),), (Part(1, 2**40), Part(7, 0))])
def test_an_announcement_survives_the_line(parts: tuple[Part, ...]) -> None:
    announcement = Announcement(2**40, 2**24 - 1, parts)
    parsed, head = mpi.parse_announcement(mpi.announce(announcement, b"the head"))
    assert parsed == announcement
    assert bytes(head) == b"the head"


def test_what_is_cut_off_is_refused() -> None:
    whole = mpi.announce(Announcement(1, 2, (Part(0, 5), Part(1, 6))), b"")
    for cut in range(len(whole)):
        with pytest.raises(ProtocolError):
            mpi.parse_announcement(whole[:cut])


def test_a_length_that_no_memory_has_is_refused() -> None:
    with pytest.raises(ProtocolError):
        mpi.parse_announcement(mpi.announce(Announcement(1, 2, (Part(0, 2**64 - 1),)), b""))


def test_buffers_come_back_where_they_were() -> None:
    views = [b"0", b"11", b"2", b"33", b"44", b"5"]
    parts = mpi.large_parts(views, 2)
    small = [view for view in views if len(view) < 2]
    assert mpi.assemble(small, [(part, views[part.position]) for part in parts]) == views


def test_a_position_that_is_not_in_the_frame_is_refused() -> None:
    with pytest.raises(ProtocolError, match="position 3 of 1"):
        mpi.assemble([b"only"], [(Part(3, 1), b"x")])
