"""What the soak counts and measures."""

from __future__ import annotations

import os
import sys
from collections import Counter

import pytest
from stress import soak
from stress.soak import MIB, Sample, Use, complaints
from stress.soak_program import Book, PlannedActivity, SoakError, Tally, _compare, expected, roots


def _tally(*numbers: int) -> Tally:
    tally = Tally()
    for number in numbers:
        tally.note(number)
    return tally


def _walk(planned: list[PlannedActivity]) -> list[PlannedActivity]:
    return [found for one in planned for found in (one, *_walk(list(one.children())))]


def test_a_tally_identifies_the_activities_that_ran() -> None:
    assert _tally(1, 2, 3) == _tally(3, 1, 2)
    assert _tally(1, 2, 3) != _tally(1, 2, 4)
    assert _tally(1, 1) != _tally(2, 0)
    both = _tally(1)
    both.add(_tally(2))
    assert both == _tally(1, 2)


@pytest.mark.parametrize("wave", range(5))
def test_what_is_expected_is_the_whole_tree(wave: int) -> None:
    planned = _walk(roots(wave, seed=7))
    wanted = expected(wave, 7)
    assert wanted.tally == _tally(*(one.number for one in planned))
    assert wanted.errors == sum(one.fails and not one.is_called for one in planned)
    assert len({one.number for one in planned}) == len(planned)


def test_traffic_has_every_kind_of_activity() -> None:
    planned = [one for wave in range(40) for one in _walk(roots(wave, 0))]
    kinds = Counter((one.is_called, one.fails, one.cargo_bytes > 0) for one in planned)
    assert len(kinds) == 8, kinds
    assert max(one.cargo_bytes for one in planned) > MIB


def test_a_wave_that_lost_or_repeated_something_is_noticed() -> None:
    wanted = expected(0, 0)
    _compare(0, wanted, expected(0, 0))
    lost, repeated, silent = expected(0, 0), expected(0, 0), expected(0, 0)
    lost.tally.count -= 1
    repeated.tally.note(roots(0, 0)[0].number)
    silent.errors -= 1
    for wrong in (lost, repeated, silent):
        with pytest.raises(SoakError, match="wave 0: expected"):
            _compare(0, wanted, wrong)


def test_a_closed_book_hands_over_and_refuses() -> None:
    book = Book()
    assert book.note(4, 1)
    assert book.close() == {4: _tally(1)}
    assert not book.note(4, 2)
    book.reopen()
    assert book.note(4, 3)
    book.add(4, _tally(9))
    assert book.waves() == [4]
    assert book.take(4) == _tally(3, 9)
    assert book.take(4) == Tally()


def test_a_process_is_measured_by_its_role() -> None:
    found = soak.by_role({os.getpid(): sys.executable, 2**22 + 1: "gone"}, os.getpid(), -1, sys.executable)
    assert list(found) == ["place 0"]
    use = found["place 0"]
    assert use.memory_bytes > MIB
    assert use.descriptors >= 3
    assert use.threads >= 1


def _sample(spawned: int, role: str, use: Use) -> Sample:
    return Sample(1, spawned, 3, {role: use})


@pytest.mark.parametrize("role", list(soak.BOUNDS))
def test_what_grows_beyond_its_bound_is_reported(role: str) -> None:
    first = _sample(0, role, Use(50 * MIB, 30, 20))
    assert not list(complaints(first, _sample(100, role, Use(51 * MIB, 32, 30))))
    assert any("MiB" in said for said in complaints(first, _sample(100, role, Use(150 * MIB, 30, 20))))
    assert any("descriptors" in said for said in complaints(first, _sample(100, role, Use(50 * MIB, 300, 20))))


def test_the_table_shows_start_middle_and_end() -> None:
    samples = [Sample(cycle, 2 * cycle, 3, {"place 0": Use(cycle * MIB, 30, 20)}) for cycle in range(1, 12)]
    text = soak.table(samples)
    assert all(f"cycle {cycle}, {2 * cycle} joined" in text for cycle in (1, 6, 11))
    assert "11.0 MiB, 30 fds, 20 th" in text
