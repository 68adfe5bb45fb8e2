"""Whatever order bags are processed, split, merged and shipped in, every node is counted once."""

from __future__ import annotations

import pickle

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.levelbag import Count
from benchmarks.uts import reference
from benchmarks.uts.bag import UtsBag
from benchmarks.uts.tree import Tree

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["process", "split", "split all", "merge", "ship"]), st.integers(0, 50), st.integers(1, 3000)
    ),
    max_size=60,
)


@settings(deadline=None, max_examples=60)
@given(STEPS, st.integers(0, 9), st.integers(1, 5))
def test_every_schedule_counts_every_node_once(steps: list[tuple[str, int, int]], seed: int, branching: int) -> None:
    tree = Tree(8 if branching > 2 else 20, seed, min(branching, 4))
    tree = Tree(11, seed, 2) if tree.branching == 2 else tree
    bags = [UtsBag.of_tree(tree)]
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
    assert result.value == reference.run_kernel(tree)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, (1 << 31) - 1), st.integers(1, 6), st.integers(0, 5))
def test_kernel_and_oracle_agree_on_any_tree(seed: int, branching: int, depth: int) -> None:
    tree = Tree(depth, seed, branching)
    assert reference.run_kernel(tree) == reference.count_nodes(tree)
