"""Simulations and schedulers search for cycles seldom, and leave Python's search as it was."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from scheduler_bridge.cli import serve
from scheduler_bridge.cli.app import run
from scheduler_bridge.daemon import listener
from scheduler_bridge.gc_tuning import rare_searches


def test_searches_are_rare_until_the_last_simulation_is_over() -> None:
    before = gc.get_threshold()
    first, second = rare_searches(), rare_searches()
    first.__enter__()
    assert gc.get_threshold()[0] > 20 * before[0]
    second.__enter__()
    first.__exit__(None, None, None)  # they may end in any order, as those of several threads do
    assert gc.get_threshold()[0] > 20 * before[0]
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before


def test_a_simulation_that_fails_leaves_the_search_as_it_was() -> None:
    before = gc.get_threshold()
    with pytest.raises(ZeroDivisionError), rare_searches():
        raise ZeroDivisionError
    assert gc.get_threshold() == before


def test_a_scheduler_searches_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, meanwhile = gc.get_threshold(), list[tuple[int, int, int]]()

    async def serve_nobody(*_: object) -> None:
        meanwhile.append(gc.get_threshold())

    monkeypatch.setattr(serve, "_serve", serve_nobody)
    monkeypatch.setattr(listener, "raise_file_limit", lambda: listener.ENOUGH_FILES)
    assert run(["serve", "--nodes", "1", "--state", str(tmp_path / "state")]) == 0
    assert [threshold > 20 * before[0] for threshold, _, _ in meanwhile] == [True]
    assert gc.get_threshold() == before
