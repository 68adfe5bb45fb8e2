"""How many nodes a job had from which time on, kept in little memory."""

from __future__ import annotations

import pickle
import sys

import pytest

from scheduler_bridge.sim.jobs import Sizes


def test_they_are_pairs_of_a_time_and_a_number() -> None:
    sizes = Sizes([(0.5, 4)])
    sizes.append(6.25, 1)
    assert sizes == [(0.5, 4), (6.25, 1)]
    assert repr(sizes) == "[(0.5, 4), (6.25, 1)]"
    assert (len(sizes), sizes[0], sizes[-1], sizes[1:]) == (2, (0.5, 4), (6.25, 1), [(6.25, 1)])
    assert isinstance(sizes[0][1], int)
    assert sizes != [(0.5, 4)]
    with pytest.raises(IndexError):
        sizes[2]
    assert pickle.loads(pickle.dumps(sizes)) == sizes


def test_a_pair_takes_twenty_bytes_at_most() -> None:
    sizes = Sizes()
    for number in range(1000):
        sizes.append(number / 7, number)
    assert sizes._rest is not None
    assert sys.getsizeof(sizes._rest) < 20_000 + 100


def test_one_pair_alone_takes_no_array() -> None:
    sizes = Sizes()
    assert (len(sizes), list(sizes), sizes.spans(9.0)) == (0, [], [])
    sizes.append(2, 3)
    assert (len(sizes), sizes[0], sizes.spans(9.0)) == (1, (2.0, 3), [(2.0, 9.0, 3)])
    assert isinstance(sizes[0][0], float)
    assert sizes._rest is None
    sizes.append(4.0, 1)
    assert sizes.spans(9.0) == [(2.0, 4.0, 3), (4.0, 9.0, 1)]
