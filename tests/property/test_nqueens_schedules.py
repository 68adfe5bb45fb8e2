"""Whatever order bags are processed, split, merged and shipped in, every solution is counted once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from support.schedules import STEPS, Step, counted

from benchmarks.nqueens.bag import QueensBag, known_solutions
from benchmarks.nqueens.command import solution_count


@settings(deadline=None, max_examples=60)
@given(STEPS, st.integers(5, 12))
def test_every_schedule_counts_every_solution_once(steps: list[Step], size: int) -> None:
    assert solution_count(counted(QueensBag.of_board(size), steps)) == known_solutions(size)
