"""The description of UTS for the harness."""

from __future__ import annotations

import pickle

import pytest

from benchmarks.harness.errors import BadUsage
from benchmarks.levelbag import Count
from benchmarks.uts.command import SAMPLE_NAMES, benchmark_of, command
from benchmarks.uts.problems import SAMPLES
from benchmarks.uts.tree import Tree


def test_the_benchmark_describes_the_tree() -> None:
    benchmark = command(6, 19, 4)
    assert benchmark.parameters.items() >= {"depth": 6, "seed": 19, "branching": 4}.items()
    assert benchmark.known() == benchmark.expected() == 16000
    assert benchmark.value(Count(7)) == 7


def test_an_unknown_tree_is_counted_for_verification_only() -> None:
    benchmark = benchmark_of(Tree(6, 21))
    assert benchmark.known() is None
    assert benchmark.expected() == 7841


def test_what_travels_can_be_pickled() -> None:
    benchmark = command(6)
    pickle.loads(pickle.dumps(benchmark.warm_up))()
    assert pickle.loads(pickle.dumps(benchmark.make_result))() == Count(0)


@pytest.mark.parametrize(
    ("arguments", "culprit"), [((-1, 19, 4), "--depth -1"), ((5, -2, 4), "--seed -2"), ((5, 19, 0), "--branching 0")]
)
def test_impossible_options_are_named(arguments: tuple[int, int, int], culprit: str) -> None:
    with pytest.raises(BadUsage) as caught:
        command(*arguments)
    assert caught.value.culprit == culprit


@pytest.mark.parametrize(
    ("shape", "depth", "culprit"),
    [("square", 5, "--shape square"), ("expdec", 1, "--depth 1"), ("cyclic", 101, "--depth 101")],
)
def test_impossible_shapes_are_named(shape: str, depth: int, culprit: str) -> None:
    with pytest.raises(BadUsage) as caught:
        command(depth, shape=shape)
    assert caught.value.culprit == culprit


def test_a_published_tree_has_its_own_shape() -> None:
    assert command(sample="T5").parameters == {"shape": "linear", "depth": 20, "seed": 34, "branching": 4}
    with pytest.raises(BadUsage) as caught:
        command(sample="T5", shape="cyclic")
    assert caught.value.culprit == "--sample T5 --shape cyclic"


def test_the_help_names_every_published_tree() -> None:
    assert tuple(SAMPLES) == SAMPLE_NAMES
