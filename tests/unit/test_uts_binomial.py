"""Binomial trees: the bag, both kernels, and the published trees."""

from __future__ import annotations

import pickle

import pytest
from support.oracles import count_nodes

from benchmarks.harness.errors import BadUsage
from benchmarks.levelbag import Count
from benchmarks.uts import kernel, plain, problems
from benchmarks.uts.binomial import BinomialBag, BinomialTree
from benchmarks.uts.command import command
from benchmarks.uts.problems import SAMPLES
from glb.testing import check_bag

SMALL = BinomialTree(200, 0.24, 4, 5)


@pytest.fixture(params=["loaded", "plain"])
def any_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain":
        monkeypatch.setattr(kernel, "expand_binomial", plain.expand_binomial)
        monkeypatch.setattr(kernel, "CAPACITY", plain.CAPACITY)
    return str(request.param)


@pytest.mark.parametrize(
    "tree", [SMALL, BinomialTree(0, 0.3, 2, 1), BinomialTree(3000, 0.0, 2, 1), BinomialTree(7, 0.49, 2, 9)]
)
def test_kernels_agree_with_the_oracle(any_kernel: str, tree: BinomialTree) -> None:
    assert problems.run_kernel(tree) == count_nodes(tree)


def test_the_published_tree_t3_is_counted() -> None:
    bag = BinomialBag.of_tree(BinomialTree(2000, 0.124875, 8, 42))
    while bag.process(1000):
        pass
    assert bag.count == bag.work == SAMPLES["T3"].known_nodes() == 4112897


def test_every_published_tree_has_a_recorded_count() -> None:
    assert all(tree.known_nodes() for tree in SAMPLES.values())
    assert BinomialTree(2000, 0.124875, 8, 43).known_nodes() is None


@pytest.mark.parametrize("granularity", [1, 64])
def test_the_bag_keeps_the_protocol(granularity: int) -> None:
    tree = BinomialTree(100, 0.2495, 4, 5)
    check_bag(
        lambda: BinomialBag.of_tree(tree),
        Count,
        lambda result: result.value,
        count_nodes(tree),
        granularity=granularity,
    )


def test_a_full_stack_grows_between_calls_of_the_kernel() -> None:
    bag = BinomialBag.of_tree(SAMPLES["T3"])  # type: ignore[arg-type]  # a binomial one
    room = bag.queue.data.shape[1]
    bag.process(100_000)
    assert bag.queue.data.shape[1] > room
    assert bag.work >= 100_000


def test_half_of_the_children_of_the_root_are_given_away() -> None:
    bag = BinomialBag.of_tree(BinomialTree(2000, 0.124875, 8, 42))
    part = bag.split(False)
    assert part is not None
    assert (len(bag), len(part)) == (1000, 1000)
    part = pickle.loads(pickle.dumps(part))
    assert isinstance(part, BinomialBag)
    bag.merge(part)
    while bag.process(100_000):
        pass
    assert bag.count == 4112897


def test_a_supercritical_tree_can_be_split() -> None:
    bag = BinomialBag.of_tree(SAMPLES["T3L"])  # type: ignore[arg-type]  # a binomial one
    bag.process(100)
    part = bag.split(False)
    assert part is not None
    assert abs(len(bag) - len(part)) <= 2


def test_a_published_tree_is_chosen_by_name() -> None:
    benchmark = command(sample="T3")
    assert benchmark.known() == 4112897
    assert dict(benchmark.parameters) == {"root_children": 2000, "probability": 0.124875, "children": 8, "seed": 42}
    assert command(sample="T1").known() == 4130071


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [({"sample": "T9"}, "--sample T9"), ({"sample": "T3", "depth": 4}, "--sample T3 --depth 4")],
)
def test_unknown_and_mixed_trees_are_refused(arguments: dict[str, object], culprit: str) -> None:
    with pytest.raises(BadUsage) as caught:
        command(**arguments)  # type: ignore[arg-type]  # a binomial one
    assert caught.value.culprit == culprit
