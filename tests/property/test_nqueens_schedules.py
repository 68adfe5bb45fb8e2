"""Whatever order bags are processed, split, merged and shipped in, every solution is counted once."""

from __future__ import annotations

import pickle

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.levelbag import Count
from benchmarks.nqueens.bag import QueensBag
from benchmarks.nqueens.board import known_solutions
from benchmarks.nqueens.command import solution_count

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["process", "split", "split all", "merge", "ship"]), st.integers(0, 50), st.integers(1, 3000)
    ),
    max_size=60,
)


@settings(deadline=None, max_examples=60)
@given(STEPS, st.integers(5, 12))
def test_every_schedule_counts_every_solution_once(steps: list[tuple[str, int, int]], size: int) -> None:
    bags = [QueensBag.of_board(size)]
    for action, index, amount in steps:
        place = index % len(bags)
        bag = bags[place]
        match action:
            case "process":
                assert bag.process(amount) is not bag.is_empty()
            case "split" | "split all":
                held = len(bag)
                part = bag.split(action == "split all")
                if part is not None:
                    assert len(bag) + len(part) == held
                    bags.append(part)
            case "merge" if len(bags) > 1:
                bags.pop(place)
                bags[amount % len(bags)].merge(bag)
            case "ship":
                bags[place] = pickle.loads(pickle.dumps(bag, protocol=5))
            case _:
                assert action == "merge"
    result = Count()
    for bag in bags:
        while bag.process(5000):
            pass
        bag.submit(result)
    assert solution_count(result) == known_solutions(size)
