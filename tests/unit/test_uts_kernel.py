"""The kernels of UTS against the recorded counts, the oracle, and each other."""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
from support.oracles import count_nodes

from benchmarks.levelbag import Count
from benchmarks.uts import kernel, plain, problems
from benchmarks.uts.bag import UtsBag
from benchmarks.uts.binomial import HybridBag, HybridTree
from benchmarks.uts.problems import SAMPLES
from benchmarks.uts.tree import FIXED, SHAPES, Tree, child_count, law
from glb.testing import check_bag


@pytest.fixture(params=["loaded", "plain"])
def any_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain":
        monkeypatch.setattr(kernel, "expand", plain.expand)
        monkeypatch.setattr(kernel, "expand_binomial", plain.expand_binomial)
        monkeypatch.setattr(kernel, "CAPACITY", plain.CAPACITY)
    return str(request.param)


def test_the_compiled_kernel_is_loaded_where_numba_is() -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    assert kernel.NAME.startswith("numba")
    assert kernel.expand is not plain.expand


def test_without_numba_the_plain_kernel_is_loaded() -> None:
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "import benchmarks.harness.jit as jit; jit.has_numba = lambda: False\n"
        "from benchmarks.uts.command import benchmark_of; from benchmarks.uts.tree import Tree\n"
        "from benchmarks.uts.problems import run_kernel\n"
        "print(benchmark_of(Tree(6)).rule, run_kernel(Tree(6)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith(f"{plain.NAME} 16000")


@pytest.mark.parametrize("depth", range(8))
def test_recorded_counts_are_found_by_every_kernel(any_kernel: str, depth: int) -> None:
    assert problems.run_kernel(Tree(depth)) == Tree(depth).known_nodes()


@pytest.mark.parametrize("depth", [8, 9, 10])
def test_recorded_counts_of_larger_trees_are_found(depth: int) -> None:
    assert problems.run_kernel(Tree(depth)) == Tree(depth).known_nodes()


@pytest.mark.slow
def test_the_tree_t1l_of_the_reference_distribution_is_counted() -> None:
    assert problems.run_kernel(Tree(13, 29)) == 102181082


@pytest.mark.parametrize(
    "tree", [Tree(6), Tree(5, 1), Tree(7, 29), Tree(7, 3, 2), Tree(30, 5, 1), Tree(3, 7, 20), Tree(2, 11, 100)]
)
def test_kernels_agree_with_the_oracle(any_kernel: str, tree: Tree) -> None:
    assert problems.run_kernel(tree) == count_nodes(tree)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != FIXED])
@pytest.mark.parametrize(("depth", "seed", "branching"), [(2, 1, 3), (6, 7, 4), (9, 19, 3), (12, 5, 2)])
def test_kernels_agree_with_the_oracle_on_every_shape(
    any_kernel: str, shape: str, depth: int, seed: int, branching: int
) -> None:
    tree = Tree(depth, seed, branching, shape)
    assert problems.run_kernel(tree) == count_nodes(tree)


@pytest.mark.parametrize(
    "tree",
    [
        HybridTree(6, 4, 4, "linear", probability=0.23, children=4),
        HybridTree(8, 5, 3, "cyclic", probability=0.3, children=3),
        HybridTree(9, 7, 5, "expdec", probability=0.0, children=2),
        HybridTree(4, 11, 9, "linear", probability=0.45, children=2),
    ],
    ids=str,
)
def test_kernels_agree_with_the_oracle_on_hybrid_trees(any_kernel: str, tree: HybridTree) -> None:
    expected = count_nodes(tree)
    assert problems.run_kernel(tree) == expected > 1
    check_bag(lambda: HybridBag.of_tree(tree), Count, lambda result: result.value, expected, granularity=50)


@pytest.mark.parametrize("name", ["T1", "T2", "T3", "T4", "T5"])
def test_the_small_published_trees_have_the_published_counts(name: str) -> None:
    assert problems.run_kernel(SAMPLES[name]) == SAMPLES[name].known_nodes()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["T1L", "T1XL", "T1XXL", "T2L", "T3L"])
def test_the_large_published_trees_have_the_published_counts(name: str) -> None:
    assert problems.run_kernel(SAMPLES[name]) == SAMPLES[name].known_nodes()


@pytest.mark.slow
def test_plain_search_agrees_on_a_published_tree() -> None:
    assert count_nodes(SAMPLES["T2"]) == 4117769


def test_most_nodes_are_counted_without_hashing() -> None:
    bag = UtsBag.of_tree(Tree(8))
    bag.process(1 << 40)
    assert 3.9 < bag.work / bag.hashed < 4.1


def test_a_budget_of_one_node_hashes_one_vector(any_kernel: str) -> None:
    lanes = kernel.CAPACITY // 2
    bag = UtsBag.of_tree(Tree(8))
    while True:
        before = bag.hashed
        more = bag.process(1)
        assert 0 < bag.hashed - before <= lanes
        if not more:
            break


def test_a_bag_may_travel_between_places_with_different_kernels() -> None:
    bag = UtsBag.of_tree(Tree(8))
    more = True
    for expand, capacity in [(plain.expand, plain.CAPACITY), (kernel.expand, kernel.CAPACITY)] * 20:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernel, "expand", expand)
            patch.setattr(kernel, "CAPACITY", capacity)
            bag = pickle.loads(pickle.dumps(bag))
            more = bag.process(5000)
    while more:
        more = bag.process(5000)
    assert bag.count == 257042


def test_numpy_hashes_as_hashlib_does() -> None:
    messages = np.random.default_rng(1).integers(0, 1 << 32, (50, 6), np.uint32)
    expected = [hashlib.sha1(message.astype(">u4").tobytes()).digest() for message in messages]
    assert [digest.astype(">u4").tobytes() for digest in plain.sha1(messages)] == expected


@pytest.mark.parametrize(
    "tree",
    [Tree(2, 1, 1), Tree(2), Tree(3, 1, 50), Tree(3, 1, 5, "linear"), Tree(2, 1, 9, "cyclic")],
    ids=str,
)
def test_the_integer_laws_are_the_logarithm(tree: Tree) -> None:
    integer = law(tree)
    for level in range(2, tree.levels + 1):
        mean, row = tree.mean_children(tree.levels - level + 1), integer.of_level[level]
        words = [0, 1, (1 << 31) - 1, *np.random.default_rng(2).integers(0, 1 << 31, 500).tolist()]
        edges = [word for edge in integer.thresholds[row].tolist() for word in (edge - 1, edge) if 0 <= word < 1 << 31]
        for word in words + edges:
            children = int(np.searchsorted(integer.thresholds[row], np.uint32(word), side="right")) - 1
            assert children == child_count(word, mean)
            assert integer.guess[row, word >> 20] <= children


def test_a_second_process_loads_the_kernel_instead_of_compiling_it() -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    code = (
        "from benchmarks.uts.vector import expand as uts; from benchmarks.nqueens.vector import expand as queens\n"
        "print(*(sum(e.stats.cache_misses.values()) + len(e.stats.cache_hits) for e in (uts, queens)))\n"
        "print(*(len(e.stats.cache_hits) for e in (uts, queens)))"
    )
    done = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    assert done[1] == ["1", "1", "1", "1"]
