"""Simulations search for cycles seldom, and leave Python's search as it was."""

from __future__ import annotations

import gc

import pytest

from scheduler_bridge.sim.garbage import rare_searches


def test_searches_are_rare_until_the_last_simulation_is_over() -> None:
    before = gc.get_threshold()
    first, second = rare_searches(), rare_searches()
    first.__enter__()
    assert gc.get_threshold()[0] > 100 * before[0]
    second.__enter__()
    first.__exit__(None, None, None)  # they may end in any order, as those of several threads do
    assert gc.get_threshold()[0] > 100 * before[0]
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before


def test_a_simulation_that_fails_leaves_the_search_as_it_was() -> None:
    before = gc.get_threshold()
    with pytest.raises(ZeroDivisionError), rare_searches():
        raise ZeroDivisionError
    assert gc.get_threshold() == before
