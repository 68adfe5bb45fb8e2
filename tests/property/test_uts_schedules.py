"""Whatever order bags are processed, split, merged and shipped in, every node is counted once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from support.oracles import count_nodes
from support.schedules import STEPS, Step, counted

from benchmarks.uts import problems
from benchmarks.uts.bag import UtsBag
from benchmarks.uts.tree import Tree


@settings(deadline=None, max_examples=60)
@given(STEPS, st.integers(0, 9), st.integers(1, 5))
def test_every_schedule_counts_every_node_once(steps: list[Step], seed: int, branching: int) -> None:
    tree = Tree(8 if branching > 2 else 20, seed, min(branching, 4))
    tree = Tree(11, seed, 2) if tree.branching == 2 else tree
    assert counted(UtsBag.of_tree(tree), steps).value == problems.run_kernel(tree)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, (1 << 31) - 1), st.integers(1, 6), st.integers(0, 5))
def test_kernel_and_oracle_agree_on_any_tree(seed: int, branching: int, depth: int) -> None:
    tree = Tree(depth, seed, branching)
    assert problems.run_kernel(tree) == count_nodes(tree)
